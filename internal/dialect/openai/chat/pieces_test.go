package chat

import (
	"strings"
	"testing"

	"perigee"
)

// The chunks for a call that comes in pieces, each with the delta alone.
func TestCallsInPieces(t *testing.T) {
	call := &perigee.FunctionCall{ID: "1", Name: "f", Args: []byte(`{"input":"a\"b"}`)}
	piece := func(text string) perigee.Event {
		return perigee.Event{Kind: perigee.EventCallPart, Text: text, Call: &perigee.FunctionCall{ID: "1", Name: "f"}}
	}
	whole := perigee.Event{Kind: perigee.EventCall, Call: call}
	signed := whole
	signed.Signature = "S"
	for name, c := range map[string]struct {
		style  Style
		events []perigee.Event
		want   []string
	}{
		"a function": {Style{}, []perigee.Event{piece(""), piece(`{"input":"a\`), piece(`"b"}`), whole}, []string{
			`"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]`,
			`"tool_calls":[{"index":0,"function":{"arguments":"{\"input\":\"a\\"}}]`,
			`"tool_calls":[{"index":0,"function":{"arguments":"\"b\"}"}}]`}},
		"a custom tool": {Style{Custom: []string{"f"}}, []perigee.Event{piece(`{"inp`), piece(`ut":"a\`), piece(`"b"`), piece("}"), whole}, []string{
			`"tool_calls":[{"index":0,"id":"1","type":"custom","custom":{"name":"f","input":""}}]`,
			`"tool_calls":[{"index":0,"custom":{"input":"a"}}]`,
			`"tool_calls":[{"index":0,"custom":{"input":"\"b"}}]`}},
		"function_call": {Style{Functions: true}, []perigee.Event{piece("{"), piece("}"), whole}, []string{
			`"function_call":{"name":"f","arguments":"{"}`, `"function_call":{"arguments":"}"}`}},
		"no arguments in the pieces": {Style{}, []perigee.Event{piece(""), whole}, []string{
			`"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]`,
			`"tool_calls":[{"index":0,"function":{"arguments":"{\"input\":\"a\\\"b\"}"}}]`}},
		"a signature at the end": {Style{}, []perigee.Event{piece("{}"), signed}, []string{
			`"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`,
			`"tool_calls":[{"index":0,"function":{"arguments":""},"extra_content":{"google":{"thought_signature":"S"}}}]`}},
	} {
		s := NewStream(Answer{ID: "c", Style: &c.style})
		var got []string
		for i := range c.events {
			for line := range strings.SplitSeq(string(s.Encode(nil, &c.events[i])), "\n") {
				if _, delta, ok := strings.Cut(line, `"delta":{`); ok && !strings.Contains(delta, `"role"`) {
					delta, _, _ = strings.Cut(delta, `},"logprobs"`)
					got = append(got, delta)
				}
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if end := string(s.End(nil)); !strings.Contains(end, `_call`) {
			t.Errorf("%s: ends with %s", name, end)
		}
	}
}
