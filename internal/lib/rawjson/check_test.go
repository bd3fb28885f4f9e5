package rawjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest"
)

func TestCheckAccepts(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d":0`, i)
	}
	for _, text := range []string{
		`null`, `true`, `false`, `0`, `-0`, `10`, `1.5`, `-1.5e10`, `1E+2`, `1e-2`, `0.0`, `0e0`, `1e400`, `""`, `"a"`, `[]`, `{}`,
		" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n", `[[],{},[[]]]`, `{"":1}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`,
		`"\"\\\/\b\f\n\r\t\u0000\u12aB"`, `"\ud83d\ude80"`, `"\uD83D\uDE80"`, `"Größe ✓ 🚀 \u2028"`, "\"\u007f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff\"",
		`{"a":1,"A":2,"a ":3,"aaaaaaaa":4,"aaaaaaaaa":5,"aaaaaaaab":6,"\u0062":7}`,
		`{"aaaaaaaabaaaaaaaa":1,"aaaaaaaacaaaaaaaa":2}`,
		`"` + strings.Repeat(`x`, 62) + `\n"`, `"` + strings.Repeat(`x`, 63) + `\""`, `"` + strings.Repeat(`x`, 64) + `\\"`, `"` + strings.Repeat(`\\`, 100) + `"`,
		strings.Repeat("[", rawjson.MaxDepth) + strings.Repeat("]", rawjson.MaxDepth),
		strings.Repeat(`{"a":`, rawjson.MaxDepth) + "1" + strings.Repeat("}", rawjson.MaxDepth),
		"{" + strings.Join(many, ",") + "}", "[{" + strings.Join(many, ",") + "},{" + strings.Join(many, ",") + "}]",
	} {
		if err := rawjson.Check([]byte(text)); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	long := strings.Repeat("long", 100)
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"%d":0,`, i)
	}
	for _, test := range []struct{ text, want string }{
		{``, `line 1, column 1: the text is empty`},
		{" \n ", `line 2, column 2: the text is empty`},
		{"\ufeff{}", `line 1, column 1: byte order mark before the JSON value`},
		{`{} x`, `line 1, column 4: found 'x' after the end of the JSON value`},
		{`1 2`, `line 1, column 3: found '2' after the end of the JSON value`},
		{"{}\x00", `line 1, column 3: found '\x00' after the end of the JSON value`},
		{`nul`, `line 1, column 1: found 'n' where a value should be`},
		{`nullx`, `line 1, column 5: found 'x' after the end of the JSON value`},
		{`True`, `line 1, column 1: found 'T' where a value should be`},
		{`NaN`, `line 1, column 1: found 'N' where a value should be`},
		{`'a'`, `line 1, column 1: found '\'' where a value should be`},
		{`[`, `line 1, column 2 ([0]): the text ends where a value should be`},
		{`[1`, `line 1, column 3 ([0]): the text ends where ',' or ']' should be`},
		{`[1,]`, `line 1, column 4 ([1]): found ']' where a value should be`},
		{`[,1]`, `line 1, column 2 ([0]): found ',' where a value should be`},
		{`[1 2]`, `line 1, column 4 ([0]): found '2' where ',' or ']' should be`},
		{`[1}`, `line 1, column 3 ([0]): found '}' where ',' or ']' should be`},
		{`]`, `line 1, column 1: found ']' where a value should be`},
		{`{`, `line 1, column 2: the text ends where a key or '}' should be`},
		{`{]`, `line 1, column 2: found ']' where a key or '}' should be`},
		{`{"a"`, `line 1, column 5: the text ends where ':' should be`},
		{`{"a" 1}`, `line 1, column 6: found '1' where ':' should be`},
		{`{"a":}`, `line 1, column 6 (a): found '}' where a value should be`},
		{`{"a":1`, `line 1, column 7 (a): the text ends where ',' or '}' should be`},
		{`{"a":1,}`, `line 1, column 8: found '}' where a key should be`},
		{`{"a":1]`, `line 1, column 7 (a): found ']' where ',' or '}' should be`},
		{`{a:1}`, `line 1, column 2: found 'a' where a key or '}' should be`},
		{`{1:1}`, `line 1, column 2: found '1' where a key or '}' should be`},
		{`[1,/* no */2]`, `line 1, column 4 ([1]): found '/' where a value should be`},
		{`-`, `line 1, column 2: the text ends where a digit should be`},
		{`+1`, `line 1, column 1: found '+' where a value should be`},
		{`.5`, `line 1, column 1: found '.' where a value should be`},
		{`1.`, `line 1, column 3: the text ends where a digit should be`},
		{`[1.x]`, `line 1, column 4 ([0]): found 'x' where a digit should be`},
		{`[1e]`, `line 1, column 4 ([0]): found ']' where a digit should be`},
		{`1e+`, `line 1, column 4: the text ends where a digit should be`},
		{`01`, `line 1, column 2: found '1' after a leading zero`},
		{`-01`, `line 1, column 3: found '1' after a leading zero`},
		{`0x1`, `line 1, column 2: found 'x' after the end of the JSON value`},
		{`"abc`, `line 1, column 5: the text ends inside a string`},
		{`"abc\`, `line 1, column 6: the text ends inside a string`},
		{`"abc\"`, `line 1, column 7: the text ends inside a string`},
		{`"abc\u12`, `line 1, column 5: \u without four hexadecimal digits`},
		{`"\u12g4"`, `line 1, column 2: \u without four hexadecimal digits`},
		{`"\x41"`, `line 1, column 2: unknown escape "\\x"`},
		{`"\U0041"`, `line 1, column 2: unknown escape "\\U"`},
		{`"\ü"`, `line 1, column 2: unknown escape "\\ü"`},
		{"\"a\nb\"", `line 1, column 3: control character 0x0a in a string, where it needs an escape`},
		{"{\"a\":\"\x1f\"}", `line 1, column 7 (a): control character 0x1f in a string, where it needs an escape`},
		{`"\ud83d"`, `line 1, column 2: unpaired surrogate \ud83d`},
		{`"\ud83dx\ude80"`, `line 1, column 2: unpaired surrogate \ud83d`},
		{`"\ud83d\ud83d\ude80"`, `line 1, column 2: unpaired surrogate \ud83d`},
		{`"\ude80\ud83d"`, `line 1, column 2: unpaired surrogate \ude80`},
		{`"\ud83d\n"`, `line 1, column 2: unpaired surrogate \ud83d`},
		{`{"\ud83d":1}`, `line 1, column 3: unpaired surrogate \ud83d`},
		{"\"\xff\"", `line 1, column 2: invalid UTF-8: byte 0xff`},
		{"\"✓\x80\"", `line 1, column 3: invalid UTF-8: byte 0x80`},
		{"\"\xc0\x80\"", `line 1, column 2: invalid UTF-8: byte 0xc0`},
		{"\"\xe0\x80\x80\"", `line 1, column 2: invalid UTF-8: byte 0xe0`},
		{"\"\xed\xa0\x80\"", `line 1, column 2: invalid UTF-8: byte 0xed`},
		{"\"\xf4\x90\x80\x80\"", `line 1, column 2: invalid UTF-8: byte 0xf4`},
		{"\"\xf0\x8f\xbf\xbf\"", `line 1, column 2: invalid UTF-8: byte 0xf0`},
		{"\"\xe2\x82\"", `line 1, column 2: invalid UTF-8: byte 0xe2`},
		{"\"\xf0\x9f\x9a", `line 1, column 2: invalid UTF-8: byte 0xf0`},
		{"[\xe2\x9c\x93]", `line 1, column 2 ([0]): found '✓' where a value should be`},
		{"[\xff]", `line 1, column 2 ([0]): invalid UTF-8: byte 0xff`},
		{"[1\xc3\xa4]", `line 1, column 3 ([0]): found 'ä' where ',' or ']' should be`},
		{strings.Repeat("[", 1001), `line 1, column 1001 (` + strings.Repeat("[0]", 40) + `…` + "0]" + strings.Repeat("[0]", 26) + `): nested deeper than 1000 levels`},
		{`{"a":1,"a":2}`, `line 1, column 8: duplicate key "a"`},
		{`{"a":1,"\u0061":2}`, `line 1, column 8: duplicate key "a"`},
		{`{"\u0061":1,"\u0061":2}`, `line 1, column 13: duplicate key "a"`},
		{`{"\u0061":1,"a":2}`, `line 1, column 13: duplicate key "a"`},
		{`{"":1,"":2}`, `line 1, column 7: duplicate key ""`},
		{`{"\ud83d\ude80":1,"🚀":2}`, `line 1, column 19: duplicate key "🚀"`},
		{"{\n  \"contents\": [\n    {\"text\": 1, \"text\": 2}]}", `line 3, column 17 (contents[0]): duplicate key "text"`},
		{`{"a":1,"a":2,`, `line 1, column 8: duplicate key "a"`},
		{`{"a":1,"a":{"b":1,"b":2}}`, `line 1, column 8: duplicate key "a"`},
		{`{"a":{"b":1,"b":2},"a":1}`, `line 1, column 13 (a): duplicate key "b"`},
		{`{"a":1,"a":[{"b":[{"c":1,"c":2,`, `line 1, column 8: duplicate key "a"`},
		{`{"a":[1,{"b":1,"b":x}]}`, `line 1, column 16 (a[1]): duplicate key "b"`},
		{"{" + many.String() + `"999":1}`, `line 1, column 7892: duplicate key "999"`},
		{"{" + many.String() + `"\u0030":1}`, `line 1, column 7892: duplicate key "0"`},
		{`{"` + long + `":1,"` + long + `":2}`, `line 1, column 407: duplicate key "longlonglonglonglonglonglonglonglonglong"…`},
		{`{"` + long + `":x}`, `line 1, column 405 (["` + long[:40] + `"…]): found 'x' where a value should be`},
		{`{"a b":[{"ü\n":x}]}`, `line 1, column 16 (["a b"][0]["ü\n"]): found 'x' where a value should be`},
		{`{"a":[{"b":[1,2,{"c":x}]}]}`, `line 1, column 22 (a[0].b[2].c): found 'x' where a value should be`},
	} {
		err := rawjson.Check([]byte(test.text))
		if err == nil || err.Error() != test.want {
			t.Errorf("%.100s\n got %v\nwant %s", test.text, err, test.want)
		}
		if _, ok := errors.AsType[*rawjson.Error](err); !ok {
			t.Errorf("%.100s: got a %T", test.text, err)
		}
	}
}

// TestCheckAtEveryPlace puts each special thing at each distance from block borders and from the
// end of the text.
func TestCheckAtEveryPlace(t *testing.T) {
	for piece, valid := range map[string]bool{
		`\n`: true, `\"`: true, `\\`: true, `\\\"`: true, `\u00e4`: true, `\ud83d\ude80`: true, "ä": true, "✓": true, "🚀": true, "\u007f": true,
		`\x`: false, `\u12`: false, `\ud83d`: false, "\x1f": false, "\x80": false, "\xc3": false, "\xe2\x9c": false, "\xf0\x9f\x9a": false, "\n": false,
	} {
		for before := range 140 {
			for _, after := range []int{0, 1, 7, 8, 60, 100} {
				text := []byte(`"` + strings.Repeat("x", before) + piece + strings.Repeat("y", after) + `"`)
				if err := rawjson.Check(text); (err == nil) != valid {
					t.Fatalf("%q: %v", text, err)
				}
				if err := rawjson.Check(text[:len(text)-1]); err == nil {
					t.Fatalf("%q: accepted without its end", text)
				}
				if !valid {
					continue
				}
				var want string
				if err := json.Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
				if got := rawjson.NewCursor(text).String(); got != want {
					t.Fatalf("%q: got %q, want %q", text, got, want)
				}
			}
		}
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	perigeetest.Unraced(t)
	data := agentBody(100 << 10)
	check := func() {
		if err := rawjson.Check(data); err != nil {
			t.Fatal(err)
		}
	}
	// A garbage collection may empty the pool between two runs, hence the fraction.
	if allocs := testing.AllocsPerRun(200, check); allocs >= 1 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestNumbersBeyondFloat64AreRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		`[1e308,-1.7e308,1e-400,0e999,123456789012345678901234567890]`: true,
		`{"a":[1,{"b":1e309}]}`:                false,
		`-1E+400`:                              false,
		`[` + strings.Repeat("9", 308) + `]`:   true,
		`[` + strings.Repeat("9", 310) + `]`:   false,
		`[0.` + strings.Repeat("9", 400) + `]`: true,
		`"1e999"`:                              true,
	} {
		if _, err := rawjson.CheckCount([]byte(text)); (err == nil) != ok {
			t.Errorf("%.40s: got %v", text, err)
		}
		if err := rawjson.Check([]byte(text)); err != nil {
			t.Errorf("%.40s is JSON: %v", text, err)
		}
	}
	_, err := rawjson.CheckCount([]byte(`{"a":[1,{"b":1e309}]}`))
	if err == nil || !strings.Contains(err.Error(), "a[1].b") || !strings.Contains(err.Error(), "1e309") {
		t.Errorf("got %v", err)
	}
}

// Members are where CheckMembers says: the name between its quotes, the value without what is
// around it.
func TestCheckMembers(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, ``},
		{`{"a":1}`, `"a":1=1;`},
		{" {\t\"a\" : [ 1 , {\"b\":2} ] ,\n\"\\u0062\": \"x,}\" , \"\":{ } } ", "\"a\" : [ 1 , {\"b\":2} ]=[ 1 , {\"b\":2} ];\"\\u0062\": \"x,}\"=\"x,}\";\"\":{ }={ };"},
		{`{"a":{"a":{"b":null}},"c":null}`, `"a":{"a":{"b":null}}={"a":{"b":null}};"c":null=null;`},
		{`[{"a":1}]`, ``},
		{`"a"`, ``},
	} {
		got := ""
		_, err := rawjson.CheckMembers([]byte(c.text), func(m rawjson.Member) {
			got += c.text[m.At:m.End] + "=" + c.text[m.Start:m.End] + ";"
			if string(m.Name) != c.text[m.At+1:m.At+1+len(m.Name)] || c.text[m.At+1+len(m.Name)] != '"' {
				t.Errorf("%s: the name %q is not at %d", c.text, m.Name, m.At)
			}
			if kind := rawjson.NewCursor([]byte(c.text[m.Start:m.End])).Kind(); kind != m.Kind {
				t.Errorf("%s: %s is %v", c.text, m.Name, m.Kind)
			}
		})
		if err != nil || got != c.want {
			t.Errorf("%s\ngot  %s (%v)\nwant %s", c.text, got, err, c.want)
		}
	}
}
