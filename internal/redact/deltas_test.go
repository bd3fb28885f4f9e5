package redact

import (
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
		if got := string(r.Deltas([]byte(test.stream))); got != want {
			t.Errorf("%s: got %q", test.name, got)
		}
		if got := r.Spelled([]byte(test.stream)); got != (test.want != "" && strings.Contains(test.stream, `"text"`)) {
			t.Errorf("%s: spelled is %v", test.name, got)
		}
	}
	var nothing *Redactor
	if nothing.Spelled([]byte(`{"text":"a"}`)) || string(nothing.Deltas([]byte("x"))) != "x" {
		t.Error("without secrets")
	}
}
