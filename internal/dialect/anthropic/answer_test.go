package anthropic

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/sse"
)

// A played answer is what a client makes of the events of a stream, checking their order on the
// way.
type played struct {
	message map[string]any
	pings   int
	failed  bool
}

// play reads a stream as the official libraries do.
func play(t testing.TB, stream []byte) played {
	t.Helper()
	var p played
	open, ended := -1, false
	var content []any
	partial := ""
	r := sse.NewReader(strings.NewReader(string(stream)))
	for {
		ev, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var data map[string]any
		if err := json.Unmarshal(ev.Data, &data); err != nil {
			t.Fatalf("%s: %v", ev.Data, err)
		}
		kind, _ := data["type"].(string)
		if kind != ev.Name {
			t.Fatalf("an event called %s is of type %s", ev.Name, kind)
		}
		if ended || p.failed {
			t.Fatalf("%s after the end", kind)
		}
		if p.message == nil && kind != "message_start" && kind != "ping" && kind != "error" {
			t.Fatalf("%s before message_start", kind)
		}
		switch kind {
		case "message_start":
			if p.message != nil {
				t.Fatal("message_start again")
			}
			p.message = data["message"].(map[string]any)
		case "content_block_start":
			if open >= 0 || int(data["index"].(float64)) != len(content) {
				t.Fatalf("%s while block %d is open and %d exist", ev.Data, open, len(content))
			}
			open, partial = len(content), ""
			content = append(content, data["content_block"])
		case "content_block_delta":
			if int(data["index"].(float64)) != open {
				t.Fatalf("%s while block %d is open", ev.Data, open)
			}
			block, delta := content[open].(map[string]any), data["delta"].(map[string]any)
			switch kind := delta["type"].(string) + " " + block["type"].(string); kind {
			case "text_delta text":
				block["text"] = block["text"].(string) + delta["text"].(string)
			case "thinking_delta thinking":
				block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
			case "signature_delta thinking":
				if block["signature"] != "" {
					t.Fatal("a second signature")
				}
				block["signature"] = delta["signature"]
			case "input_json_delta tool_use", "input_json_delta server_tool_use":
				partial += delta["partial_json"].(string)
			case "citations_delta text":
				list, _ := block["citations"].([]any)
				block["citations"] = append(list, delta["citation"])
			default:
				t.Fatal(kind)
			}
		case "content_block_stop":
			if open < 0 || int(data["index"].(float64)) != open {
				t.Fatalf("%s while block %d is open", ev.Data, open)
			}
			if partial != "" {
				var input map[string]any
				if err := json.Unmarshal([]byte(partial), &input); err != nil {
					t.Fatalf("input %s: %v", partial, err)
				}
				content[open].(map[string]any)["input"] = input
			}
			open = -1
		case "message_delta":
			if open >= 0 {
				t.Fatal("message_delta while a block is open")
			}
			for k, v := range data["delta"].(map[string]any) {
				p.message[k] = v
			}
			usage := p.message["usage"].(map[string]any)
			for k, v := range data["usage"].(map[string]any) {
				usage[k] = v
			}
		case "message_stop":
			ended = true
		case "ping":
			p.pings++
		case "error":
			p.failed = true
		default:
			t.Fatalf("unknown event %s", kind)
		}
	}
	if !ended && !p.failed {
		t.Fatal("the stream has no end")
	}
	if p.message != nil {
		if content == nil {
			content = []any{}
		}
		p.message["content"] = content
	}
	return p
}

// searchesFirst puts the searches of a message before everything else: a stream has them where they
// become known.
func searchesFirst(message map[string]any) {
	var searches, rest []any
	for _, block := range message["content"].([]any) {
		b := block.(map[string]any)
		if b["type"] == "web_search_tool_result" || b["type"] == "server_tool_use" && b["name"] == "web_search" {
			searches = append(searches, block)
		} else {
			rest = append(rest, block)
		}
	}
	message["content"] = append(searches, rest...)
}

// both encodes events streamed and whole, checks that a client makes the same of them, and returns
// the message.
func both(t testing.TB, answer Answer, events []perigee.Event) string {
	t.Helper()
	stream, collector := NewStream(&answer), NewCollector(&answer)
	var wire []byte
	for i := range events {
		wire = stream.Encode(wire, &events[i])
		collector.Add(&events[i])
	}
	wire = stream.End(wire)
	played := play(t, wire).message
	searchesFirst(played)
	streamed, err := json.Marshal(played)
	if err != nil {
		t.Fatal(err)
	}
	message := collector.Bytes()
	var whole map[string]any
	if err := json.Unmarshal(message, &whole); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	searchesFirst(whole)
	if again, _ := json.Marshal(whole); string(again) != string(streamed) {
		t.Fatalf("streamed and whole differ:\n%s\n%s", streamed, again)
	}
	return string(message)
}

func say(s string) perigee.Event { return perigee.Event{Kind: perigee.EventText, Text: s} }

func think(s, seal string) perigee.Event {
	return perigee.Event{Kind: perigee.EventThinking, Text: s, Signature: seal}
}

func called(id, seal, args string) perigee.Event {
	return perigee.Event{Kind: perigee.EventCall, Signature: seal, Call: &perigee.FunctionCall{ID: id, Name: "f", Args: json.RawMessage(args)}}
}

func searched(query string) perigee.Event {
	return perigee.Event{Kind: perigee.EventGrounding, Grounding: &perigee.Grounding{Queries: []string{query}, Sources: []perigee.Source{{URL: "https://" + query, Title: "t"}}}}
}

// searchBlocks are the blocks of a search.
func searchBlocks(number, query string) string {
	return `{"type":"server_tool_use","id":"srvtoolu_7_` + number + `","name":"web_search","input":{"query":"` + query + `"}},` +
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_7_` + number + `","content":[{"type":"web_search_result","url":"https://` + query + `","title":"t","encrypted_content":"","page_age":null}]}`
}

func finish(reason string) perigee.Event {
	return perigee.Event{Kind: perigee.EventFinish, Finish: new(gemini.FinishOf(reason))}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		display Display
		events  []perigee.Event
		want    string // content and stop_reason
	}{
		{"pieces of text are one block", DisplayDefault, []perigee.Event{say("a\"\n"), say(""), say("\u2028b"), finish("STOP")},
			`[{"type":"text","text":"a\"\n` + "\u2028" + `b"}] end_turn`},
		{"the seal of a call without thinking needs a block of its own", DisplayFull, []perigee.Event{called("x", "S", `{"a":1}`), finish("STOP")},
			`[{"type":"thinking","thinking":"","signature":"perigee.1.call.S"},{"type":"tool_use","id":"x","name":"f","input":{"a":1}}] tool_use`},
		{"unless no thinking was asked for", DisplayDefault, []perigee.Event{called("x", "S", `{"a":1}`), finish("STOP")},
			`[{"type":"tool_use","id":"x","name":"f","input":{"a":1}}] tool_use`},
		{"thinking that has its own seal keeps it", DisplayFull, []perigee.Event{think("a", "T"), called("x", "S", ``), finish("STOP")},
			`[{"type":"thinking","thinking":"a","signature":"T"},{"type":"thinking","thinking":"","signature":"perigee.1.call.S"},{"type":"tool_use","id":"x","name":"f","input":{}}] tool_use`},
		{"thinking goes on after a seal in a new block", DisplayFull, []perigee.Event{think("a", "T"), think("b", ""), say("c"), finish("STOP")},
			`[{"type":"thinking","thinking":"a","signature":"T"},{"type":"thinking","thinking":"b","signature":""},{"type":"text","text":"c"}] end_turn`},
		{"a seal behind text is left to the server's memory", DisplayFull, []perigee.Event{say("c"), {Kind: perigee.EventSignature, Signature: "S"}, finish("STOP")},
			`[{"type":"text","text":"c"}] end_turn`},
		{"omitted thinking without a seal has nothing to carry", DisplayOmitted, []perigee.Event{think("a", ""), called("x", "S", ``), finish("STOP")},
			`[{"type":"thinking","thinking":"","signature":"perigee.1.call.S"},{"type":"tool_use","id":"x","name":"f","input":{}}] tool_use`},
		{"arguments that are no object", DisplayDefault, []perigee.Event{called("", "", `[1`), finish("MAX_TOKENS")},
			`[{"type":"tool_use","id":"toolu_7_1","name":"f","input":{"arguments":"[1"}}] tool_use`},
		{"a picture in the thinking is not shown", DisplayFull, []perigee.Event{{Kind: perigee.EventBlob, Thought: true, Blob: &perigee.Blob{MIME: "image/png", Data: "aA"}}, finish("IMAGE_SAFETY")},
			`[] refusal`},
		{"other candidates are not shown", DisplayFull, []perigee.Event{say("a"), {Kind: perigee.EventText, Candidate: 1, Text: "b"}, finish("OTHER")},
			`[{"type":"text","text":"a"}] end_turn`},
		{"parts of the future are shown as they are", DisplayFull, []perigee.Event{{Kind: perigee.EventPart, Raw: json.RawMessage(`{"hologram":{}}`)}, finish("STOP")},
			"[{\"type\":\"text\",\"text\":\"```json\\n{\\\"hologram\\\":{}}\\n```\\n\"}] end_turn"},
		{"searches come before the text, however late they are told of", DisplayFull, []perigee.Event{think("a", "T"), say("b"), searched("q"), finish("STOP")},
			`[{"type":"thinking","thinking":"a","signature":"T"},` + searchBlocks("1", "q") + `,{"type":"text","text":"b"}] end_turn`},
		{"and are first where there is no thinking", DisplayFull, []perigee.Event{say("b"), searched("q"), say("c"), searched("q"), finish("STOP")},
			`[` + searchBlocks("1", "q") + `,{"type":"text","text":"bc"}] end_turn`},
		{"each search is told of once, in its place", DisplayFull, []perigee.Event{think("a", "T"), searched("q"), think("b", "T"), searched("r"), say("c"), finish("STOP")},
			`[{"type":"thinking","thinking":"a","signature":"T"},` + searchBlocks("1", "q") + `,{"type":"thinking","thinking":"b","signature":"T"},` + searchBlocks("2", "r") + `,{"type":"text","text":"c"}] end_turn`},
		{"a search before a call", DisplayDefault, []perigee.Event{called("x", "", `{}`), searched("q"), finish("STOP")},
			`[` + searchBlocks("1", "q") + `,{"type":"tool_use","id":"x","name":"f","input":{}}] tool_use`},
		{"a picture has a block of its own", DisplayFull, []perigee.Event{say("a"), {Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "aA"}}, say("b"), finish("STOP")},
			`[{"type":"text","text":"a"},{"type":"text","text":"![image/png](data:image/png;base64,aA)"},{"type":"text","text":"b"}] end_turn`},
		{"code that failed", DisplayFull, []perigee.Event{{Kind: perigee.EventPart, Raw: json.RawMessage(`{"codeExecutionResult":{"outcome":"OUTCOME_FAILED","output":"no"}}`)}, finish("STOP")},
			`[{"type":"code_execution_tool_result","tool_use_id":"","content":{"type":"code_execution_result","stdout":"","stderr":"no","return_code":1,"content":[]}}] end_turn`},
	} {
		t.Run(c.name, func(t *testing.T) {
			message := both(t, Answer{ID: "7", Thinking: c.display}, c.events)
			_, content, _ := strings.Cut(message, `"content":`)
			content, rest, _ := strings.Cut(content, `,"stop_reason":"`)
			reason, _, _ := strings.Cut(rest, `"`)
			if got := content + " " + reason; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestFinishReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "SAFETY": "refusal", "RECITATION": "refusal", "LANGUAGE": "refusal", "BLOCKLIST": "refusal",
		"PROHIBITED_CONTENT": "refusal", "SPII": "refusal", "IMAGE_SAFETY": "refusal", "MALFORMED_FUNCTION_CALL": "end_turn",
		"UNEXPECTED_TOOL_CALL": "end_turn", "OTHER": "end_turn", "": "end_turn",
	} {
		e := encoder{answer: &Answer{}, finish: gemini.FinishOf(reason)}
		if got, _ := e.stop(); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
		e.calls = 1
		if got, _ := e.stop(); got != "tool_use" {
			t.Errorf("%s with a call: got %s", reason, got)
		}
	}
}

func TestStopSequenceIsReported(t *testing.T) {
	e := encoder{answer: &Answer{}, finish: perigee.Finish{Reason: "STOP", Stop: "END"}}
	if reason, sequence := e.stop(); reason != "stop_sequence" || sequence != "END" {
		t.Errorf("got %s %s", reason, sequence)
	}
	e.calls = 1 // the client has something to do before anything else
	if reason, sequence := e.stop(); reason != "tool_use" || sequence != "" {
		t.Errorf("got %s %s", reason, sequence)
	}
}

// TestStreamsTellOfEarlySearchesFirst: a search that came before the text comes before it in a
// stream, too.
func TestStreamsTellOfEarlySearchesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		events []perigee.Event
		want   []string
	}{
		"before the text": {[]perigee.Event{searched("q"), say("a")}, []string{"server_tool_use", "web_search_tool_result", "text"}},
		"behind the text": {[]perigee.Event{say("a"), searched("q")}, []string{"text", "server_tool_use", "web_search_tool_result"}},
		"both":            {[]perigee.Event{searched("q"), say("a"), searched("r")}, []string{"server_tool_use", "web_search_tool_result", "text", "server_tool_use", "web_search_tool_result"}},
	} {
		s := NewStream(&Answer{})
		var wire []byte
		for i := range c.events {
			wire = s.Encode(wire, &c.events[i])
		}
		var got []string
		for _, block := range play(t, s.End(wire)).message["content"].([]any) {
			got = append(got, block.(map[string]any)["type"].(string))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestImagesAreLinks(t *testing.T) {
	answer := Answer{SaveImage: func(mime, data string) string { return "/v1/images/" + data }}
	message := both(t, answer, []perigee.Event{{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "aGk"}}, finish("STOP")})
	if !strings.Contains(message, `{"type":"text","text":"![image/png](/v1/images/aGk)"}`) {
		t.Error(message)
	}
}

// TestSealsSurvive sends answers back as history and looks for the signatures where the provider
// put them.
func TestSealsSurvive(t *testing.T) {
	for _, display := range []Display{DisplayFull, DisplayOmitted} {
		message := both(t, Answer{Thinking: display}, []perigee.Event{think("plan", "T"), say("text"), called("x", "S", `{}`), called("y", "", `{}`), finish("STOP")})
		_, content, _ := strings.Cut(message, `"content":`)
		content, _, _ = strings.Cut(content, `,"stop_reason"`)
		got, _ := decode(t, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":`+content+`}]}`)
		want := `{"role":"model","parts":[{"thought":true,"text":"plan","thoughtSignature":"T"},{"text":"text"},{"functionCall":{"id":"x","name":"f","args":{}},"thoughtSignature":"S"},{"functionCall":{"id":"y","name":"f","args":{}}}]}`
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMessageStartWaitsOnlyForWhatIsAtHand(t *testing.T) {
	s := NewStream(&Answer{})
	first, usage := say("a"), perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 9, Cached: 2}}
	first.More = true
	if got := s.Encode(nil, &first); len(got) > 0 {
		t.Errorf("sent before the usage: %s", got)
	}
	if got := string(s.Encode(nil, &usage)); !strings.Contains(got, `"input_tokens":7`) || !strings.Contains(got, `"text":"a"`) {
		t.Errorf("got %s", got)
	}
	s = NewStream(&Answer{})
	first.More = false
	if got := string(s.Encode(nil, &first)); !strings.HasPrefix(got, "event: message_start\n") {
		t.Errorf("got %s", got)
	}
}

func TestStreamsThatFail(t *testing.T) {
	err := perigee.Errorf(perigee.ClassUnavailable, "gone")
	for _, events := range [][]perigee.Event{nil, {say("a")}, {{Kind: perigee.EventText, Text: "a", More: true}}} {
		s := NewStream(&Answer{})
		wire := s.Idle(nil)
		for i := range events {
			wire = s.Encode(wire, &events[i])
		}
		if p := play(t, s.Fail(wire, 503, err)); !p.failed || p.pings == 0 {
			t.Errorf("got %+v", p)
		}
	}
}

func TestEstimate(t *testing.T) {
	req, _, err := DecodeRequest(perigee.Origin{Body: []byte(`{"system":"12345678","messages":[{"role":"user","content":[{"type":"text","text":"1234"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}],"tools":[{"name":"f","input_schema":{"a":1}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	prompt, _ := req.Prompt()
	if got := prompt.EstimateTokens(); got != 2+1+258+2 {
		t.Errorf("got %d", got)
	}
}
