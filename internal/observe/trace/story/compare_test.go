package story

import (
	"slices"
	"strings"
	"testing"

	"perigee"
)

const (
	chatWhole   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello","tool_calls":[{"id":"c","function":{"name":"read","arguments":"{\"b\": 1, \"a\": [2]}"}}]}}]}`
	chatStream  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n: keep-alive\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\",\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"read\",\"arguments\":\"{\\\"a\\\":[2],\"}}]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"b\\\":1}\"}}]}}]}\n\ndata: [DONE]\n\n"
	claudeWhole = `{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"hello"},{"type":"tool_use","name":"read","input":{"b":1,"a":[2]}}]}`
	claudeSSE   = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"name\":\"read\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":[2],\\\"b\\\":1}\"}}\n\n"
	response    = `{"object":"response","error":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"hello"}]},{"type":"function_call","name":"read","arguments":"{\"a\":[2],\"b\":1}"}]}`
	responseSSE = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\ndata: {\"type\":\"response.completed\",\"response\":" + response + "}\n\n"
	geminiWhole = `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"hello"},{"functionCall":{"name":"read","args":{"b":1,"a":[2]}}}]}}]}`
	geminiArray = `[{"candidates":[{"content":{"parts":[{"text":"hel"}]}}]},{"candidates":[{"content":{"parts":[{"text":"lo"},{"functionCall":{"name":"read","args":{"a":[2],"b":1}}}]}}]}]`
	geminiSSE   = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hello\"}]}}]}\r\n\r\ndata: {}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"read\",\"args\":{\"a\":[2],\"b\":1}}}]}}]}\r\n\r\n"
)

// The same answer is the same in every dialect, streamed or not.
func TestAnswersOfAllDialects(t *testing.T) {
	record := &perigee.Trace{Notes: []string{"dropped logprobs"}, CachedTokens: 2}
	record.InputTokens = 7
	for name, body := range map[string]string{"chat": chatWhole, "chat stream": chatStream, "anthropic": claudeWhole, "anthropic stream": claudeSSE,
		"responses": response, "responses stream": responseSSE, "gemini": geminiWhole, "gemini array": geminiArray, "gemini stream": geminiSSE} {
		got := ReadAnswer([]byte(body), record)
		if got.Text != "hello" || !slices.Equal(got.Calls, []AnswerCall{{"read", `{"a":[2],"b":1}`}}) || got.Error != "" || got.Usage.Input != 7 {
			t.Errorf("%s: %+v", name, got)
		}
		if r := Compare(got, ReadAnswer([]byte(chatWhole), record)); !r.Same || r.Differences == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestErrorsAreRead(t *testing.T) {
	for _, body := range []string{`{"error":{"message":"no such model","code":404}}`, `[{"error":{"message":"no such model"}}]`,
		"data: {\"type\":\"error\",\"error\":{\"type\":\"x\",\"message\":\"no such model\"}}\n\n",
		"data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"no such model\"}}}\n\n"} {
		if got := ReadAnswer([]byte(body), nil); got.Error != "no such model" {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if got := ReadAnswer(nil, &perigee.Trace{Error: "canceled"}); got.Error != "canceled" {
		t.Errorf("%+v", got)
	}
}

func TestDifferences(t *testing.T) {
	was := Answer{Text: "one\ntwo\n", Calls: []AnswerCall{{"read", `{"a":1}`}}, Usage: perigee.Usage{Input: 5, Output: 3}, Notes: []string{"dropped x"}}
	is := Answer{Text: "one\n2\n", Usage: perigee.Usage{Input: 5, Output: 4}, Notes: []string{"dropped x", "dropped y"}}
	want := []Difference{{"text", "one\ntwo\n", "one\n2\n"}, {"tool_calls[0]", `read({"a":1})`, ""}, {"usage.output_tokens", "3", "4"}, {"notes[1]", "", "dropped y"}}
	if r := Compare(was, is); r.Same || !slices.Equal(r.Differences, want) {
		t.Errorf("got %+v", r)
	}
	diff := Unified("call c1", was, "call c2", is)
	for _, line := range []string{"--- call c1\n+++ call c2\n", " one\n-two\n", "+2\n", "-tool call: read({\"a\":1})\n", "-output tokens: 3\n+output tokens: 4\n", "+note: dropped y\n"} {
		if !strings.Contains(diff, line) {
			t.Errorf("no %q in\n%s", line, diff)
		}
	}
	if diff := Unified("a", was, "b", was); diff != "" {
		t.Errorf("got %s", diff)
	}
}

// A secret is in one piece only after the deltas were joined.
func TestRedactedAnswers(t *testing.T) {
	body := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"my-\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"secret\"}}]}\n\n")
	answer := ReadAnswer(body, &perigee.Trace{Notes: []string{"dropped my-secret"}})
	answer.Calls = []AnswerCall{{"my-secret", `{"a":"my-secret"}`}}
	got := answer.Redacted(func(text string) string { return strings.ReplaceAll(text, "my-secret", "[redacted]") })
	if answer.Text != "my-secret" || strings.Contains(got.String(), "my-secret") || strings.Count(got.String(), "[redacted]") != 4 {
		t.Errorf("%q became %q", answer.String(), got.String())
	}
}
