package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
)

// goodStreams are complete answers with text, a call and usage, in the dialects of spokenDialects:
// the data of their events.
var goodStreams = map[perigee.Dialect][]string{
	perigee.DialectOpenAIChat: {
		`{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		`[DONE]`,
	},
	perigee.DialectOpenAIResponses: {
		`{"type":"response.created","response":{"id":"r1","status":"in_progress"}}`,
		`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"Hi"}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":1,"delta":"{}"}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc","call_id":"a","name":"f","arguments":"{}"}}`,
		`{"type":"response.completed","response":{"id":"r1","status":"completed","usage":{"input_tokens":3,"output_tokens":2}}}`,
	},
	perigee.DialectAnthropic: {
		`{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	},
}

// harmless are events that add nothing to an answer.
var harmless = map[perigee.Dialect][]string{
	perigee.DialectOpenAIChat: {`{"id":"c1","choices":[{"index":0}]}`, `{"id":"c1","choices":[{"index":0,"delta":null}]}`, `{"error":null}`,
		`{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}`},
	perigee.DialectOpenAIResponses: {`{"type":"response.output_item.added","output_index":1}`, `{"type":"response.in_progress","response":null}`,
		`{"type":"response.zebra.delta","delta":"x"}`, `{"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"\uDE00"}`},
	perigee.DialectAnthropic: {`{"type":"message_delta","usage":{"output_tokens":3}}`, `{"type":"content_block_delta","index":0}`,
		`{"type":"content_block_delta","index":0,"delta":null}`, `{"type":"content_block_start","index":1}`, `{"type":"ping","error":null}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\ud83d"}}`},
}

// odd are events that no decoder can read, or that report an error in a way that clients overlook.
var odd = map[perigee.Dialect][]string{
	perigee.DialectOpenAIChat: {`{"object":"error","message":"no"}`, `{"error":{}}`, `{"error":false}`, `{"choices":[{"index":0,"error":{"message":"no"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`, `[1]`, `{"choices":7}`},
	perigee.DialectOpenAIResponses: {`{"type":"response.in_progress","response":{"error":{"message":"no"}}}`, `{"object":"error","message":"no"}`,
		`{"type":"response.cancelled","response":{"status":"cancelled"}}`, `[1]`},
	perigee.DialectAnthropic: {`{"type":"ping","error":{"message":"no"}}`, `{"error":{"message":"no"}}`, `{"type":"content_block_delta","delta":"x"}`, `7`},
}

// variants are the data of an event without each of its members, and with other values for them.
func variants(data string) (list []string) {
	var whole any
	if json.Unmarshal([]byte(data), &whole) != nil {
		return nil
	}
	var walk func(v any)
	write := func() {
		out, _ := json.Marshal(whole)
		list = append(list, string(out))
	}
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			for name, value := range v {
				delete(v, name)
				write()
				for _, other := range []any{nil, 7, "x", false, map[string]any{}, []any{}, map[string]any{"error": map[string]any{"message": "no"}}} {
					v[name] = other
					write()
				}
				v[name] = value
				walk(value)
			}
		}
	}
	walk(whole)
	slices.Sort(list)
	return slices.Compact(list)
}

// endsForClients reports whether the last event of a stream is its end or an error, as the
// official libraries see it.
func endsForClients(d perigee.Dialect, stream string) (end, failed bool) {
	list := blocks(stream)
	_, data, _ := strings.Cut(strings.TrimSpace(list[len(list)-1]), "data: ")
	var ev struct {
		Type    string
		Error   map[string]any
		Choices []struct {
			Finish *string `json:"finish_reason"`
		}
	}
	_ = json.Unmarshal([]byte(data), &ev)
	switch d {
	case perigee.DialectOpenAIChat:
		return data == "[DONE]", len(ev.Error) > 0
	case perigee.DialectOpenAIResponses:
		return ev.Type == "response.completed" || ev.Type == "response.incomplete", ev.Type == "error" || ev.Type == "response.failed"
	}
	return ev.Type == "message_stop", ev.Type == "error" && len(ev.Error) > 0
}

// A stream in the client's own dialect ends with the provider's end or with an error that clients
// recognize, whatever the provider sends in the middle of it; until then, it is the provider's.
func TestForwardedStreamsEndOrFail(t *testing.T) {
	for _, s := range spokenDialects {
		if s.dialect == perigee.DialectAnthropic {
			s.decoder = func(bool) decoder { return new(anthropic.Decoder) }
		}
		var sent []byte
		rig := newRelayRig(t, s.provider(t, nil), Options{}, func(w http.ResponseWriter, r *http.Request) { sends(string(sent), 1<<20)(w, r) })
		good := goodStreams[s.dialect]
		try := func(at int, data string, replace int) (got string, failed bool) {
			t.Helper()
			var b bytes.Buffer
			list := slices.Replace(slices.Clone(good), at, at+replace, data)
			for _, data := range list {
				var ev struct{ Type string }
				if _ = json.Unmarshal([]byte(data), &ev); ev.Type != "" {
					fmt.Fprintf(&b, "event: %s\n", ev.Type)
				}
				fmt.Fprintf(&b, "data: %s\n\n", data)
			}
			sent = b.Bytes()
			resp, got := rig.ask(t, s.path, fmt.Sprintf(s.request, true), nil)
			if resp.StatusCode != http.StatusOK {
				return got, true // before the first content
			}
			end, failed := endsForClients(s.dialect, got)
			whole := got == b.String()
			if end == failed || end && !whole {
				t.Errorf("%s: after %s, the client got %q", s.dialect, data, got)
			}
			return got, failed
		}
		count := 0
		for i, data := range good[:len(good)-1] {
			for _, variant := range variants(data) {
				try(i, variant, 1)
				count++
			}
		}
		if count < 100 {
			t.Fatalf("%s: %d variants", s.dialect, count)
		}
		for _, data := range harmless[s.dialect] {
			if got, failed := try(len(good)-4, data, 0); failed {
				t.Errorf("%s: %s is an error: %q", s.dialect, data, got)
			}
		}
		for _, data := range odd[s.dialect] {
			if got, failed := try(len(good)-4, data, 0); !failed {
				t.Errorf("%s: %s is no error: %q", s.dialect, data, got)
			}
		}
	}
}
