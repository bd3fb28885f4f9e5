package adapt

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
)

// Short schemas whose references multiply are each written out to a usual size, but not thousands
// of them.
func TestManySchemasTogetherStaySmall(t *testing.T) {
	var doubling strings.Builder // twelve definitions, each of which mentions the next one twice
	for i := range 12 {
		fmt.Fprintf(&doubling, `"%c":{"properties":{"a":{"$ref":"%c"},"b":{"$ref":"%c"}}},`, 'a'+i, 'b'+i, 'b'+i)
	}
	schema := `{"$defs":{` + doubling.String() + `"m":{"type":"string"}},"properties":{"a":{"$ref":"a"}}}`
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("hi")}}}}}
	const tools = 1000
	for i := range tools {
		p.Tools = append(p.Tools, perigee.Tool{Function: &perigee.Function{Name: fmt.Sprint("tool_", i), Parameters: []byte(schema)}})
	}
	for _, model := range []string{"gemini-3-flash", "claude-opus-4-6-thinking"} {
		prepared := ForAntigravity(p, models.Of(model), AntigravityOptions{})
		size := 0
		for _, tool := range prepared.Prompt.Tools {
			size += len(tool.Function.Parameters)
		}
		if first := len(prepared.Prompt.Tools[0].Function.Parameters); first < 10*len(schema) {
			t.Errorf("%s: the first schema, of %d bytes, is cut at %d", model, len(schema), first)
		}
		if limit := maxGrown + 10*tools*len(schema); size > limit {
			t.Errorf("%s: %d KB of schemas became %d KB", model, tools*len(schema)>>10, size>>10)
		}
	}
}

// Whatever a provider sends as the arguments of a call, clients get an object.
func TestArgumentsAreObjects(t *testing.T) {
	undo := ForAntigravity(&perigee.Prompt{Tools: []perigee.Tool{{Function: &perigee.Function{Name: "read"}}}}, models.Of("gemini-3-flash"), AntigravityOptions{}).Undo
	for given, want := range map[string]string{
		``: `{}`, `null`: `{}`, `{"a":1}`: `{"a":1}`, `"{\"a\":1}"`: `{"a":1}`, `"a"`: `{"input":"a"}`, `[1]`: `{"input":[1]}`, `12`: `{"input":12}`,
	} {
		ev := perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "read", Args: []byte(given)}}
		undo.Event(&ev)
		if got := string(ev.Call.Args); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}
