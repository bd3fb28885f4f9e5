package anthropic

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"perigee/internal/simulator/completion"
)

// accumulate puts the message of a stream together as a client does.
func accumulate(t *testing.T, events []completion.Event) map[string]any {
	t.Helper()
	var message map[string]any
	var blocks []any
	pieces := ""
	for _, e := range events {
		var data map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil || data["type"] != e.Name {
			t.Fatalf("event %s: %s", e.Name, e.Data)
		}
		delta, _ := data["delta"].(map[string]any)
		switch e.Name {
		case "message_start":
			message = data["message"].(map[string]any)
		case "content_block_start":
			blocks, pieces = append(blocks, data["content_block"]), ""
		case "content_block_delta":
			block := blocks[int(data["index"].(float64))].(map[string]any)
			switch delta["type"] {
			case "input_json_delta":
				pieces += delta["partial_json"].(string)
			case "citations_delta":
				block["citations"] = append(block["citations"].([]any), delta["citation"])
			default:
				member := strings.TrimSuffix(delta["type"].(string), "_delta")
				block[member] = block[member].(string) + delta[member].(string)
			}
		case "content_block_stop":
			if pieces != "" {
				var input any
				if err := json.Unmarshal([]byte(pieces), &input); err != nil {
					t.Fatalf("input %q: %v", pieces, err)
				}
				blocks[int(data["index"].(float64))].(map[string]any)["input"] = input
			}
		case "message_delta":
			for key, value := range delta {
				message[key] = value
			}
			usage, _ := data["usage"].(map[string]any)
			for key, value := range usage {
				message["usage"].(map[string]any)[key] = value
			}
		}
	}
	message["content"] = append([]any{}, blocks...)
	return message
}

func TestStreamAndWholeAreOneMessage(t *testing.T) {
	parts := []completion.Part{{Thought: true, Text: "first\nredacted\nthen more"}, {Text: "a text of more than six words, with <tags> & é"},
		{Call: &completion.Call{Name: "f", Args: json.RawMessage(`{"b":{"c":[1,2]},"a":"x y z","c":1}`)}}, {Call: &completion.Call{Name: "f"}}}
	searched := completion.Candidate{Query: "q", Finish: "STOP", Parts: []completion.Part{{Text: "One. Two."}},
		Sources: []completion.Source{{Title: "a.example", Start: 0, End: 4}, {Title: "b.example", Start: 5, End: 9}}}
	adaptive := declared + `,"thinking":{"type":"adaptive"}`
	cases := []struct {
		name    string
		request Example
		reply   completion.Reply
		stop    string
		blocks  string
	}{
		{"everything", asked(adaptive), completion.Reply{Candidates: []completion.Candidate{{Parts: parts, Finish: "STOP"}}}, "tool_use", "thinking redacted_thinking thinking text tool_use tool_use"},
		{"one call", asked(declared + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`), completion.Reply{Candidates: []completion.Candidate{{Parts: parts[2:], Finish: "STOP"}}}, "tool_use", "tool_use"},
		{"stop sequence", asked(`"stop_sequences":["END"]`), completion.Reply{Candidates: []completion.Candidate{{Parts: parts[1:2], Finish: "STOP", Stop: "END"}}}, "stop_sequence", "text"},
		{"cut", asked(""), completion.Reply{Candidates: []completion.Candidate{{Parts: parts[1:2], Finish: "MAX_TOKENS"}}}, "max_tokens", "text"},
		{"refused", asked(""), completion.Reply{Block: "SAFETY", Candidates: []completion.Candidate{{Finish: "SAFETY"}}}, "refusal", ""},
		{"by directive", asked(""), completion.Reply{Candidates: []completion.Candidate{{Parts: parts[1:2], Finish: "model_context_window_exceeded"}}}, "model_context_window_exceeded", "text"},
		{"search", asked(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), completion.Reply{Candidates: []completion.Candidate{searched}}, "end_turn", "server_tool_use web_search_tool_result text text"},
		{"search that is not declared", asked(""), completion.Reply{Candidates: []completion.Candidate{searched}}, "end_turn", "text"},
		{"late usage", asked(""), completion.Reply{Usage: "late", Candidates: []completion.Candidate{{Parts: parts[1:2], Finish: "STOP"}}}, "end_turn", "text"},
		{"a finish twice", asked(""), completion.Reply{DuplicateFinish: true, Candidates: []completion.Candidate{{Parts: parts[1:2], Finish: "STOP"}}}, "end_turn", "text"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, refusal := Check(c.request.Input())
			if refusal != nil {
				t.Fatal(refusal)
			}
			m := NewMessage(r, &c.reply, Charge{Input: 3, Read: 5, Write1h: 7})
			var whole map[string]any
			if err := json.Unmarshal(m.Whole(), &whole); err != nil {
				t.Fatal(err)
			}
			if streamed := accumulate(t, m.Events()); !reflect.DeepEqual(whole, streamed) {
				t.Errorf("whole:    %v\nstreamed: %v", whole, streamed)
			}
			var kinds []string
			for _, b := range whole["content"].([]any) {
				kinds = append(kinds, b.(map[string]any)["type"].(string))
			}
			if got := strings.Join(kinds, " "); got != c.blocks || whole["stop_reason"] != c.stop {
				t.Errorf("%s, stop reason %s", got, whole["stop_reason"])
			}
			next := Input{Version: "2023-06-01", Signer: exampleSigner, Body: r.Answered(m.Content())}
			if _, refusal := Check(next); refusal != nil && !strings.Contains(refusal.Message, "prefill") && !strings.Contains(refusal.Message, "tool_result") {
				t.Errorf("the answer is refused when it returns: %s", refusal.Message)
			}
		})
	}
}

func TestFaultsOfAnAnswer(t *testing.T) {
	r, _ := Check(asked("").Input())
	reply := completion.Reply{NoFinish: true, NoUsage: true, Candidates: []completion.Candidate{{Parts: []completion.Part{{Text: "a"}}, Finish: "STOP"}}}
	m := NewMessage(r, &reply, Charge{})
	events := m.Events()
	if last := events[len(events)-1].Name; last != "content_block_stop" || strings.Contains(string(events[0].Data), "usage") {
		t.Errorf("ends with %s, begins with %s", last, events[0].Data)
	}
	if whole := string(m.Whole()); strings.Contains(whole, "usage") || !strings.Contains(whole, `"stop_reason":null`) {
		t.Error(whole)
	}
}

func TestZeroTokensWarmTheCache(t *testing.T) {
	r, refusal := Check(Example{Body: `{"model":"claude-opus-5","max_tokens":0,"messages":[` + hi + `]}`}.Input())
	if refusal != nil {
		t.Fatal(refusal)
	}
	reply := completion.Reply{Candidates: []completion.Candidate{{Parts: []completion.Part{{Text: "a"}}, Finish: "STOP"}}}
	whole := string(NewMessage(r, &reply, Charge{}).Whole())
	if !strings.Contains(whole, `"content":[],"stop_reason":"max_tokens"`) || !strings.Contains(whole, `"output_tokens":0`) {
		t.Error(whole)
	}
}
