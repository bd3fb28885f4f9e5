package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
)

var now = func() time.Time { return time.Unix(1773480413, 0) }

// played is a stream as a careful client reads it.
type played struct {
	names    []string
	final    map[string]any // the response of the last event
	output   []any          // the items, from their own events
	texts    map[string]string
	code     any // of the stream's error
	finished bool
}

// play reads the events of a stream and fails where their order or their numbers are not the API's.
func play(t testing.TB, stream []byte) *played {
	t.Helper()
	p := &played{texts: map[string]string{}}
	open := -1
	for i, frame := range strings.Split(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		head, data, ok := strings.Cut(frame, "\ndata: ")
		name, isEvent := strings.CutPrefix(head, "event: ")
		if !ok || !isEvent || strings.Contains(data, "\n") {
			t.Fatalf("frame %d is no event: %q", i, frame)
		}
		var ev map[string]any
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("event %d: %v in %s", i, err, data)
		}
		if ev["type"] != name || ev["sequence_number"] != float64(i) {
			t.Fatalf("event %d is called %s and says %v, %v", i, name, ev["type"], ev["sequence_number"])
		}
		if p.finished {
			t.Fatalf("%s after the end", name)
		}
		p.names = append(p.names, name)
		if name == "error" {
			p.code = ev["code"]
		}
		if response, ok := ev["response"].(map[string]any); ok {
			p.final = response
			p.finished = response["status"] != "in_progress"
		}
		if index, ok := ev["output_index"].(float64); ok && name != "response.output_item.added" && int(index) != open {
			t.Fatalf("%s is about item %v, open is %d", name, index, open)
		}
		open = p.see(t, name, ev, open)
	}
	return p
}

func (p *played) see(t testing.TB, name string, ev map[string]any, open int) int {
	id, _ := ev["item_id"].(string)
	key := fmt.Sprint(id, ev["summary_index"])
	switch {
	case name == "response.output_item.added":
		if open >= 0 || int(ev["output_index"].(float64)) != len(p.output) {
			t.Fatalf("item %v begins while %d is open, after %d", ev["output_index"], open, len(p.output))
		}
		return len(p.output)
	case name == "response.output_item.done":
		p.output = append(p.output, ev["item"])
		return -1
	case strings.HasSuffix(name, ".delta"):
		p.texts[key] += ev["delta"].(string)
	case strings.HasSuffix(name, "text.done"):
		p.same(t, name, p.texts[key], ev["text"])
	case strings.HasSuffix(name, "arguments.done"):
		p.same(t, name, p.texts[key], ev["arguments"])
	case strings.HasSuffix(name, "input.done"):
		p.same(t, name, p.texts[key], ev["input"])
	}
	return open
}

func (p *played) same(t testing.TB, name, deltas string, whole any) {
	if deltas != whole {
		t.Fatalf("%s: the deltas are %q, the whole is %q", name, deltas, whole)
	}
}

// run encodes events both ways, and holds them against each other.
func run(t testing.TB, req *Request, events []perigee.Event) *played {
	t.Helper()
	stream := req.NewStream("call-1", now(), now)
	collector := req.NewCollector("call-1", now(), now)
	var wire []byte
	for i := range events {
		wire = stream.Encode(wire, &events[i])
		collector.Add(&events[i])
	}
	p := play(t, stream.End(wire))
	if !p.finished {
		t.Fatalf("the stream has no end: %v", p.names)
	}
	whole := collector.Bytes()
	var want map[string]any
	if err := json.Unmarshal(whole, &want); err != nil {
		t.Fatalf("%v in %s", err, whole)
	}
	if a, b := fmt.Sprint(searchesApart(p.final)), fmt.Sprint(searchesApart(want)); a != b {
		t.Fatalf("the stream ends with\n%s\nin one piece it is\n%s", a, b)
	}
	if a, b := fmt.Sprint(p.output), fmt.Sprint(p.final["output"]); len(p.output) > 0 && a != b {
		t.Fatalf("the items are\n%s\nthe response has\n%s", a, b)
	}
	final, output := stream.Stored()
	if !json.Valid(output) {
		t.Fatalf("stored is %s\n%s", final, output)
	}
	if req.Store {
		again := play(t, Replay(final, -1))
		if a, b := fmt.Sprint(again.final, again.output), fmt.Sprint(p.final, p.output); a != b {
			t.Fatalf("replayed it is\n%s\nfirst it was\n%s", a, b)
		}
		if a, b := slices.Compact(again.names), slices.Compact(slices.Clone(p.names)); !slices.Equal(a, b) {
			t.Fatalf("replayed the events are\n%s\nfirst they were\n%s", a, b)
		}
	}
	return p
}

// searchesApart is a response whose searches come before everything else: a stream has them where
// they become known.
func searchesApart(response map[string]any) map[string]any {
	apart := maps.Clone(response)
	var searches, rest []any
	for _, item := range response["output"].([]any) {
		if item.(map[string]any)["type"] == "web_search_call" {
			searches = append(searches, item)
		} else {
			rest = append(rest, item)
		}
	}
	apart["output"] = append(searches, rest...)
	return apart
}

func textEvent(s string) perigee.Event { return perigee.Event{Kind: perigee.EventText, Text: s} }
func thoughtEvent(s, signature string) perigee.Event {
	return perigee.Event{Kind: perigee.EventThinking, Text: s, Signature: signature}
}
func callEvent(id, name, args, signature string) perigee.Event {
	return perigee.Event{Kind: perigee.EventCall, Signature: signature,
		Call: &perigee.FunctionCall{ID: id, Name: name, Args: json.RawMessage(args)}}
}
func finishEvent(reason string) perigee.Event {
	return perigee.Event{Kind: perigee.EventFinish, Finish: new(gemini.FinishOf(reason))}
}

// The thinking and the signatures that go out in an answer are in the prompt again when the client
// sends the answer's items back.
func TestSealsComeBack(t *testing.T) {
	req, _ := decode(t, `{"input":"hi","store":false,"reasoning":{"summary":"auto"}}`)
	p := run(t, req, []perigee.Event{
		{Kind: perigee.EventStart, Model: "m"},
		thoughtEvent("one ", ""), thoughtEvent("two", "seal-1"), thoughtEvent("three", ""), {Kind: perigee.EventSignature, Signature: "seal-2"},
		textEvent("Let me see."),
		callEvent("c1", "read", `{"a":1}`, "seal-3"), callEvent("c2", "read", ``, ""), callEvent("c3", "read", `{}`, "seal-4"),
		finishEvent("STOP"),
	})
	items, err := json.Marshal(p.final["output"])
	if err != nil {
		t.Fatal(err)
	}
	_, prompt := decode(t, `{"input":[{"role":"user","content":"hi"},`+string(items[1:len(items)-1])+`]}`)
	var got []string
	for _, part := range prompt.Contents[1].Parts {
		switch {
		case part.Thought:
			got = append(got, "thought "+rawjson.Unescaped(part.Text.Form())+" "+part.Signature)
		case part.Call != nil:
			got = append(got, "call "+part.Call.ID+" "+string(part.Call.Args)+" "+part.Signature)
		default:
			got = append(got, "text "+rawjson.Unescaped(part.Text.Form()))
		}
	}
	want := []string{"thought one two seal-1", "thought three seal-2", "text Let me see.", `call c1 {"a":1} seal-3`, "call c2 {} ", "call c3 {} seal-4"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// encodeCarrier returns a carrier with one thought.
func encodeCarrier(text, signature string, calls ...callSignature) string {
	c := carrier{thoughts: []thought{{signature: signature}}, calls: calls}
	c.thoughts[0].pieces.text(text)
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func TestChangedCarrierIsDropped(t *testing.T) {
	whole := encodeCarrier("hm", "seal", callSignature{"c1", "seal"})
	r, entries, ok := openCarrier([]byte(whole))
	var back []string
	for range 2 {
		r.pairs(func(a, b string) { back = append(back, a, b) })
	}
	if want := "[hm seal c1 seal]"; !ok || entries != 2 || fmt.Sprint(back) != want {
		t.Fatalf("got %v, %d, %v", back, entries, ok)
	}
	for i := range len(whole) {
		for _, b := range []byte{'A', 'z', '=', ' '} {
			changed := whole[:i] + string(b) + whole[i+1:]
			if _, _, ok := openCarrier([]byte(changed)); ok && changed != whole {
				t.Errorf("%q passes for %q", changed, whole)
			}
		}
		if _, _, ok := openCarrier([]byte(whole[:i])); ok {
			t.Errorf("%q passes", whole[:i])
		}
		item := OwnItem{Kind: "reasoning", Encrypted: whole[:i]}
		if _, own := item.Sealed(); own != (i >= len(carrierStart)) {
			t.Errorf("%q goes to a provider: %v", whole[:i], !own)
		}
	}
}

// A carrier with millions of thoughts takes no memory: it counts like a body with as many values.
func TestForgedCarrierIsRefused(t *testing.T) {
	c := carrier{thoughts: make([]thought, 2_000_000)}
	var encoded strings.Builder
	c.write(&encoded)
	body := []byte(`{"model":"m","store":false,"input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"` + encoded.String() + `"}]}`)
	allocations := testing.AllocsPerRun(1, func() {
		req, err := DecodeRequest(perigee.Origin{Body: body}, nil)
		if err == nil {
			_, err = req.Prompt()
		}
		if err == nil || !strings.Contains(err.Error(), "2000002 list elements") {
			t.Fatalf("the error is %v", err)
		}
	})
	if allocations > 1000 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestFinish(t *testing.T) {
	tests := []struct {
		name         string
		events       []perigee.Event
		status, last string
		detail       string
	}{
		{"an end", []perigee.Event{textEvent("x"), finishEvent("STOP")}, "completed", "response.completed", ""},
		{"no word", []perigee.Event{textEvent("x")}, "completed", "response.completed", ""},
		{"an unknown word", []perigee.Event{textEvent("x"), finishEvent("OTHER")}, "completed", "response.completed", ""},
		{"the limit", []perigee.Event{textEvent("x"), finishEvent("MAX_TOKENS")}, "incomplete", "response.incomplete", "map[reason:max_output_tokens]"},
		{"the limit after a call", []perigee.Event{callEvent("c", "f", "{}", ""), finishEvent("MAX_TOKENS")}, "completed", "response.completed", ""},
		{"a filter", []perigee.Event{finishEvent("PROHIBITED_CONTENT")}, "incomplete", "response.incomplete", "map[reason:content_filter]"},
		{"a blocked question", []perigee.Event{{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "OTHER", Message: "the prompt was blocked"}}}, "incomplete", "response.incomplete", "map[reason:content_filter]"},
		{"a call that cannot be read", []perigee.Event{finishEvent("MALFORMED_FUNCTION_CALL")}, "failed", "response.failed", ""},
		{"that after a call", []perigee.Event{callEvent("c", "f", "{}", ""), finishEvent("MALFORMED_FUNCTION_CALL")}, "completed", "response.completed", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, _ := decode(t, `{"input":"hi"}`)
			p := run(t, req, test.events)
			detail := ""
			if p.final["incomplete_details"] != nil {
				detail = fmt.Sprint(p.final["incomplete_details"])
			}
			if p.final["status"] != test.status || p.names[len(p.names)-1] != test.last || detail != test.detail {
				t.Errorf("got %v, %s, %s", p.final["status"], p.names[len(p.names)-1], detail)
			}
			if (p.final["error"] != nil) != (test.status == "failed") {
				t.Errorf("the error is %v", p.final["error"])
			}
		})
	}
}

// A failure is reported twice: as an event of the stream and in the response object.
func TestFailure(t *testing.T) {
	tests := []struct{ class, status, code string }{
		{"rate_limited", "failed", "rate_limit_exceeded"},
		{"exhausted", "failed", "insufficient_quota"},
		{"invalid", "failed", "invalid_prompt"},
		{"unavailable", "failed", "server_error"},
		{"canceled", "cancelled", "server_error"},
	}
	for _, test := range tests {
		t.Run(test.class, func(t *testing.T) {
			req, _ := decode(t, `{"input":"hi"}`)
			s := req.NewStream("call-1", now(), now)
			ev := textEvent("half")
			wire := s.Encode(nil, &ev)
			p := play(t, s.Fail(wire, 500, perigee.Errorf(perigee.Class(test.class), "it broke")))
			if n := len(p.names); p.names[n-2] != "error" || p.names[n-1] != "response.failed" || p.final["status"] != test.status {
				t.Errorf("got %v, %v", p.names, p.final["status"])
			}
			if got := fmt.Sprint(p.final["output"]); !strings.Contains(got, "text:half") || !strings.Contains(got, "status:incomplete") {
				t.Errorf("the response has %s, want the half that was sent", got)
			}
			if final, _ := s.Stored(); !strings.Contains(string(final), `"text":"half"`) {
				t.Errorf("stored is %s", final)
			}
			if failure, _ := p.final["error"].(map[string]any); p.code != test.code || test.status == "failed" && failure["code"] != test.code {
				t.Errorf("the stream says %v, the response %v", p.code, p.final["error"])
			}
		})
	}
}

// What was thought before an answer broke off is in the response, too.
func TestFailureInTheMiddleOfThinking(t *testing.T) {
	req, _ := decode(t, `{"input":"hi","reasoning":{"summary":"auto"}}`)
	s := req.NewStream("call-1", now(), now)
	ev := thoughtEvent("hm", "")
	p := play(t, s.Fail(s.Encode(nil, &ev), 500, perigee.Errorf(perigee.ClassUnavailable, "it broke")))
	if got := fmt.Sprint(p.final["output"]); got != "[map[id:rs_call-1_0 status:incomplete summary:[map[text:hm type:summary_text]] type:reasoning]]" {
		t.Errorf("got %s", got)
	}
}

func searchEvent(query string) perigee.Event {
	return perigee.Event{Kind: perigee.EventGrounding, Grounding: &perigee.Grounding{Queries: []string{query}}}
}

// A whole answer has its searches before the message, a stream has them where they become known.
func TestOrderOfSearches(t *testing.T) {
	for _, test := range []struct {
		name            string
		events          []perigee.Event
		whole, streamed string
	}{
		{"told of behind the text", []perigee.Event{textEvent("x"), searchEvent("q")}, "web_search_call message", "message web_search_call"},
		{"told of before the text", []perigee.Event{searchEvent("q"), textEvent("x")}, "web_search_call message", "web_search_call message"},
		{"between thoughts", []perigee.Event{thoughtEvent("a", ""), searchEvent("q"), thoughtEvent("b", ""), textEvent("x")}, "reasoning web_search_call reasoning message", "reasoning web_search_call reasoning message"},
		{"behind thoughts and text", []perigee.Event{thoughtEvent("a", ""), textEvent("x"), searchEvent("q")}, "reasoning web_search_call message", "reasoning message web_search_call"},
		{"several", []perigee.Event{searchEvent("q"), searchEvent("r"), textEvent("x"), searchEvent("s"), searchEvent("s")}, "web_search_call web_search_call web_search_call message", "web_search_call web_search_call message web_search_call"},
		{"before a call", []perigee.Event{callEvent("c", "f", "{}", ""), searchEvent("q")}, "web_search_call function_call", "function_call web_search_call"},
		{"of an answer that was withheld", []perigee.Event{searchEvent("q"), finishEvent("SAFETY")}, "web_search_call message", "web_search_call message"},
	} {
		for _, store := range []string{"true", "false"} {
			req, _ := decode(t, `{"input":"hi","store":`+store+`,"tools":[{"type":"web_search"}]}`)
			p := run(t, req, test.events)
			collector := req.NewCollector("call-1", now(), now)
			for i := range test.events {
				collector.Add(&test.events[i])
			}
			whole := collector.Bytes()
			_, kept := collector.Stored()
			var response struct{ Output []any }
			var items []any
			if err := errors.Join(json.Unmarshal(whole, &response), json.Unmarshal(kept, &items)); err != nil {
				t.Fatal(err)
			}
			if got := kinds(response.Output); got != test.whole || kinds(items) != test.whole {
				t.Errorf("%s: whole it is %s, kept as %s, want %s", test.name, got, kinds(items), test.whole)
			}
			if got := kinds(p.output); got != test.streamed {
				t.Errorf("%s: streamed it is %s, want %s", test.name, got, test.streamed)
			}
		}
	}
}

func kinds(items []any) string {
	var list []string
	for _, item := range items {
		list = append(list, item.(map[string]any)["type"].(string))
	}
	return strings.Join(list, " ")
}

// A client that has some of the events gets the rest, and always the last one.
func TestReplayFromTheMiddle(t *testing.T) {
	req, _ := decode(t, `{"input":"hi"}`)
	s := req.NewStream("call-1", now(), now)
	ev := textEvent("x")
	s.End(s.Encode(nil, &ev))
	response, _ := s.Stored()
	whole := strings.SplitAfter(string(Replay(response, -1)), "\n\n")
	events := len(whole) - 1
	for after := range events - 1 {
		if got, want := string(Replay(response, int64(after))), strings.Join(whole[after+1:], ""); got != want {
			t.Errorf("after %d: got %s, want %s", after, got, want)
		}
	}
	late := string(Replay(response, 70))
	if !strings.HasPrefix(late, `event: response.completed`) || !strings.Contains(late, `"sequence_number":71,`) || strings.Count(late, "\n\n") != 1 {
		t.Errorf("after 70: got %s", late)
	}
}

// A body with line ends in it must not break the events that repeat it.
func TestEchoStaysOnOneLine(t *testing.T) {
	req, _ := decode(t, "{\n \"input\": \"hi\",\n \"tools\": [\n  {\"type\": \"function\", \"name\": \"read\"}\r\n ],\n \"metadata\": {\n \"a\": \"b\"}, \"reasoning\":{\n\"effort\":\n\"low\"}\n}")
	p := run(t, req, []perigee.Event{textEvent("x"), finishEvent("STOP")})
	if fmt.Sprint(p.final["tools"]) != "[map[name:read type:function]]" || fmt.Sprint(p.final["reasoning"]) != "map[effort:low summary:<nil>]" {
		t.Errorf("got %v", p.final)
	}
}

// Tools of the same name in several places stay apart, there and back.
func TestFlatNamesAreUnique(t *testing.T) {
	req, prompt := decode(t, `{"input":"hi","store":false,"tools":[
		{"type":"namespace","name":"functions","tools":[{"type":"function","name":"a__b"}]},
		{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"},{"type":"custom","name":"c"}]},
		{"type":"function","name":"a__b"},{"type":"function","name":"a__b"}]}`)
	var events []perigee.Event
	var flat []string
	for i, tool := range prompt.Tools {
		flat = append(flat, tool.Function.Name)
		events = append(events, callEvent(fmt.Sprint("c", i), tool.Function.Name, `{"input":"x"}`, ""))
	}
	p := run(t, req, events)
	var got []string
	for _, item := range p.output {
		m := item.(map[string]any)
		got = append(got, fmt.Sprint(m["type"], " ", m["namespace"], " ", m["name"]))
	}
	want := []string{"function_call <nil> a__b", "function_call a b", "custom_tool_call a c", "function_call <nil> a__b"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the model knows %q, the client gets\n%q\nwant\n%q", flat, got, want)
	}
	for i := range flat {
		for j := range i {
			if flat[i] == flat[j] {
				t.Errorf("two tools are called %s", flat[i])
			}
		}
	}
}

// A call in pieces has the events and the item of one that comes whole. The input of a custom tool
// is not escaped.
func TestCallsInPieces(t *testing.T) {
	const body = `{"model":"m","input":"hi","store":false,"tools":[{"type":"custom","name":"patch"},{"type":"function","name":"f","parameters":{}}]}`
	for name, c := range map[string]struct {
		args   string
		pieces []string
		deltas string
	}{
		"f":     {`{"a":"b"}`, []string{"", `{"a`, `":"b"}`}, `"{\"a" "\":\"b\"}"`},
		"patch": {`{"input":"a\nb"}`, []string{`{"input":"a\`, `nb"`, `}`}, `"a" "\nb"`},
	} {
		encode := func(pieces []string) string {
			req, _ := decode(t, body)
			s := req.NewStream("1", time.Time{}, nil)
			wire := s.Encode(nil, &perigee.Event{Kind: perigee.EventStart, Model: "m"})
			for _, piece := range pieces {
				wire = s.Encode(wire, &perigee.Event{Kind: perigee.EventCallPart, Text: piece, Call: &perigee.FunctionCall{ID: "c", Name: name}})
			}
			wire = s.Encode(wire, &perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c", Name: name, Args: []byte(c.args)}})
			return string(s.End(wire))
		}
		rest, deltas := "", []string{}
		for _, event := range strings.SplitAfter(encode(c.pieces), "\n\n") {
			if _, delta, ok := strings.Cut(event, `"delta":`); ok {
				deltas = append(deltas, strings.TrimSuffix(delta, "}\n\n"))
			} else {
				rest += event
			}
		}
		if got := strings.Join(deltas, " "); got != c.deltas {
			t.Errorf("%s: the deltas %s", name, got)
		}
		number := regexp.MustCompile(`"sequence_number":\d+`)
		var want string
		for _, event := range strings.SplitAfter(encode(nil), "\n\n") {
			if !strings.Contains(event, `"delta":`) {
				want += event
			}
		}
		if got := number.ReplaceAllString(rest, ""); got != number.ReplaceAllString(want, "") {
			t.Errorf("%s: got\n%s\nwant\n%s", name, rest, want)
		}
	}
}

// A call that is cut off is not in the response.
func TestCallThatIsCutOff(t *testing.T) {
	req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","input":"hi","store":false}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := req.NewStream("1", time.Time{}, nil)
	s.Encode(nil, &perigee.Event{Kind: perigee.EventCallPart, Text: `{"a`, Call: &perigee.FunctionCall{ID: "c", Name: "f"}})
	got := string(s.Fail(nil, 503, perigee.Errorf(perigee.ClassUnavailable, "cut")))
	if !strings.Contains(got, "event: error") || !strings.Contains(got, `"output":[]`) || strings.Contains(got, "output_item.done") {
		t.Errorf("got %s", got)
	}
}
