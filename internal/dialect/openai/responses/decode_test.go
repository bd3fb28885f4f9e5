package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/simulator/openai"
)

// told is an answer as events report it, on one line.
func told(t *testing.T, streamed bool, chunks ...string) string {
	t.Helper()
	d := NewDecoder(streamed)
	var events []perigee.Event
	for _, chunk := range chunks {
		var err error
		if events, err = d.Decode(events, []byte(chunk)); err != nil {
			return strings.TrimSpace(lineOf(t, events) + " error:" + string(perigee.AsError(err).Class))
		}
	}
	if !d.Finished() {
		return strings.TrimSpace(lineOf(t, events) + " unfinished")
	}
	return lineOf(t, events)
}

func lineOf(t *testing.T, events []perigee.Event) string {
	t.Helper()
	var out, said strings.Builder
	var last perigee.EventKind
	pieces, calling := "", false
	flush := func() {
		if said.Len() > 0 {
			fmt.Fprintf(&out, " %s:%q", map[perigee.EventKind]string{perigee.EventText: "text", perigee.EventThinking: "thinking"}[last], said.String())
			said.Reset()
		}
	}
	for i, ev := range events {
		if (ev.Kind == perigee.EventStart) != (i == 0) {
			t.Errorf("event %d of %d: a start", i, len(events))
		}
		if calling && ev.Kind != perigee.EventCallPart && ev.Kind != perigee.EventCall {
			t.Errorf("event %d of kind %d between the pieces of a call", i, ev.Kind)
		}
		if ev.Kind != last {
			flush()
		}
		last = ev.Kind
		switch ev.Kind {
		case perigee.EventThinking, perigee.EventText:
			said.WriteString(ev.Text)
			if ev.Signature != "" {
				flush()
				fmt.Fprintf(&out, " empty+%s", ev.Signature)
			}
		case perigee.EventSignature:
			fmt.Fprintf(&out, " +%s", ev.Signature)
		case perigee.EventCallPart:
			pieces, calling = pieces+ev.Text, true
		case perigee.EventCall:
			if calling && pieces != string(ev.Call.Args) {
				t.Errorf("pieces %s of %s", pieces, ev.Call.Args)
			}
			fmt.Fprintf(&out, " call:%s:%s%s", ev.Call.ID, ev.Call.Name, ev.Call.Args)
			if calling {
				out.WriteString("*")
			}
			pieces, calling = "", false
		case perigee.EventBlob:
			fmt.Fprintf(&out, " blob:%s:%s", ev.Blob.MIME, ev.Blob.Data)
		case perigee.EventGrounding:
			fmt.Fprintf(&out, " found:%v", *ev.Grounding)
		case perigee.EventLogprobs:
			fmt.Fprintf(&out, " logprobs:%v", *ev.Logprobs)
		case perigee.EventUsage:
			fmt.Fprintf(&out, " usage:%v", *ev.Usage)
		case perigee.EventFinish:
			fmt.Fprintf(&out, " finish:%d:%s", ev.Finish.Kind, ev.Finish.Reason)
		}
	}
	flush()
	return strings.TrimSpace(out.String())
}

// dataOf returns the data of the events of a stream.
func dataOf(stream string) (chunks []string) {
	for line := range strings.SplitSeq(stream, "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			chunks = append(chunks, strings.TrimSpace(data))
		}
	}
	return chunks
}

// post sends a request to the simulator.
func post(sim *simulator.Server, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/v1/responses", bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	sim.ServeHTTP(w, r)
	return w
}

// The simulator answers like each of the servers, in one piece and as a stream, which report the
// same. A stream that is cut after any event but the last is not finished.
func TestDecoderAcceptsServers(t *testing.T) {
	const want = `text:"Hello." call:ID:read_file{"path":"a"}* call:ID:read_file{"path":"b"}* usage:U finish:0:completed`
	hidden := map[string]string{"openai": "empty+seal ", "azure": "empty+seal ", "generic": ""}
	served := 0
	for _, profile := range openai.Profiles() {
		sim, err := simulator.New(simulator.Options{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		defer sim.Close()
		model := openai.ProfileNamed(profile).Models[0].ID
		for _, stream := range []bool{false, true} {
			body := EncodeRequest(&perigee.Prompt{
				Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{textPart(
					`[[think: Let me see.]][[text: Hello.]][[call: read_file {"path":"a"}]][[call: read_file {"path":"b"}]]`)}}},
				Tools: []perigee.Tool{{Function: &perigee.Function{Name: "read_file", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}},
			}, Envelope{Model: model, Stream: stream})
			w := post(sim, body)
			if w.Code == 404 {
				continue
			}
			served++
			chunks := []string{w.Body.String()}
			if stream {
				chunks = dataOf(w.Body.String())
			}
			line := ids.ReplaceAllString(told(t, stream, chunks...), "call:ID:")
			line = usages.ReplaceAllString(line, "usage:U")
			line = seals.ReplaceAllString(line, "$1+seal")
			if !stream {
				line = strings.ReplaceAll(line, "} ", "}* ")
			}
			thought, ok := hidden[profile]
			if !ok {
				thought = `thinking:"Let me see." +seal `
			}
			if want := thought + want; line != want {
				t.Errorf("%s, stream %v: got  %s\nwant %s\n%s", profile, stream, line, want, perigee.Clip(w.Body.String(), 1500))
			}
			for n := range len(chunks) - 1 {
				if got := told(t, stream, chunks[:n+1]...); !strings.HasSuffix(got, "unfinished") {
					t.Errorf("%s, cut after %d: %s", profile, n+1, got)
				}
			}
		}
	}
	if served < 8 {
		t.Errorf("only %d answers", served)
	}
}

// A tool loop with encrypted reasoning goes on: the server gets back what it has sent.
func TestReasoningReturnsToItsProvider(t *testing.T) {
	sim, err := simulator.New(simulator.Options{Profile: "openai"})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
		textPart(`[[think: Let me see.]][[text: Hello.]][[call: f {}]][[call: patch {"input":"x"}]]`)}}},
		Tools: []perigee.Tool{{Function: &perigee.Function{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}},
			{Function: &perigee.Function{Name: "patch", Custom: &perigee.CustomInput{}}}},
		Generation: perigee.Generation{Thinking: &perigee.Thinking{Include: new(true), Level: "low"}}}
	answer, results := perigee.Content{Role: perigee.RoleModel}, perigee.Content{Role: perigee.RoleUser}
	d := NewDecoder(true)
	thinking := ""
	for _, chunk := range dataOf(post(sim, EncodeRequest(p, Envelope{Model: "gpt-5", Stream: true})).Body.String()) {
		events, err := d.Decode(nil, []byte(chunk))
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			switch ev.Kind {
			case perigee.EventThinking:
				thinking += ev.Text
			case perigee.EventSignature:
				answer.Parts = append(answer.Parts, thoughtPart(thinking, ev.Signature))
			case perigee.EventText:
				answer.Parts = append(answer.Parts, textPart(ev.Text))
			case perigee.EventCall:
				answer.Parts = append(answer.Parts, perigee.Part{Kind: perigee.PartCall, Call: ev.Call})
				results.Parts = append(results.Parts, resultPart(ev.Call.ID, `{"output":"done"}`))
			}
		}
	}
	p.Contents = append(p.Contents, answer, results)
	body := EncodeRequest(p, Envelope{Model: "gpt-5"})
	for _, want := range []string{`"encrypted_content":"gAAAA`, `"text":"Let me see."`, `"custom_tool_call_output"`} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if w := post(sim, body); w.Code != 200 {
		t.Errorf("%d %s for %s", w.Code, w.Body, body)
	}
	if w := post(sim, bytes.Replace(body, []byte("gAAAA"), []byte("gAAAB"), 1)); w.Code != 400 {
		t.Errorf("%d for a changed reasoning", w.Code)
	}
}

var (
	ids    = regexp.MustCompile(`call:[^:]*:`)
	usages = regexp.MustCompile(`usage:\{[^}]*\}`)
	seals  = regexp.MustCompile(`(empty)?\+gAAAA\S*`)
)

// The names of the events of streams, shortened.
func event(kind, members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"type":"response.` + kind + `"` + members + `}`
}

func itemDone(index int, item string) string {
	return event("output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, index, item))
}

func itemAdded(index int, item string) string {
	return event("output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, index, item))
}

func completed(output string) string {
	return event("completed", `"response":{"status":"completed","output":[`+output+`]}`)
}

const (
	messageItemJSON = `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}`
	callItemJSON    = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}`
	customItemJSON  = `{"type":"custom_tool_call","id":"ctc_1","call_id":"c2","name":"p","input":"a\"b"}`
	thinkItemJSON   = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"e"}`
)

func textDelta(members, delta string) string {
	return event("output_text.delta", members+`"delta":"`+delta+`"`)
}

func argsDelta(members, delta string) string {
	return event("function_call_arguments.delta", fmt.Sprintf(`%s"delta":%q`, members, delta))
}

// Servers leave events out, repeat ids and indexes, and send content twice.
func TestDecoderIsTolerant(t *testing.T) {
	const end = " finish:0:completed"
	for name, c := range map[string]struct {
		chunks []string
		want   string
	}{
		"only the response at the end": {[]string{completed(thinkItemJSON + `,` + messageItemJSON + `,` + callItemJSON + `,` + customItemJSON)},
			`thinking:"A\n\nB" +e text:"Hi" call:c1:f{"a":1} call:c2:p{"input":"a\"b"}` + end},
		"items without deltas, and all again at the end": {[]string{itemDone(0, thinkItemJSON), itemDone(1, messageItemJSON), itemDone(2, callItemJSON), completed(thinkItemJSON + `,` + messageItemJSON + `,` + callItemJSON)},
			`thinking:"A\n\nB" +e text:"Hi" call:c1:f{"a":1}` + end},
		"items without ids at the end": {[]string{itemDone(0, messageItemJSON), itemDone(1, callItemJSON), completed(`{"type":"reasoning","summary":[],"encrypted_content":"e"},` +
			strings.Replace(messageItemJSON, `"id":"msg_1",`, ``, 1) + `,` + strings.Replace(callItemJSON, `"id":"fc_1",`, ``, 1))},
			`text:"Hi" call:c1:f{"a":1} empty+e` + end},
		"deltas without an item":                   {[]string{textDelta(`"output_index":0,"item_id":"x",`, "H"), textDelta(`"output_index":0,"item_id":"x",`, "i"), completed("")}, `text:"Hi"` + end},
		"deltas without an item, which comes done": {[]string{textDelta(`"output_index":0,"item_id":"msg_1",`, "Hi"), itemDone(0, messageItemJSON), completed(messageItemJSON)}, `text:"Hi"` + end},
		"no ids and no indexes":                    {[]string{textDelta("", "H"), textDelta("", "i"), event("output_item.done", `"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}`), completed("")}, `text:"Hi"` + end},
		"another id in each event":                 {[]string{itemAdded(0, `{"type":"message","id":"m1"}`), textDelta(`"output_index":0,"item_id":"m2",`, "H"), textDelta(`"output_index":0,"item_id":"m3",`, "i"), itemDone(0, messageItemJSON), completed(strings.Replace(messageItemJSON, "msg_1", "m9", 1))}, `text:"Hi"` + end},
		"one index for all items": {[]string{itemAdded(0, `{"type":"message","id":"msg_1"}`), textDelta(`"output_index":0,"item_id":"msg_1",`, "Hi"), itemDone(0, messageItemJSON),
			itemAdded(0, `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`), argsDelta(`"output_index":0,"item_id":"fc_1",`, `{"a":1}`), itemDone(0, callItemJSON), completed(messageItemJSON + `,` + callItemJSON)},
			`text:"Hi" call:c1:f{"a":1}*` + end},
		"a call in pieces":                       {[]string{itemAdded(0, `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`), argsDelta(`"item_id":"fc_1",`, `{"a"`), argsDelta(`"item_id":"fc_1",`, `:1}`), itemDone(0, callItemJSON), completed(callItemJSON)}, `call:c1:f{"a":1}*` + end},
		"a call that is not done":                {[]string{itemAdded(0, `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}`), argsDelta(`"item_id":"fc_1",`, `{"a":1}`), completed("")}, `call:c1:f{"a":1}*` + end},
		"a call whose name comes late":           {[]string{argsDelta(`"output_index":0,`, `{"a":1}`), itemDone(0, callItemJSON), completed("")}, `call:c1:f{"a":1}` + end},
		"a call without an id":                   {[]string{itemDone(0, `{"type":"function_call","id":"fc_1","name":"f","arguments":{"a":1}}`), completed("")}, `call:fc_1:f{"a":1}` + end},
		"a call with arguments that are no JSON": {[]string{itemDone(0, `{"type":"function_call","call_id":"c1","name":"f","arguments":"oh"}`), completed("")}, `call:c1:f{"arguments":"oh"}` + end},
		"a custom tool in pieces": {[]string{itemAdded(0, `{"type":"custom_tool_call","id":"ctc_1","call_id":"c2","name":"p","input":""}`), event("custom_tool_call_input.delta", `"item_id":"ctc_1","delta":"a\""`),
			event("custom_tool_call_input.delta", `"item_id":"ctc_1","delta":"b"`), itemDone(0, customItemJSON), completed("")}, `call:c2:p{"input":"a\"b"}*` + end},
		"content between the pieces of a call": {[]string{itemAdded(0, `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f"}`), argsDelta(`"item_id":"fc_1",`, `{"a"`), textDelta(`"output_index":1,`, "Hi"),
			itemAdded(2, `{"type":"function_call","id":"fc_2","call_id":"c2","name":"g"}`), argsDelta(`"item_id":"fc_2",`, `{}`), argsDelta(`"item_id":"fc_1",`, `:1}`), itemDone(0, callItemJSON), completed("")},
			`call:c1:f{"a":1}* text:"Hi" call:c2:g{}` + end},
		"a summary in pieces": {[]string{itemAdded(0, `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"early"}`), event("reasoning_summary_text.delta", `"item_id":"rs_1","summary_index":0,"delta":"A"`),
			event("reasoning_summary_text.delta", `"item_id":"rs_1","summary_index":1,"delta":"B"`), itemDone(0, thinkItemJSON), completed("")}, `thinking:"A\n\nB" +e` + end},
		"plain reasoning":         {[]string{event("reasoning_text.delta", `"output_index":0,"content_index":0,"delta":"A"`), itemDone(0, `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"A"}]}`), completed("")}, `thinking:"A"` + end},
		"reasoning twice, unseen": {[]string{itemDone(0, `{"type":"reasoning","encrypted_content":"e1"}`), itemDone(1, `{"type":"reasoning","encrypted_content":"e2"}`), completed("")}, `empty+e1 empty+e2` + end},
		"a refusal":               {[]string{event("refusal.delta", `"output_index":0,"delta":"No"`), itemDone(0, `{"type":"message","content":[{"type":"refusal","refusal":"No"}]}`), completed("")}, `text:"No"` + end},
		"an image":                {[]string{itemDone(0, `{"type":"image_generation_call","result":"AA"}`), itemDone(1, `{"type":"image_generation_call","result":"BB","output_format":"webp"}`), completed("")}, `blob:image/png:AA blob:image/webp:BB` + end},
		"a search and its citation": {[]string{itemDone(0, `{"type":"web_search_call","action":{"type":"search","query":"q"}}`), itemDone(1, `{"type":"message","content":[{"type":"output_text","text":"é is e","annotations":[{"type":"url_citation","start_index":2,"end_index":4,"url":"u","title":"t"},{"type":"file_citation"}]}]}`), completed("")},
			`found:{[q] [] []} text:"é is e" found:{[] [{u t}] [{3 5 is [0]}]}` + end},
		"probabilities": {[]string{textDelta(`"output_index":0,"logprobs":[{"token":"Hi","logprob":-1,"top_logprobs":[{"token":"Ho","logprob":-2}]}],`, "Hi"), itemDone(0, strings.Replace(messageItemJSON, `"logprobs":[]`, `"logprobs":[{"token":"Hi","logprob":-1}]`, 1)), completed("")},
			`text:"Hi" logprobs:{[{Hi -1}] [[{Ho -2}]]}` + end},
		"usage":                 {[]string{event("completed", `"response":{"status":"completed","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":3},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"cost":0.0125}}`)}, `usage:{9 4 3 0 5 2 $0.0125}` + end},
		"the limit":             {[]string{textDelta("", "Hi"), event("incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`)}, `text:"Hi" finish:1:max_output_tokens`},
		"filtered":              {[]string{event("incomplete", `"response":{"incomplete_details":{"reason":"content_filter"}}`)}, `finish:2:content_filter`},
		"an old status":         {[]string{textDelta("", "Hi"), event("completed", `"response":{"status":"in_progress"}`)}, `text:"Hi"` + end},
		"a second end":          {[]string{textDelta("", "Hi"), completed(""), completed(messageItemJSON), "[DONE]"}, `text:"Hi"` + end},
		"unknown events":        {[]string{event("novelty", ``), `{"type":"keepalive","sequence_number":3}`, itemDone(0, `{"type":"mcp_call"}`), itemDone(1, `7`), completed("7")}, `finish:0:completed`},
		"no end":                {[]string{event("created", `"response":{"status":"completed"}`), textDelta("", "Hi"), "[DONE]"}, `text:"Hi" unfinished`},
		"overloaded":            {[]string{textDelta("", "Hi"), event("failed", `"response":{"status":"failed","error":{"code":"server_is_overloaded","message":"no"}}`)}, `text:"Hi" error:capacity`},
		"slow down":             {[]string{`{"type":"error","code":"slow_down","message":"no","param":null}`}, `error:capacity`},
		"an error in an object": {[]string{`{"type":"error","error":{"code":"rate_limit_exceeded","message":"no"}}`}, `error:rate_limited`},
		"quota":                 {[]string{event("failed", `"response":{"error":{"code":"insufficient_quota","message":"no"}}`)}, `error:exhausted`},
		"too long":              {[]string{event("failed", `"response":{"error":{"code":"context_length_exceeded","message":"no"}}`)}, `error:invalid`},
		"an invalid prompt":     {[]string{event("failed", `"response":{"error":{"code":"invalid_prompt","message":"no"}}`)}, `error:invalid`},
		"a failure without why": {[]string{event("failed", `"response":{"status":"failed"}`)}, `error:unavailable`},
		"cancelled":             {[]string{event("cancelled", `"response":{}`)}, `error:unavailable`},
		"a page":                {[]string{`<html>`}, `error:unavailable`},
		"no object":             {[]string{`[]`}, `error:unavailable`},
	} {
		if got := told(t, true, c.chunks...); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestDecoderReadsWholeResponses(t *testing.T) {
	for body, want := range map[string]string{
		`{"object":"response","status":"completed","output":[` + thinkItemJSON + `,` + messageItemJSON + `],"error":null,"usage":{"input_tokens":1,"output_tokens":2}}`: `thinking:"A\n\nB" +e text:"Hi" usage:{1 0 0 0 2 0 -} finish:0:completed`,
		`{"output":[` + callItemJSON + `]}`: `call:c1:f{"a":1} finish:0:completed`,
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`: `finish:1:max_output_tokens`,
		`{"status":"failed","error":{"code":"server_is_overloaded","message":"no"},"output":[]}`:  `error:capacity`,
		`{"error":{"message":"no","type":"x","code":"rate_limit_exceeded"}}`:                      `error:rate_limited`,
		`{"object":"error","message":"no","code":503}`:                                            `error:capacity`,
		`{}`:                              `error:unavailable`,
		`{"status":"queued","output":[]}`: `unfinished`,
		`{"status":"completed","output":{"a":1}}`: `finish:0:completed`,
	} {
		if got := told(t, false, body); got != want {
			t.Errorf("%s: got  %s\nwant %s", body, got, want)
		}
	}
	d := NewDecoder(true)
	events, err := d.Decode(nil, []byte(event("created", `"response":{"id":"resp_1","model":"m","error":null}`)))
	if err != nil || len(events) != 1 || events[0].ResponseID != "resp_1" || events[0].Model != "m" {
		t.Errorf("%+v, %v", events, err)
	}
}

// The answers of perigee itself are answers of this API.
func TestDecoderReadsOwnAnswers(t *testing.T) {
	const want = `thinking:"hm" empty+C text:"some text" call:c1:f{"a":1} call:c2:patch{"input":"x\ny"}`
	req, _ := decode(t, `{"input":"hi","store":false,"reasoning":{"summary":"auto"},"tools":[{"type":"custom","name":"patch"}]}`)
	events := []perigee.Event{thoughtEvent("hm", "s"), textEvent("some "), textEvent("text"),
		{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c1", Name: "f", Args: json.RawMessage(`{"a":1}`)}},
		{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c2", Name: "patch", Args: json.RawMessage(`{"input":"x\ny"}`)}},
		finishEvent("STOP")}
	stream, whole := req.NewStream("1", now(), now), req.NewCollector("1", now(), now)
	var wire []byte
	for i := range events {
		wire = stream.Encode(wire, &events[i])
		whole.Add(&events[i])
	}
	wire = stream.End(wire)
	plain := func(line string) string {
		line = regexp.MustCompile(` \+\S+`).ReplaceAllString(line, " empty+C")
		return strings.TrimSuffix(strings.ReplaceAll(line, "*", ""), " finish:0:completed")
	}
	if got := plain(told(t, true, dataOf(string(wire))...)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := plain(told(t, false, string(whole.Bytes()))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeTokenCount(t *testing.T) {
	count, err := DecodeTokenCount([]byte(`{"object":"response.input_tokens","input_tokens":11}`))
	if err != nil || count.Total != 11 || count.Estimate {
		t.Errorf("%+v, %v", count, err)
	}
	for _, body := range []string{`{}`, `[]`, `<html>`, `{"input_tokens":"x"}`} {
		if _, err := DecodeTokenCount([]byte(body)); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassUnavailable {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Whatever a provider sends is decoded or refused as its mistake.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(itemAdded(0, callItemJSON)), []byte(argsDelta(`"item_id":"fc_1",`, `{"a":1}`)), []byte(completed(callItemJSON)))
	f.Add([]byte(textDelta(`"output_index":0,`, "x")), []byte(itemDone(0, messageItemJSON)), []byte(completed(thinkItemJSON)))
	f.Add([]byte(itemDone(0, customItemJSON)), []byte(`{"type":"error","code":"slow_down"}`), []byte(`{"status":"completed","output":[`+customItemJSON+`]}`))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		for _, streamed := range []bool{true, false} {
			d := NewDecoder(streamed)
			for _, chunk := range [][]byte{first, second, third} {
				events, err := d.Decode(nil, chunk)
				if err != nil && (len(events) > 0 || perigee.AsError(err).Message == "") {
					t.Fatalf("%q: %d events, %v", chunk, len(events), err)
				}
				for _, ev := range events {
					if ev.Kind == perigee.EventCall && !json.Valid(ev.Call.Args) {
						t.Fatalf("%q: arguments %q", chunk, ev.Call.Args)
					}
				}
			}
		}
	})
}
