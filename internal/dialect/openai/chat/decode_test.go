package chat

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/simulator/openai"
)

// told is an answer as events report it, on one line.
func told(t *testing.T, chunks ...string) string {
	t.Helper()
	var d Decoder
	var events []perigee.Event
	for _, chunk := range chunks {
		var err error
		if events, err = d.Decode(events, []byte(chunk)); err != nil {
			return strings.TrimSpace(lineOf(t, events) + " error:" + string(perigee.AsError(err).Class))
		}
	}
	if !d.Finished() {
		return lineOf(t, events) + " unfinished"
	}
	return lineOf(t, events)
}

func lineOf(t *testing.T, events []perigee.Event) string {
	t.Helper()
	var out, thinking, text, parts strings.Builder
	flush := func() {
		for name, b := range map[string]*strings.Builder{"thinking": &thinking, "text": &text} {
			if b.Len() > 0 {
				fmt.Fprintf(&out, " %s:%q", name, b.String())
				b.Reset()
			}
		}
	}
	for i, ev := range events {
		if (ev.Kind == perigee.EventStart) != (i == 0) {
			t.Errorf("event %d of %d: a start", i, len(events))
		}
		switch ev.Kind {
		case perigee.EventThinking:
			thinking.WriteString(ev.Text)
			continue
		case perigee.EventText:
			if thinking.Len() > 0 {
				flush()
			}
			text.WriteString(ev.Text)
			continue
		case perigee.EventUsage:
			continue
		}
		flush()
		switch ev.Kind {
		case perigee.EventCallPart:
			parts.WriteString(ev.Text)
		case perigee.EventCall:
			if parts.Len() > 0 && parts.String() != string(ev.Call.Args) {
				t.Errorf("pieces %s of %s", parts.String(), ev.Call.Args)
			}
			parts.Reset()
			fmt.Fprintf(&out, " call:%s%s", ev.Call.Name, ev.Call.Args)
		case perigee.EventFinish:
			fmt.Fprintf(&out, " finish:%d", ev.Finish.Kind)
		}
	}
	flush()
	return strings.TrimSpace(out.String())
}

// The simulator answers like each of the servers, in one piece and as a stream. Some show no
// thinking. A stream that is cut after any chunk is not finished.
func TestDecoderAcceptsServers(t *testing.T) {
	const answer = `text:"Hello." call:read_file{"path":"a"} call:read_file{"path":"b"} finish:0`
	silent := map[string]bool{"openai": true, "azure": true, "mistral": true, "generic": true}
	for _, profile := range openai.Profiles() {
		sim, err := simulator.New(simulator.Options{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		defer sim.Close()
		model := openai.ProfileNamed(profile).Models[0].ID
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"[[think: Let me see.]][[text: Hello.]][[call: read_file {\"path\":\"a\"}]][[call: read_file {\"path\":\"b\"}]]"}],`+
				`"tools":[{"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}`, model, stream)
			r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer k")
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			sim.ServeHTTP(w, r)
			chunks := []string{w.Body.String()}
			if stream {
				chunks = nil
				for line := range strings.SplitSeq(w.Body.String(), "\n") {
					if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
						chunks = append(chunks, strings.TrimSpace(data))
					}
				}
			}
			want := `thinking:"Let me see." ` + answer
			if silent[profile] {
				want = answer
			}
			if got := told(t, chunks...); got != want {
				t.Errorf("%s, stream %v: got  %s\nwant %s\n%s", profile, stream, got, want, perigee.Clip(w.Body.String(), 1500))
			}
			for n := range chunks {
				if strings.Contains(chunks[n], `"finish_reason":"`) {
					break
				}
				if got := told(t, chunks[:n+1]...); !strings.HasSuffix(got, "unfinished") {
					t.Errorf("%s, cut after %d: %s", profile, n+1, got)
				}
			}
		}
	}
}

// chunkOf is a chunk with one delta.
func chunkOf(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }

// callDelta is a delta with one piece of a call.
func callDelta(piece string) string { return chunkOf(`{"tool_calls":[` + piece + `]}`) }

const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`

// Servers write deltas in ways that the API does not document.
func TestDecoderIsTolerant(t *testing.T) {
	const two = `call:f{"a":1} call:g{"b":2} finish:0`
	for name, c := range map[string]struct {
		chunks []string
		want   string
	}{
		"an empty role, null delta and content": {[]string{chunkOf(`{"role":"","content":null}`), `{"choices":[{"index":0,"delta":null}]}`, chunkOf(`{"content":"x"}`), end}, `text:"x" finish:0`},
		"a whole call without index":            {[]string{callDelta(`{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`), callDelta(`{"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}`), end}, two},
		"pieces without index": {[]string{callDelta(`{"id":"1","function":{"name":"f","arguments":""}}`), callDelta(`{"function":{"arguments":"{\"a\""}}`), callDelta(`{"function":{"arguments":":1}"}}`),
			callDelta(`{"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}`), end}, two},
		"the index begins at 1":               {[]string{callDelta(`{"index":1,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`), callDelta(`{"index":2,"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}`), end}, two},
		"one index for all":                   {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`), callDelta(`{"index":0,"id":"2","function":{"name":"g","arguments":"{\"b\":2}"}}`), end}, two},
		"the id in every piece":               {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`), callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":":1}"}}`), end}, `call:f{"a":1} finish:0`},
		"empty ids and names in later pieces": {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`), callDelta(`{"index":0,"id":"","function":{"name":"","arguments":":1}"}}`), end}, `call:f{"a":1} finish:0`},
		"no id at all":                        {[]string{callDelta(`{"index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}`), end}, `call:f{"a":1} finish:0`},
		"arguments that are an object":        {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":{"a":1}}}`), end}, `call:f{"a":1} finish:0`},
		"a call without a function":           {[]string{callDelta(`{"index":0,"id":""}`), chunkOf(`{"content":"x"}`), end}, `text:"x" finish:0`},
		"two calls in turn":                   {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}},{"index":1,"id":"2","function":{"name":"g","arguments":"{\"b\""}}`), callDelta(`{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}`), end}, two},
		"text between the pieces of a call":   {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`), chunkOf(`{"content":"x"}`), callDelta(`{"index":0,"function":{"arguments":":1}"}}`), end}, `call:f{"a":1} text:"x" finish:0`},
		"text after a call":                   {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`), chunkOf(`{"content":"x"}`), end}, `call:f{"a":1} text:"x" finish:0`},
		"a custom tool":                       {[]string{callDelta(`{"index":0,"id":"1","type":"custom","custom":{"name":"f","input":"x"}}`), callDelta(`{"index":0,"custom":{"input":"y"}}`), end}, `call:f{"input":"xy"} finish:0`},
		"the older function_call":             {[]string{chunkOf(`{"function_call":{"name":"f","arguments":"{\"a\":"}}`), chunkOf(`{"function_call":{"arguments":"1}"}}`), end}, `call:f{"a":1} finish:0`},
		"arguments that are no JSON":          {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":""}}`), callDelta(`{"index":0,"function":{"arguments":"oh"}}`), end}, `call:f{"arguments":"oh"} finish:0`},
		"no arguments":                        {[]string{callDelta(`{"index":0,"id":"1","function":{"name":"f"}}`), end}, `call:f{} finish:0`},
		"two names of reasoning":              {[]string{chunkOf(`{"reasoning":"a","reasoning_content":"a"}`), chunkOf(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]}`), end}, `thinking:"ab" text:"c" finish:0`},
		"unknown members, and no choices":     {[]string{`{"choices":[],"prompt_filter_results":[]}`, `{"novelty":{}}`, chunkOf(`{"content":"x"}`), end, `{"choices":[],"usage":{"prompt_tokens":1}}`}, `text:"x" finish:0`},
		"a second finish reason":              {[]string{chunkOf(`{"content":"x"}`), end, end}, `text:"x" finish:0`},
		"the limit of the model":              {[]string{`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"model_length"}]}`}, `text:"x" finish:1`},
		"filtered":                            {[]string{`{"choices":[{"finish_reason":"content_filter","index":0,"message":{"content":null,"refusal":"no"}}]}`}, `text:"no" finish:2`},
		"[DONE] without a finish reason":      {[]string{chunkOf(`{"content":"x"}`), `[DONE]`}, `text:"x" unfinished`},
		"an error in the stream":              {[]string{chunkOf(`{"content":"x"}`), `{"error":{"message":"no","code":429}}`}, `text:"x" error:rate_limited`},
		"a flat error":                        {[]string{`{"object":"error","message":"no","code":503}`}, `error:capacity`},
		"an error of a choice":                {[]string{`{"choices":[{"index":0,"error":{"code":502,"message":"no"},"finish_reason":"error"}]}`}, `error:unavailable`},
		"an error as the finish reason":       {[]string{chunkOf(`{"content":"x"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}`}, `text:"x" error:capacity`},
		"a page":                              {[]string{`<html>`}, `error:unavailable`},
		"no object":                           {[]string{`[]`}, `error:unavailable`},
	} {
		if got := told(t, c.chunks...); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
}

// The work for each piece is bounded by the calls that are open.
func TestDecoderBoundsOpenCalls(t *testing.T) {
	var chunks []string
	for i := range maxOpenCalls + 1 {
		chunks = append(chunks, callDelta(fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{"}}`, i, i)))
	}
	if got := told(t, chunks...); !strings.HasSuffix(got, "error:unavailable") {
		t.Errorf("got %s", perigee.Clip(got, 200))
	}
	if got := told(t, chunks[:maxOpenCalls]...); !strings.HasSuffix(got, "unfinished") {
		t.Errorf("got %s", perigee.Clip(got, 200))
	}
}

func TestDecoderReadsUsage(t *testing.T) {
	for body, want := range map[string]perigee.Usage{
		`{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`:                                   {Input: 10, Cached: 4, Output: 5, Thinking: 2},
		`{"usage":{"prompt_tokens":10,"completion_tokens":5,"num_cached_tokens":3,"prompt_tokens_details":null}}`:                                                                               {Input: 10, Cached: 3, Output: 5},
		`{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":7,"prompt_cache_miss_tokens":3}}`:                                                                         {Input: 10, Cached: 7, Output: 5},
		`{"usage":{"prompt_tokens":10,"completion_tokens":5,"cost":0.0125,"cost_details":{"upstream_inference_cost":null},"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3}}}`: {Input: 10, Cached: 4, Written: 3, Output: 5, Charged: perigee.USD(0.0125)},
		`{"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":"free"}}`:                                                                                                                     {Input: 1, Output: 2},
		`{"x_groq":{"id":"x","usage":{"prompt_tokens":1,"completion_tokens":2}}}`:                                                                                                               {Input: 1, Output: 2},
	} {
		var d Decoder
		events, err := d.Decode(nil, []byte(body))
		if err != nil || len(events) != 2 || events[1].Usage == nil || *events[1].Usage != want {
			t.Errorf("%s: %+v, %v", body, events, err)
		}
	}
	var d Decoder
	events, err := d.Decode(nil, []byte(`{"id":"r","model":"m","usage":null,"choices":[]}`))
	if err != nil || len(events) != 1 || events[0].ResponseID != "r" || events[0].Model != "m" {
		t.Errorf("%+v, %v", events, err)
	}
}

// Whatever a provider sends is decoded or refused as its mistake.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(callDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}`)), []byte(end))
	f.Add([]byte(chunkOf(`{"content":[{"type":"text","text":"x"}],"reasoning":"y"}`)), []byte(`[DONE]`))
	f.Add([]byte(`{"error":{"message":"no","code":429}}`), []byte(`{"object":"error"}`))
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
	})
}
