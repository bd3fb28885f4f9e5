package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
)

// answers asks a simulator, and returns the message, or the data of the events of the stream.
func answers(t *testing.T, sim *simulator.Server, body string) []string {
	t.Helper()
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(body))
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	sim.ServeHTTP(w, r)
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		return []string{w.Body.String()}
	}
	var chunks []string
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			chunks = append(chunks, strings.TrimSpace(data))
		}
	}
	return chunks
}

// decoded is an answer as events report it, on one line.
func decoded(t *testing.T, chunks ...string) string {
	t.Helper()
	var d Decoder
	var events []perigee.Event
	for _, chunk := range chunks {
		var err error
		if events, err = d.Decode(events, []byte(chunk)); err != nil {
			return strings.TrimSpace(line(t, events) + " error:" + string(perigee.AsError(err).Class))
		}
	}
	if !d.Finished() {
		return strings.TrimSpace(line(t, events) + " unfinished")
	}
	return line(t, events)
}

func line(t *testing.T, events []perigee.Event) string {
	t.Helper()
	var out []string
	var pieces string
	last := perigee.EventFlush
	for i, ev := range events {
		if (ev.Kind == perigee.EventStart) != (i == 0) {
			t.Errorf("event %d of %d is a start", i, len(events))
		}
		switch ev.Kind {
		case perigee.EventText, perigee.EventThinking:
			if n := len(out); ev.Kind == last && ev.Signature == "" {
				out[n-1] += ev.Text
				continue
			}
			name := "text:"
			if ev.Kind == perigee.EventThinking {
				name = "thinking:"
			}
			out = append(out, name+ev.Text)
			if ev.Signature != "" {
				out = append(out, "signed")
			}
		case perigee.EventSignature:
			out = append(out, "signed")
		case perigee.EventRedacted:
			out = append(out, "redacted")
		case perigee.EventCallPart:
			pieces += ev.Text
		case perigee.EventCall:
			if json.Valid([]byte(pieces)) && pieces != string(ev.Call.Args) {
				t.Errorf("pieces %s of %s", pieces, ev.Call.Args)
			}
			pieces = ""
			out = append(out, "call:"+ev.Call.Name+string(ev.Call.Args))
		case perigee.EventGrounding:
			out = append(out, fmt.Sprintf("found:%d/%d/%d", len(ev.Grounding.Queries), len(ev.Grounding.Sources), len(ev.Grounding.Supports)))
		case perigee.EventFinish:
			finish := fmt.Sprintf("finish:%d %s", ev.Finish.Kind, ev.Finish.Reason)
			out = append(out, strings.TrimSpace(finish+" "+ev.Finish.Stop+ev.Finish.Message))
		}
		if ev.Kind != perigee.EventUsage {
			last = ev.Kind
		}
	}
	return strings.Join(out, " | ")
}

// The simulator answers in one piece and as a stream. A stream that is cut after any event before
// the last is not finished.
func TestDecoderReadsAnswers(t *testing.T) {
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	const file = `"tools":[{"name":"read_file","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}],`
	for name, c := range map[string]struct{ members, say, want string }{
		"text":                {"", `[[text: Hello.]]`, `text:Hello. | finish:0 end_turn`},
		"thinking and calls":  {file + `"thinking":{"type":"adaptive","display":"summarized"},`, `[[think: Let me see.]][[text: Hello.]][[call: read_file {\"path\":\"a\"}]][[call: read_file {\"path\":\"b\"}]]`, `thinking:Let me see. | signed | text:Hello. | call:read_file{"path":"a"} | call:read_file{"path":"b"} | finish:0 tool_use`},
		"omitted thinking":    {`"thinking":{"type":"adaptive"},`, `[[think: Let me see.]][[text: Hello.]]`, `thinking: | signed | text:Hello. | finish:0 end_turn`},
		"redacted thinking":   {`"thinking":{"type":"adaptive","display":"summarized"},`, `[[think: one\nredacted\ntwo]][[text: Hello.]]`, `thinking:one | signed | redacted | thinking:two | signed | text:Hello. | finish:0 end_turn`},
		"the limit":           {"", `[[text: Hello.]][[finish: max_tokens]]`, `text:Hello. | finish:1 max_tokens`},
		"the window":          {"", `[[text: Hello.]][[finish: model_context_window_exceeded]]`, `text:Hello. | finish:1 model_context_window_exceeded`},
		"a refusal":           {"", `[[text: He]][[finish: refusal]]`, `text:He | finish:2 refusal The request was refused.`},
		"a pause":             {"", `[[text: He]][[finish: pause_turn]]`, `text:He | finish:0 pause_turn`},
		"a stop sequence":     {`"stop_sequences":["END"],`, `[[text: one END two]]`, `text:one  | finish:0 stop_sequence END`},
		"a search":            {`"tools":[{"type":"web_search_20250305","name":"web_search"}],`, `[[ground: news]]`, ``},
		"a call without args": {file, `[[call: read_file {}]]`, `call:read_file{} | finish:0 tool_use`},
	} {
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":"claude-opus-4-8","max_tokens":2000,%s"stream":%v,"messages":[{"role":"user","content":"%s"}]}`, c.members, stream, c.say)
			chunks := answers(t, sim, body)
			got := decoded(t, chunks...)
			if c.want == "" {
				if !strings.Contains(got, "found:1/") || !strings.HasSuffix(got, "| finish:0 end_turn") {
					t.Errorf("%s, stream %v: got %s of\n%s", name, stream, got, perigee.Clip(strings.Join(chunks, "\n"), 1500))
				}
			} else if got != c.want {
				t.Errorf("%s, stream %v: got  %s\nwant %s\n%s", name, stream, got, c.want, perigee.Clip(strings.Join(chunks, "\n"), 1500))
			}
			for n := range len(chunks) - 1 {
				if got := decoded(t, chunks[:n+1]...); !strings.HasSuffix(got, "unfinished") {
					t.Errorf("%s, cut after %d: %s", name, n+1, got)
				}
			}
		}
	}
}

func TestDecoderIsTolerant(t *testing.T) {
	const start, stop = `{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":3}}}`, `{"type":"message_stop"}`
	const end = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}`
	call := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`
	input := func(piece string) string {
		return `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + fmt.Sprintf("%q", piece) + `}}`
	}
	for name, c := range map[string]struct {
		chunks []string
		want   string
	}{
		"a ping before the start":        {[]string{`{"type":"ping"}`, start, end, stop}, `finish:0 end_turn`},
		"unknown events and blocks":      {[]string{start, `{"type":"novelty"}`, `{"type":"content_block_start","content_block":{"type":"novelty"}}`, `{"type":"content_block_delta","delta":{"type":"novelty"}}`, end, stop}, `finish:0 end_turn`},
		"a block that is not stopped":    {[]string{start, call, input(`{"a":`), input(`1}`), end, stop}, `call:f{"a":1} | finish:0 end_turn`},
		"input at the start of a block":  {[]string{start, strings.Replace(call, `"input":{}`, `"input":{"a":1}`, 1), `{"type":"content_block_stop"}`, end, stop}, `call:f{"a":1} | finish:0 end_turn`},
		"input that is no object":        {[]string{start, call, input(`oh`), end, stop}, `call:f{"arguments":"oh"} | finish:0 end_turn`},
		"text at the start of a block":   {[]string{start, `{"type":"content_block_start","content_block":{"type":"text","text":"x"}}`, end, stop}, `text:x | finish:0 end_turn`},
		"the end twice":                  {[]string{start, end, end, stop, stop}, `finish:0 end_turn`},
		"no reason":                      {[]string{start, stop}, `finish:4`},
		"a change of no block":           {[]string{start, input("x"), end, stop}, `finish:0 end_turn`},
		"an error in the stream":         {[]string{start, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}, `error:capacity`},
		"an error in place of an answer": {[]string{`{"type":"error","error":{"type":"rate_limit_error","message":"no"}}`}, `error:rate_limited`},
		"no stop":                        {[]string{start, end}, `unfinished`},
		"a message without its reason":   {[]string{`{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":null}`}, `text:x unfinished`},
		"a page":                         {[]string{`<html>`}, `error:unavailable`},
		"no object":                      {[]string{`[]`}, `error:unavailable`},
		"a start without a message":      {[]string{`{"type":"message_start"}`}, `error:unavailable`},
	} {
		got := decoded(t, c.chunks...)
		if strings.Contains(c.want, "error:") {
			got = strings.TrimSpace(got)
		}
		if got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
}

// The provider counts cached tokens beside the input. Later events repeat some counts only.
func TestDecoderReadsUsage(t *testing.T) {
	var d Decoder
	events, err := d.Decode(nil, []byte(`{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":3,"cache_read_input_tokens":20,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},"output_tokens":1}}}`))
	if err != nil || len(events) != 2 || events[0].ResponseID != "m" || events[0].Model != "c" {
		t.Fatalf("%+v, %v", events, err)
	}
	events, err = d.Decode(nil, []byte(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}`))
	want := perigee.Usage{Input: 123, Cached: 20, Written: 100, WrittenHour: 40, Output: 9, Thinking: 4}
	if err != nil || len(events) != 1 || *events[0].Usage != want {
		t.Errorf("%+v, %v", events, err)
	}
	// The encoder of this dialect writes the counts as the provider does.
	c := NewCollector(&Answer{ID: "1"})
	c.Add(&events[0])
	if got := string(c.Bytes()); !strings.Contains(got, `"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":20,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},"output_tokens":9`) {
		t.Error(got)
	}
	d = Decoder{}
	if events, err = d.Decode(nil, []byte(`{"type":"message","id":"m","content":[],"stop_reason":"end_turn"}`)); err != nil || len(events) != 2 {
		t.Errorf("an answer without usage: %+v, %v", events, err)
	}
}

func TestDecodeError(t *testing.T) {
	body := func(kind, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
	}
	for _, c := range []struct {
		status int
		body   string
		class  perigee.Class
	}{
		{400, body("invalid_request_error", "max_tokens: Field required"), perigee.ClassInvalid},
		{400, body("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"), perigee.ClassInvalid},
		{400, body("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), perigee.ClassExhausted},
		{401, body("authentication_error", "invalid x-api-key"), perigee.ClassUnauthenticated},
		{402, body("billing_error", "no"), perigee.ClassExhausted},
		{403, body("permission_error", "no"), perigee.ClassForbidden},
		{404, body("not_found_error", "model: claude-9"), perigee.ClassNotFound},
		{413, body("request_too_large", "no"), perigee.ClassInvalid},
		{429, body("rate_limit_error", "no"), perigee.ClassRateLimited},
		{500, body("api_error", "no"), perigee.ClassUnavailable},
		{503, `<html>`, perigee.ClassCapacity},
		{504, body("timeout_error", "no"), perigee.ClassUnavailable},
		{529, body("overloaded_error", "Overloaded"), perigee.ClassCapacity},
		{0, body("overloaded_error", "Overloaded"), perigee.ClassCapacity},
		{0, `{"error":"no"}`, perigee.ClassUnavailable},
		{502, `<html>`, perigee.ClassUnavailable},
	} {
		e := DecodeError(c.status, []byte(c.body))
		if e.Class != c.class || e.Message == "" || c.status != 0 && e.Status != c.status {
			t.Errorf("%d %s: %+v", c.status, c.body, e)
		}
	}
}

func TestDecodeModels(t *testing.T) {
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	found := map[string]perigee.Model{}
	for next, pages := "", 0; ; pages++ {
		r := httptest.NewRequest("GET", "/v1/models?limit=5&after_id="+next, nil)
		r.Header.Set("X-Api-Key", "k")
		r.Header.Set("Anthropic-Version", "2023-06-01")
		w := httptest.NewRecorder()
		sim.ServeHTTP(w, r)
		var list []perigee.Model
		if list, next, err = DecodeModels(w.Body.Bytes()); err != nil || len(list) == 0 {
			t.Fatalf("%v in %s", err, w.Body)
		}
		for _, m := range list {
			found[m.ID] = m
		}
		if next == "" {
			if pages < 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
	}
	m := found["claude-opus-4-6"]
	if m.Context != 1_000_000 || m.Output != 128_000 || !m.Thinking || m.DisplayName != "Claude Opus 4.6" || m.Created.IsZero() ||
		fmt.Sprint(m.ThinkingTypes, m.Efforts) != "[adaptive disabled enabled] [high low max medium]" {
		t.Errorf("%+v", m)
	}
	if m, _, err := DecodeModels([]byte(`{"data":[{"id":"x"},{}]}`)); err != nil || len(m) != 1 || m[0].ThinkingTypes != nil || m[0].Efforts != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// Whatever a provider sends is decoded or refused as its mistake.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":1}}}`), []byte(`{"type":"content_block_stop"}`))
	f.Add([]byte(`{"type":"content_block_start","content_block":{"type":"thinking","thinking":"x"}}`), []byte(`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}}`))
	f.Add([]byte(`{"type":"content_block_start","content_block":{"type":"web_search_tool_result","content":[{"url":"u"}]}}`), []byte(`{"type":"content_block_start","content_block":{"type":"text","text":"x","citations":[{"url":"u"}]}}`))
	f.Add([]byte(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`), []byte(`{"type":"message","content":[{"type":"redacted_thinking","data":"d"}],"stop_reason":"refusal","stop_details":{"explanation":"no"}}`))
	f.Add([]byte(`{"type":"error","error":{"message":"no"}}`), []byte(`{"type":"message_stop"}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var d Decoder
		for _, chunk := range [][]byte{first, second} {
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
		_, _, _ = DecodeModels(first)
		DecodeError(400, second)
	})
}
