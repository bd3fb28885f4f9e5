package gemini

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"perigee"
)

// show writes an event as one line.
func show(ev perigee.Event) string {
	s := map[perigee.EventKind]string{
		perigee.EventStart: "start", perigee.EventText: "text", perigee.EventThinking: "thinking", perigee.EventSignature: "signature",
		perigee.EventCall: "call", perigee.EventBlob: "blob", perigee.EventPart: "part", perigee.EventGrounding: "grounding",
		perigee.EventUsage: "usage", perigee.EventFinish: "finish",
	}[ev.Kind]
	if ev.Candidate > 0 {
		s += fmt.Sprintf("#%d", ev.Candidate)
	}
	for _, v := range []string{ev.Model, ev.ResponseID, ev.Text, string(ev.Raw)} {
		if v != "" {
			s += " " + v
		}
	}
	if ev.Call != nil {
		s += fmt.Sprintf(" %s(%s)%s", ev.Call.Name, ev.Call.Args, ev.Call.ID)
	}
	if ev.Blob != nil {
		s += " " + ev.Blob.MIME
	}
	if ev.Signature != "" {
		s += " sealed " + ev.Signature
	}
	if ev.Usage != nil {
		s += fmt.Sprintf(" in %d (%d cached) out %d (%d thinking)", ev.Usage.Input, ev.Usage.Cached, ev.Usage.Output, ev.Usage.Thinking)
	}
	if ev.Finish != nil {
		s += " " + strings.TrimSpace(ev.Finish.Reason+" "+ev.Finish.Message)
	}
	return s
}

func TestDecodeChunks(t *testing.T) {
	for _, c := range []struct{ name, chunks, want string }{
		{"text with a start", `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}],"modelVersion":"m1","responseId":"r1"}
{"candidates":[{"content":{"parts":[{"text":" there"}]},"finishReason":"STOP","index":0}],"modelVersion":"m1"}`,
			"start m1 r1; text Hi; text  there; finish STOP"},
		{"thinking, a seal in a part of its own, a call", `{"candidates":[{"content":{"parts":[{"text":"plan","thought":true}]}}]}
{"candidates":[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"sig"}]}}]}
{"candidates":[{"content":{"parts":[{"functionCall":{"name":"read","args":{"p":1},"id":"7"},"thoughtSignature":"czI="},{"functionCall":{"name":"bare"}}]}}]}`,
			`start; thinking plan; signature sealed sig; call read({"p":1})7 sealed czI=; call bare()`},
		{"sealed visible text stays text", `{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"s"}]}}]}`, "start; text a sealed s"},
		{"white space is content", `{"candidates":[{"content":{"parts":[{"text":" \n"}]}}]}`, "start; text  \n"},
		{"empty text says nothing", `{"candidates":[{"content":{"parts":[{"text":""},{}]}}]}`, "start"},
		{"an image, code, and a part of the future", `{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"aA=="}},{"executableCode":{"code":"1"}},{"hologram":{}}]}}]}`,
			`start; blob image/png; part {"executableCode":{"code":"1"}}; part {"hologram":{}}`},
		{"several candidates", `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","index":0},{"content":{"parts":[{"text":"b"}]},"finishReason":"MAX_TOKENS","index":1}]}`,
			"start; text a; finish STOP; text#1 b; finish#1 MAX_TOKENS"},
		{"grounding", `{"candidates":[{"groundingMetadata":{"webSearchQueries":["q"]},"finishReason":"STOP"}]}`, `start; grounding {"webSearchQueries":["q"]}; finish STOP`},
		{"usage of each kind", `{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"toolUsePromptTokenCount":5,"totalTokenCount":20}}`,
			"start; usage in 15 (4 cached) out 5 (2 thinking)"},
		{"usage without candidates", `{"usageMetadata":{"promptTokenCount":10,"thoughtsTokenCount":2,"totalTokenCount":15}}`, "start; usage in 10 (0 cached) out 5 (2 thinking)"},
		{"a blocked prompt", `{"promptFeedback":{"blockReason":"SAFETY"}}`, "start; finish SAFETY the prompt was blocked"},
		{"snake case", `{"candidates":[{"finish_reason":"STOP"}],"usage_metadata":{"prompt_token_count":"3"},"model_version":"m"}`, "start m; finish STOP; usage in 3 (0 cached) out 0 (0 thinking)"},
		{"nothing known", `{"novelty":1}`, "start"},
	} {
		var d Decoder
		var got []string
		for chunk := range strings.SplitSeq(c.chunks, "\n") {
			events, err := d.Decode(nil, []byte(chunk))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			for _, ev := range events {
				got = append(got, show(ev))
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, s, c.want)
		}
	}
}

func TestDecodeBrokenChunks(t *testing.T) {
	for chunk, want := range map[string]struct {
		class   perigee.Class
		message string
	}{
		`{"candidates":`:     {perigee.ClassUnavailable, "not JSON"},
		`{"candidates":{}}`:  {perigee.ClassUnavailable, "unknown shape"},
		`{"candidates":[7]}`: {perigee.ClassUnavailable, "unknown shape"},
		`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`: {perigee.ClassRateLimited, "slow down"},
		`{"error":{"code":400,"message":"no"}}`:                                      {perigee.ClassInvalid, "no"},
	} {
		var d Decoder
		_, err := d.Decode(nil, []byte(chunk))
		if e := perigee.AsError(err); e == nil || e.Class != want.class || !strings.Contains(e.Message, want.message) {
			t.Errorf("%s: %v", chunk, err)
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		class      perigee.Class
		retry      time.Duration
		message    string
	}{
		{"bad request", `{"error":{"code":400,"message":"Unknown name","status":"INVALID_ARGUMENT"}}`, 400, perigee.ClassInvalid, 0, "Unknown name"},
		{"bad key", `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, 400, perigee.ClassUnauthenticated, 0, "API key not valid."},
		{"rate", `{"error":{"code":429,"message":"quota","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}`, 429, perigee.ClassRateLimited, 3500 * time.Millisecond, "quota"},
		{"day's quota", `{"error":{"code":429,"message":"quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel"}]}]}}`, 429, perigee.ClassExhausted, 0, "quota"},
		{"overloaded", `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, 503, perigee.ClassCapacity, 0, "overloaded"},
		{"in a list", `[{"error":{"code":404,"message":"not found"}}]`, 404, perigee.ClassNotFound, 0, "not found"},
		{"forbidden", `{"error":{"message":"denied"}}`, 403, perigee.ClassForbidden, 0, "denied"},
		{"a proxy's page", `<html>bad gateway</html>`, 502, perigee.ClassUnavailable, 0, "did not explain"},
		{"nothing", ``, 500, perigee.ClassUnavailable, 0, "did not explain"},
		{"a word", `{"error":"invalid_grant"}`, 400, perigee.ClassInvalid, 0, "invalid_grant"},
		{"nonsense", `{"error":{"message":7,"details":{}}}`, 400, perigee.ClassInvalid, 0, ""},
	} {
		e := DecodeError(c.status, []byte(c.body))
		if e.Class != c.class || e.Retry != c.retry || !strings.Contains(e.Message, c.message) || e.Status != c.status {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func TestEncodeErrorKeepsEvidence(t *testing.T) {
	e := DecodeError(429, []byte(`{"error":{"code":429,"message":"a \"b\"","details":[{"@type":"x","n":1.0}]}}`))
	got := string(EncodeError(429, e))
	want := `{"error":{"code":429,"message":"a \"b\"","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","n":1.0},{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMITED","domain":"perigee"}]}}`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Clients of Gemini read the delay from the details.
func TestEncodeErrorHasTheDelay(t *testing.T) {
	provider := json.RawMessage(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"9s"}`)
	for _, test := range []struct {
		name string
		err  perigee.Error
		want string // the delays in the answer
	}{
		{"none", perigee.Error{}, ""},
		{"of perigee", perigee.Error{Retry: 90 * time.Minute}, `"retryDelay":"5400s"`},
		{"with a fraction", perigee.Error{Retry: 3500 * time.Millisecond}, `"retryDelay":"3.5s"`},
		{"of the provider", perigee.Error{Retry: 10 * time.Second, Details: []json.RawMessage{provider}}, `"retryDelay":"9s"`},
		{"a detail that is none", perigee.Error{Retry: time.Second, Details: []json.RawMessage{json.RawMessage(`"x"`)}}, `"retryDelay":"1s"`},
	} {
		test.err.Class = perigee.ClassExhausted
		body := EncodeError(429, &test.err)
		if got := strings.Join(regexp.MustCompile(`"retryDelay":"[^"]*"`).FindAllString(string(body), -1), " "); got != test.want || !json.Valid(body) {
			t.Errorf("%s: %s, want %s, in %s", test.name, got, test.want, body)
		}
	}
}

// answer is a stream as an upstream of another kind would give it: without frames.
func answer() []perigee.Event {
	return []perigee.Event{
		{Kind: perigee.EventStart, Model: "m1", ResponseID: "r1", Upstream: "u"},
		{Kind: perigee.EventThinking, Text: "pl"},
		{Kind: perigee.EventThinking, Text: "an"},
		{Kind: perigee.EventSignature, Signature: "czE="},
		{Kind: perigee.EventText, Text: "Hel"},
		{Kind: perigee.EventText, Text: "lo <&>"},
		{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c", Name: "read", Args: json.RawMessage(`{"a":1}`)}, Signature: "czI="},
		{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "aA=="}},
		{Kind: perigee.EventPart, Raw: json.RawMessage(`{"executableCode":{"code":"1"}}`)},
		{Kind: perigee.EventGrounding, Raw: json.RawMessage(`{"q":1}`)},
		{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}},
		{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 10, Cached: 4, Output: 7, Thinking: 2}},
	}
}

func TestCollect(t *testing.T) {
	var c Collector
	for _, ev := range answer() {
		c.Add(&ev)
	}
	want := `{"candidates":[{"content":{"role":"model","parts":[` +
		`{"thought":true,"text":"plan","thoughtSignature":"czE="},{"text":"Hello <&>"},` +
		`{"functionCall":{"id":"c","name":"read","args":{"a":1}},"thoughtSignature":"czI="},` +
		`{"inlineData":{"mimeType":"image/png","data":"aA=="}},{"executableCode":{"code":"1"}}]},` +
		`"finishReason":"STOP","groundingMetadata":{"q":1},"index":0}],` +
		`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":17,"cachedContentTokenCount":4,"thoughtsTokenCount":2},` +
		`"modelVersion":"m1","responseId":"r1"}`
	if got := string(c.Bytes()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestCollectKeepsTheProvidersOwnAnswer(t *testing.T) {
	var c Collector
	frame := []byte(`{ "candidates" : [], "novel": 1.0 }`)
	c.Add(&perigee.Event{Kind: perigee.EventStart, Model: "m"})
	c.Add(&perigee.Event{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: frame})
	c.Add(&perigee.Event{Kind: perigee.EventText, Text: "x"})
	want := string(frame)
	copy(frame, "overwritten by the next event")
	if got := string(c.Bytes()); got != want {
		t.Errorf("got %s", got)
	}
}

// What the encoder writes reads back as the same events, finish and usage last.
func TestEncodeStream(t *testing.T) {
	var e encoder
	var d Decoder
	var got []string
	read := func(chunk []byte) {
		if len(chunk) == 0 {
			return
		}
		events, err := d.Decode(nil, chunk)
		if err != nil {
			t.Fatalf("%v in %s", err, chunk)
		}
		for _, ev := range events {
			got = append(got, show(ev))
		}
	}
	for _, ev := range answer() {
		read(e.encode(nil, &ev))
	}
	read(e.close(nil))
	want := `start m1 r1; thinking pl; thinking an; signature sealed czE=; text Hel; text lo <&>; call read({"a":1})c sealed czI=; blob image/png; ` +
		`part {"executableCode":{"code":"1"}}; grounding {"q":1}; finish STOP; usage in 10 (4 cached) out 7 (2 thinking)`
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got %s\nwant %s", s, want)
	}
}

// Where the provider's own chunks go out, nothing is said twice.
func TestFramesGoOutAsTheyAre(t *testing.T) {
	s := Stream{SSE: true}
	var wire []byte
	for _, ev := range []perigee.Event{
		{Kind: perigee.EventStart, Model: "m"},
		{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: []byte(`{"a": 1.0}`)},
		{Kind: perigee.EventText, Text: "inside"},
		{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 1}},
		{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}},
	} {
		wire = s.Encode(wire, &ev)
	}
	if wire = s.End(wire); string(wire) != "data: {\"a\": 1.0}\r\n\r\n" {
		t.Errorf("got %q", wire)
	}
}

func FuzzDecodeChunk(f *testing.F) {
	f.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"a","thought":true,"thoughtSignature":"s"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`))
	f.Add([]byte(`{"error":{"code":1,"details":[{"reason":"x","violations":[{}]}]}}`))
	f.Fuzz(func(t *testing.T, chunk []byte) {
		var d Decoder
		events, err := d.Decode(nil, chunk)
		var e encoder
		for i := range events {
			if out := e.encode(nil, &events[i]); len(out) > 0 && !json.Valid(out) {
				t.Fatalf("not JSON: %s", out)
			}
		}
		if err != nil && !json.Valid(EncodeError(500, perigee.AsError(err))) {
			t.Fatalf("error is not JSON: %v", err)
		}
	})
}

// How an answer looks on the wire, framed by us and with a frame of the provider's, with its end or
// with an error.
func TestStreamFraming(t *testing.T) {
	frame := perigee.Event{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: []byte("{\"a\":\n1}")}
	text := perigee.Event{Kind: perigee.EventText, Text: "x"}
	trouble := perigee.Errorf(perigee.ClassUnavailable, "gone")
	for _, c := range []struct {
		name   string
		stream Stream
		write  func(s *Stream, dst []byte) []byte
		want   string
	}{
		{"events", Stream{SSE: true}, func(s *Stream, dst []byte) []byte { return s.End(s.Idle(s.Encode(dst, &frame))) },
			"data: {\"a\":\r\ndata: 1}\r\n\r\ndata: {}\r\n\r\n"},
		{"events that fail", Stream{SSE: true}, func(s *Stream, dst []byte) []byte {
			return s.RepeatError(s.Fail(s.Encode(dst, &frame), 503, trouble), 503, trouble)
		}, "data: {\"a\":\r\ndata: 1}\r\n\r\ndata: " + string(EncodeError(503, trouble)) + "\r\n\r\n" + string(EncodeError(503, trouble))},
		{"array", Stream{}, func(s *Stream, dst []byte) []byte { return s.End(s.Encode(s.Idle(s.Encode(dst, &frame)), &frame)) },
			"[{\"a\":\n1}\n,\r\n{\"a\":\n1}]\r\n"},
		{"array that is quiet at first", Stream{}, func(s *Stream, dst []byte) []byte { return s.End(s.Encode(s.Idle(s.Idle(dst)), &frame)) },
			"[\n\n{\"a\":\n1}]\r\n"},
		{"empty array", Stream{}, func(s *Stream, dst []byte) []byte { return s.End(dst) }, "[]\r\n"},
		{"array that fails", Stream{}, func(s *Stream, dst []byte) []byte {
			return s.RepeatError(s.Fail(s.Encode(dst, &frame), 503, trouble), 503, trouble)
		},
			"[{\"a\":\n1},\r\n" + string(EncodeError(503, trouble))},
		{"ours", Stream{SSE: true}, func(s *Stream, dst []byte) []byte { return s.Encode(dst, &text) },
			"data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"x\"}]},\"index\":0}]}\r\n\r\n"},
	} {
		if got := string(c.write(&c.stream, nil)); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// Events outlive the chunk that they were read from: an upstream reads the next one into the same
// bytes.
func TestEventsDoNotShareTheChunk(t *testing.T) {
	chunk := []byte(`{"candidates":[{"content":{"parts":[{"text":"a"},{"functionCall":{"name":"f","args":{"a":1},"novel":[1]}},{"inlineData":{"mimeType":"m","data":"d","novel":2}},{"executableCode":{"code":"1"}}]},"groundingMetadata":{"q":1},"logprobsResult":{"l":1}}]}`)
	var d Decoder
	events, err := d.Decode(nil, chunk)
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v %+v", events, *events[2].Call)
	for i := range chunk {
		chunk[i] = 'X'
	}
	if after := fmt.Sprintf("%+v %+v", events, *events[2].Call); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}
