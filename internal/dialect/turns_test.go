package dialect_test

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// play builds a conversation out of words: "m" and "u" are messages, "M" and "U" parts, "c1" calls
// with the id 1 in one message, "r1" is the result of 1, "s" is an instruction. It returns the contents, one word each.
func play(b *dialect.Builder, words string) string {
	for word := range strings.FieldsSeq(words) {
		part := perigee.Part{Text: perigee.Plain(word)}
		switch word[0] {
		case 'm':
			b.Model([]perigee.Part{part})
		case 'M':
			b.ModelPart(part)
		case 'u':
			b.User([]perigee.Part{part})
		case 'U':
			b.UserPart(part)
		case 's':
			b.InstructionPart(perigee.RoleSystem, part)
		case 'c', 'C':
			var parts []perigee.Part
			for _, id := range word[1:] {
				call := &perigee.FunctionCall{ID: string(id), Name: "f" + string(id)}
				parts = append(parts, perigee.Part{Kind: perigee.PartCall, Call: call})
			}
			if word[0] == 'c' {
				b.Model(parts)
				continue
			}
			for _, p := range parts {
				b.ModelPart(p)
			}
		case 'r':
			match := b.Take([]byte(word[1:]), "")
			response := &perigee.FunctionResponse{ID: word[1:], Name: "none"}
			if match.Call != nil {
				response.Name = match.Call.Name
			}
			b.Result(match, response, nil)
		}
	}
	b.Close()
	var out []string
	for _, c := range b.Contents {
		s := c.Role + ":"
		for _, p := range c.Parts {
			switch p.Kind {
			case perigee.PartCall:
				s += "c" + p.Call.ID
			case perigee.PartResponse:
				s += "r" + p.Response.ID + "=" + p.Response.Name + string(p.Response.Response)
			default:
				s += rawjson.Unescaped(p.Text.Form())
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestLayouts(t *testing.T) {
	const missing = `{"error":"thetoolgavenoresult"}`
	for _, test := range []struct {
		name    string
		join    bool
		missing bool
		words   string
		want    string
	}{
		{"messages stay apart", false, false, "u1 u2 m1 m2", "user:u1 user:u2 model:m1 model:m2"},
		{"results come in the order of the calls", false, false, "u1 c12 r2 r1 m1", "user:u1 model:c1c2 user:r1=f1r2=f2 model:m1"},
		{"results come before what was said meanwhile", false, false, "c1 u1 r1 u2 m1", "model:c1 user:r1=f1 user:u1 user:u2 model:m1"},
		{"a call without a result gets an error", false, true, "c12 r2 m1", "model:c1c2 user:r1=f1" + missing + "r2=f2 model:m1"},
		{"also when the user only goes on", false, true, "c1 u1", "model:c1 user:r1=f1" + missing + " user:u1"},
		{"calls at the end wait for their results", false, true, "u1 c1", "user:u1 model:c1"},
		{"what is said after calls is joined", true, false, "u1 u2 c1 u3 r1 u4 m1 u5", "user:u1 user:u2 model:c1 user:r1=f1u3u4 model:m1 user:u5"},
		{"a result without its call goes last", true, false, "c1 r9 r1", "model:c1 user:r1=f1r9=none"},
		{"and so does one of an earlier turn", true, false, "c1 r1 c2 r1 r2", "model:c1 user:r1=f1 model:c2 user:r2=f2r1=f1"},
		{"an id may come again", true, false, "c1 r1 c1 r1", "model:c1 user:r1=f1 model:c1 user:r1=f1"},
		{"parts in a row are a turn", false, false, "U1 U2 M1 C12 r2 U3 r1 M2 M3", "user:U1U2 model:M1c1c2 user:r1=f1r2=f2U3 model:M2M3"},
		{"instructions keep their place", false, false, "u1 s1 s2 m1 s3 u2", "user:u1 system:s1s2 model:m1 system:s3 user:u2"},
		{"also among parts", false, false, "U1 s1 U2 M1 s2 M2 C1 r1 s3 U3", "user:U1 system:s1 user:U2 model:M1 system:s2 model:M2c1 user:r1=f1 system:s3 user:U3"},
		{"results come before an instruction", false, false, "c12 s1 r2 r1 m1", "model:c1c2 user:r1=f1r2=f2 system:s1 model:m1"},
		{"also where messages are joined", true, false, "c1 s1 r1 u1 m1", "model:c1 user:r1=f1u1 system:s1 model:m1"},
		{"without results there is no turn for them", false, false, "c1 s1 m1", "model:c1 system:s1 model:m1"},
	} {
		b := &dialect.Builder{JoinAfterCalls: test.join}
		count := 0
		if test.missing {
			b.Missing = func() { count++ }
		}
		got := strings.ReplaceAll(play(b, test.words), "the tool gave no result", "thetoolgavenoresult")
		if got != test.want {
			t.Errorf("%s: %s\ngot  %s\nwant %s", test.name, test.words, got, test.want)
		}
		if wrong := strings.Count(test.want, missing); count != wrong {
			t.Errorf("%s: %d missing results were reported, want %d", test.name, count, wrong)
		}
	}
}

// TestStrictMatches has results that name their calls badly.
func TestStrictMatches(t *testing.T) {
	b := &dialect.Builder{Missing: func() {}}
	var parts []perigee.Part
	for i := range 4 {
		parts = append(parts, perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: fmt.Sprint(i), Name: "f" + fmt.Sprint(i%2)}})
	}
	b.Model(parts)
	for _, test := range []struct {
		id, name, call string
		exact          bool
	}{
		{"3", "", "3", true},
		{"3", "", "", false}, // it has its result
		{"", "f1", "1", true},
		{"x", "f0", "0", false},
		{"", "", "2", false},
		{"", "", "", false},
	} {
		m := b.Take([]byte(test.id), test.name)
		got := ""
		if m.Call != nil {
			got = m.Call.ID
		}
		if got != test.call || m.Exact != test.exact {
			t.Errorf("a result of %q %q is for %q, %v", test.id, test.name, got, m.Exact)
		}
	}
}
