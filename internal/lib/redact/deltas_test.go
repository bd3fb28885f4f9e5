package redact

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"perigee"
)

// A model can spell a secret in any pieces, in each dialect.
func TestSecretsSpreadOverDeltas(t *testing.T) {
	r := New(perigee.NewSecret("the-secret-key"), perigee.NewSecret("another/secret"))
	for _, test := range []struct{ name, stream, want string }{
		{"lines", "{\"kind\":\"text\",\"text\":\"my the-\"}\n{\"kind\":\"usage\"}\n{\"kind\":\"text\",\"text\":\"secret\"}\n{\"kind\":\"text\",\"text\":\"-key!\"}\n",
			"{\"kind\":\"text\",\"text\":\"my [redacted]\"}\n{\"kind\":\"usage\"}\n{\"kind\":\"text\",\"text\":\"\"}\n{\"kind\":\"text\",\"text\":\"!\"}\n"},
		{"server-sent events", "event: a\ndata: {\"delta\": {\"content\": \"another\\/se\"}}\r\n\r\ndata: {\"delta\": {\"content\": \"cret\"}}\r\n\r\n",
			"event: a\ndata: {\"delta\": {\"content\": \"[redacted]\"}}\r\n\r\ndata: {\"delta\": {\"content\": \"\"}}\r\n\r\n"},
		{"two in a row", "{\"text\":\"the-secret\"}\n{\"text\":\"-keythe-\"}\n{\"text\":\"secret-key\"}\n", "{\"text\":\"[redacted]\"}\n{\"text\":\"[redacted]\"}\n{\"text\":\"\"}\n"},
		{"other members between", "{\"id\":\"1\",\"text\":\"the-sec\"}\n{\"id\":\"1\",\"text\":\"ret-key\"}\n", "{\"id\":\"1\",\"text\":\"[redacted]\"}\n{\"id\":\"1\",\"text\":\"\"}\n"},
		{"no secret", "{\"text\":\"the-\"}\n{\"text\":\"secrets\"}\n", ""},
		{"members of other names", "{\"text\":\"the-secret\"}\n{\"other\":\"-key\"}\n", ""},
		{"no JSON", "say \"the-secret\n-key\" : \"x\ndata: \\\"\n\"", ""},
	} {
		want := test.want
		if want == "" {
			want = test.stream
		}
		if got := string(r.Deltas([]byte(test.stream), false)); got != want {
			t.Errorf("%s: got %q", test.name, got)
		}
		if got := r.HasSpread([]byte(test.stream), false); got != (test.want != "" && strings.Contains(test.stream, `"text"`)) {
			t.Errorf("%s: spelled is %v", test.name, got)
		}
	}
	var nothing *Redactor
	if nothing.HasSpread([]byte(`{"text":"a"}`), true) || string(nothing.Deltas([]byte("x"), true)) != "x" {
		t.Error("without secrets")
	}
}

// dialects are how an answer spells text, a piece in each event.
var dialects = map[string]string{
	"events.jsonl": "{\"ms\":1,\"kind\":\"text\",\"text\":%s}\n",
	"chat":         "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n",
	"responses":    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m1\",\"delta\":%s}\n\n",
	"messages":     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%s}}\n\n",
	"gemini":       "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%s}],\"role\":\"model\"}}]}\r\n\r\n",
}

// A stream may be cut at any byte, and no four characters of a secret in a row are left in the
// values that a reader joins.
func TestBeginningsOfSecretsInStreamsThatAreCut(t *testing.T) {
	const secret = "perigee/key+0123\"9zyx<w>"
	r := New(perigee.NewSecret(secret), perigee.NewSecret("another secret"))
	checked := 0
	for name, format := range dialects {
		for _, size := range []int{1, 3, 8} {
			var whole strings.Builder
			for text := "It is " + secret; text != ""; {
				n := min(size, len(text))
				fmt.Fprintf(&whole, format, strconv.Quote(text[:n]))
				text = text[n:]
			}
			for end := range whole.Len() + 1 {
				clean := r.Deltas([]byte(whole.String()[:end]), true)
				for _, joined := range JoinMembers(clean) {
					checked++
					if strings.Contains(string(joined), secret[:4]) || strings.Contains(string(joined), secret[10:14]) {
						t.Fatalf("%s in pieces of %d, cut at %d: %s", name, size, end, clean)
					}
				}
			}
		}
	}
	if checked < 10_000 {
		t.Errorf("only %d values", checked)
	}
	if got := string(r.Deltas([]byte(`{"text":"a per"}`), true)); got != `{"text":"a per"}` {
		t.Errorf("three characters: %s", got)
	}
	if whole := `{"text":"a perigee"}`; string(r.Deltas([]byte(whole), false)) != whole {
		t.Error("a stream that is complete may end like a secret begins")
	}
}
