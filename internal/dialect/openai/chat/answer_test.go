package openai

import (
	"strings"
	"testing"

	"perigee"
)

// Why an answer ended, in the client's word.
func TestChatFinishReason(t *testing.T) {
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
		answer := ChatAnswer{Style: ChatStyle{Functions: c.legacy}}
		stream, whole := NewChatStream(answer), NewChatCollector(answer)
		var wire []byte
		for _, ev := range append(c.events, perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: c.reason}}) {
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
	_, err := DecodeChat(perigee.Origin{Body: []byte(`{"messages":[{"role":"user","content":7}]}`)})
	body := string(EncodeError(400, perigee.AsError(err)))
	if !strings.Contains(body, `"param":"messages[0].content"`) || !strings.Contains(body, `"code":"invalid"`) {
		t.Error(body)
	}
	if body := string(EncodeError(400, perigee.Errorf(perigee.ClassInvalid, "no"))); !strings.Contains(body, `"param":null`) {
		t.Error(body)
	}
}

// The keep-alive is a comment, which says nothing to a client.
func TestChatIdle(t *testing.T) {
	if got := string(NewChatStream(ChatAnswer{}).Idle(nil)); got != ": keep-alive\n\n" {
		t.Errorf("got %q", got)
	}
}

// Citations count characters, and find their stretch of text where the provider counts from elsewhere.
func TestCitations(t *testing.T) {
	chunks := `"groundingChunks":[{"web":{"uri":"u0","title":"t0"}},{"retrievedContext":{"uri":"u1","title":"t1"}}]`
	for name, c := range map[string]struct {
		text, supports string
		want           []citation
	}{
		"bytes and characters": {"é, a", `{"segment":{"startIndex":4,"endIndex":5,"text":"a"},"groundingChunkIndices":[1]}`, []citation{{3, 4, "u1", "t1"}}},
		"backwards": {"ab", `{"segment":{"startIndex":1,"endIndex":2},"groundingChunkIndices":[0]},{"segment":{"endIndex":1},"groundingChunkIndices":[1]}`,
			[]citation{{1, 2, "u0", "t0"}, {0, 1, "u1", "t1"}}},
		"counted from elsewhere": {"hello you", `{"segment":{"startIndex":0,"endIndex":3,"text":"you"},"groundingChunkIndices":[0]}`, []citation{{6, 9, "u0", "t0"}}},
		"out of range":           {"ab", `{"segment":{"startIndex":-5,"endIndex":50},"groundingChunkIndices":[0,2,-1]}`, []citation{{0, 2, "u0", "t0"}}},
		"no stretch":             {"ab", ``, []citation{{0, 0, "u0", "t0"}, {0, 0, "u1", "t1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := citations(c.text, []byte(`{`+chunks+`,"groundingSupports":[`+c.supports+`]}`))
			if len(got) != len(c.want) {
				t.Fatalf("got %v", got)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("got %v, want %v", got[i], c.want[i])
				}
			}
		})
	}
}
