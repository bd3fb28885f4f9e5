package anthropic_test

import (
	"strings"
	"testing"

	"perigee/internal/dialect/anthropic"
	"perigee/internal/lib/rawjson"
)

func TestRemoveFromMessages(t *testing.T) {
	for _, test := range []struct{ messages, want, removed string }{
		{`[{"role":"user","content":"hi"}]`, `[{"role":"user","content":"hi"}]`, ""},
		{`[ {"role":"user", "effort":{"a":[1]}, "content":"hi"} ,{"effort":1,"role":"user","content":"hi"}, {"content":"x","effort":2}]`,
			`[ {"role":"user", "content":"hi"} ,{"role":"user","content":"hi"}, {"content":"x"}]`, "messages[].effort"},
		{`[{"effort":1,"role":"assistant","content":[{"type":"call","name":"x"}, {"type":"text","text":"a"} ,{"type":"result"}]}]`,
			`[{"role":"assistant","content":[ {"type":"text","text":"a"}]}]`, "messages[].effort block call block result"},
		{`[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"result"},{"name":"x","type":"call"}],"effort":1},{"role":"user","content":"more"}]`,
			`[{"role":"user","content":"hi"},{"role":"user","content":"more"}]`, "block result block call messages[].effort"},
		{`[{"role":"user","content":[{"type":"call","name":"y"},{"type":"tool_result","content":[{"type":"result"}],"input":{"type":"result"}}]}]`,
			`[{"role":"user","content":[{"type":"call","name":"y"},{"type":"tool_result","content":[{"type":"result"}],"input":{"type":"result"}}]}]`, ""},
		{`[{"role":"user","content":[]},7,[{"effort":1}],{"content":[{"type":7},8]}]`, `[{"role":"user","content":[]},7,[{"effort":1}],{"content":[{"type":7},8]}]`, ""},
		{`{"effort":1}`, `{"effort":1}`, ""},
	} {
		body := `{"effort":1, "messages":` + test.messages + ` ,"content":[{"type":"result"}]}`
		edits, removed := anthropic.RemoveFromMessages([]byte(body), []string{"effort"}, []string{"call x", "result"})
		want := strings.Replace(body, test.messages, test.want, 1)
		if got := string(rawjson.Splice([]byte(body), edits...)); got != want || rawjson.Check([]byte(got)) != nil {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := strings.Join(removed, " "); got != test.removed {
			t.Errorf("%s: removed %q, want %q", test.messages, got, test.removed)
		}
	}
}

func TestRemoveFromMarks(t *testing.T) {
	const body = `{"cache_control":{"scope":"global","type":"ephemeral"},"system":[{"type":"text","text":"scope","cache_control": {"type":"ephemeral", "scope":"global","ttl":"1h"}}],` +
		`"tools":[{"name":"f","cache_control":{"type":"ephemeral","scope":"user"},"input_schema":{"cache_control":{"scope":1}}},7],` +
		`"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a","cache_control":{"scope":"x"}}],"cache_control":null},{"type":"tool_use","input":{"cache_control":{"scope":1}}}]}],"scope":2}`
	const want = `{"cache_control":{"type":"ephemeral"},"system":[{"type":"text","text":"scope","cache_control": {"type":"ephemeral","ttl":"1h"}}],` +
		`"tools":[{"name":"f","cache_control":{"type":"ephemeral"},"input_schema":{"cache_control":{"scope":1}}},7],` +
		`"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a","cache_control":{}}],"cache_control":null},{"type":"tool_use","input":{"cache_control":{"scope":1}}}]}],"scope":2}`
	for text, want := range map[string]string{body: want, want: want, `{"messages":"scope"}`: `{"messages":"scope"}`} {
		if got := string(rawjson.Splice([]byte(text), anthropic.RemoveFromMarks([]byte(text), "scope")...)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
