package chat

import (
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
)

// Why an answer ended, in the client's word.
func TestFinishReason(t *testing.T) {
	text := perigee.Event{Kind: perigee.EventText, Text: "x"}
	call := perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "1", Name: "f"}}
	for _, c := range []struct {
		reason string
		events []perigee.Event
		legacy bool
		want   string
	}{
		{"STOP", []perigee.Event{text}, false, "stop"},
		{"STOP", nil, false, "stop"},
		{"MAX_TOKENS", []perigee.Event{text}, false, "length"},
		{"SAFETY", nil, false, "content_filter"},
		{"RECITATION", []perigee.Event{text}, false, "content_filter"},
		{"LANGUAGE", nil, false, "content_filter"},
		{"BLOCKLIST", nil, false, "content_filter"},
		{"PROHIBITED_CONTENT", nil, false, "content_filter"},
		{"SPII", nil, false, "content_filter"},
		{"IMAGE_SAFETY", nil, false, "content_filter"},
		{"OTHER", nil, false, "content_filter"},
		{"OTHER", []perigee.Event{text}, false, "stop"},
		{"OTHER", []perigee.Event{call}, false, "tool_calls"},
		{"STOP", []perigee.Event{text, call}, false, "tool_calls"},
		{"MAX_TOKENS", []perigee.Event{call}, false, "tool_calls"},
		{"STOP", []perigee.Event{call}, true, "function_call"},
		{"MALFORMED_FUNCTION_CALL", nil, false, "stop"},
		{"UNEXPECTED_TOOL_CALL", nil, false, "stop"},
		{"FINISH_REASON_UNSPECIFIED", nil, false, "stop"},
		{"SOMETHING_NEW", nil, false, "stop"},
		{"", nil, false, "stop"},
	} {
		answer := Answer{Style: &Style{Functions: c.legacy}}
		stream, whole := NewStream(answer), NewCollector(answer)
		var wire []byte
		for _, ev := range append(c.events, perigee.Event{Kind: perigee.EventFinish, Finish: new(gemini.FinishOf(c.reason))}) {
			wire = stream.Encode(wire, &ev)
			whole.Add(&ev)
		}
		wire = stream.End(wire)
		want := `"finish_reason":"` + c.want + `"`
		if !strings.Contains(string(wire), want) {
			t.Errorf("%s after %d events streams as %s", c.reason, len(c.events), wire)
		}
		if got := string(whole.Bytes()); !strings.Contains(got, want) {
			t.Errorf("%s after %d events is %s", c.reason, len(c.events), got)
		}
	}
}

// An error in a type says where it is.
func TestErrorNamesTheParameter(t *testing.T) {
	req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"messages":[{"role":"user","content":7}]}`)})
	if err == nil {
		_, err = req.Prompt()
	}
	body := string(openai.EncodeError(400, perigee.AsError(err)))
	if !strings.Contains(body, `"param":"messages[0].content"`) || !strings.Contains(body, `"code":"invalid"`) {
		t.Error(body)
	}
	if body := string(openai.EncodeError(400, perigee.Errorf(perigee.ClassInvalid, "no"))); !strings.Contains(body, `"param":null`) {
		t.Error(body)
	}
}

// The keep-alive is a comment, which says nothing to a client.
func TestIdle(t *testing.T) {
	if got := string(NewStream(Answer{}).Idle(nil)); got != ": keep-alive\n\n" {
		t.Errorf("got %q", got)
	}
}
