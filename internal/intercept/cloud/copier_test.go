package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// copyOf returns what the language server gets of an answer that comes in pieces.
func copyOf(t testing.TB, kind string, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := newCopier(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}}, &out)
	for i, p := range pieces {
		if err := c.write([]byte(p), i == len(pieces)-1); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// The language server gets a text in place of each call of a tool, and everything else as it is.
func TestCopiesWithoutCalls(t *testing.T) {
	const (
		call   = `{"functionCall":{"name":"f","args":{"functionCall":{"a":"\"}"}}}}`
		silent = `{"text":""}`
	)
	answer := func(parts ...string) string {
		return `{"response": {"candidates": [{"content": {"role": "model", "parts": [` + strings.Join(parts, ", ") + `]}, "finishReason": "STOP"}]}, "big": 9007199254740993, "e": 1.0e400}`
	}
	broken := `{"response":{"candidates":[{"content":{"role":"model","parts":[` + closing + `]}}]}}`
	for _, c := range []struct{ name, in, want string }{
		{"a text", answer(`{"text": "a \u00e9 < functionCall"}`), ""},
		{"a call", answer(`{"text": "a"}`, call), answer(`{"text": "a"}`, closing)},
		{"several calls", answer(call, `{"text": "a"}`, call, call), answer(closing, `{"text": "a"}`, silent, silent)},
		{"a signed call", answer(`{"thoughtSignature": "c2ln", "functionCall": {"name": "f"}}`), answer(closing)},
		{"a signed thought", answer(`{"thought": true, "text": "hmm", "thoughtSignature": "c2ln"}`), ""},
		{"the name in another style", answer(`{"function_call": {"name": "f"}}`), answer(closing)},
		{"the name in capitals", answer(`{"FunctionCall": {"name": "f"}}`), answer(closing)},
		{"the name with an escape", answer(`{"function\u0043all": {"name": "f"}}`), answer(closing)},
		{"no call", answer(`{"functionCall": null, "text": "a"}`), ""},
		{"a response of a tool", answer(`{"functionResponse": {"name": "f", "response": {}}}`), ""},
		{"all candidates", `{"response":{"candidates":[{"content":{"parts":[` + call + `]}},{"index":1,"content":{"parts":[` + call + `]}}]}}`,
			`{"response":{"candidates":[{"content":{"parts":[` + closing + `]}},{"index":1,"content":{"parts":[` + silent + `]}}]}}`},
		{"without an envelope", `{"candidates":[{"content":{"parts":[` + call + `]}}]}`, `{"candidates":[{"content":{"parts":[` + closing + `]}}]}`},
		{"an array", `[` + answer(call) + `,` + answer(call) + `]`, `[` + answer(closing) + `,` + answer(silent) + `]`},
		{"a member twice", `{"a":{},"a":` + call + `}`, broken},
		{"cut off", answer(call)[:100], broken},
		{"no JSON", `[DONE]`, ""},
		{"no JSON with an escape", `{"\u0066unctionCall":{},}`, broken},
		{"an error", `{"error":{"code":429,"message":"slow down"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			if got := copyOf(t, "application/json; charset=UTF-8", c.in); got != c.want {
				t.Errorf("in one piece: %s\nwant %s", got, c.want)
			}
			for _, end := range []string{"\n", "\r\n", "\r"} {
				frame := func(data string) string {
					return ": keep-alive" + end + end + "event: x" + end + "data: " + data + end + "id: 1" + end + end + "data: {\"text\":1}" + end + end
				}
				in, want := frame(c.in), frame(c.want)
				if end == "\r" {
					want = strings.ReplaceAll(want, "\r", "\n")
				}
				for _, step := range []int{1, 7, len(in)} {
					var pieces []string
					for rest := in; rest != ""; rest = rest[min(step, len(rest)):] {
						pieces = append(pieces, rest[:min(step, len(rest))])
					}
					if got := copyOf(t, "text/event-stream", pieces...); got != want {
						t.Errorf("in pieces of %d: %q\nwant %q", step, got, want)
					}
				}
				if got := copyOf(t, "text/event-stream", "data:"+c.in); strings.TrimPrefix(got, "data:") != c.want && got != "data: "+c.want {
					t.Errorf("without a blank line: %q", got)
				}
			}
			// What is not an answer of a model stays as it is.
			if got := copyOf(t, "text/html", c.in); got != c.in {
				t.Errorf("as a page: %s", got)
			}
		})
	}
}

func TestCopiesOfUnusualEvents(t *testing.T) {
	const call = `{"functionCall":{}}`
	for _, c := range []struct{ name, in, want string }{
		{"data over several lines", "data: {\"parts\":\ndata: [" + call + "]}\n\n", "data: {\"parts\":\ndata: [" + closing + "]}\n\n"},
		{"a mark at the beginning", "\ufeffdata: " + call + "\n\n", "data: " + closing + "\n\n"},
		{"mixed line ends", "data: " + call + "\r\n\ndata: 1\n\r\n", "data: " + closing + "\r\n\ndata: 1\n\r\n"},
		{"carriage returns alone", "data: " + call + "\r\rdata: " + call + "\r\r", "data: " + closing + "\n\ndata: {\"text\":\"\"}\n\n"},
		{"a carriage return before the data", "\rdata:" + call, "\ndata: " + closing},
		{"a carriage return in an event with line feeds", "id: 1\rdata:" + call + "\n\n", "id: 1\ndata: " + closing + "\n\n"},
		{"a call that only a reader of line feeds finds", "data:\r" + call + "\n\n", "data:\n" + call + "\n\n"},
		{"blank lines", "\n\n\r\ndata: 1\n\n\n", "\n\n\r\ndata: 1\n\n\n"},
	} {
		if got := copyOf(t, "text/event-stream", c.in); got != c.want {
			t.Errorf("%s: got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// An event of 10 MB passes; one beyond the limit cuts the language server off.
func TestCopiesOfLargeEvents(t *testing.T) {
	large := strings.Repeat("0123456789", 1<<20)
	event := `data: {"parts":[{"text":"` + large + `"},{"functionCall":{}}]}` + "\r\n\r\n"
	want := strings.Replace(event, `{"functionCall":{}}`, closing, 1)
	var pieces []string
	for rest := event; rest != ""; rest = rest[min(4096, len(rest)):] {
		pieces = append(pieces, rest[:min(4096, len(rest))])
	}
	if got := copyOf(t, "text/event-stream", append(pieces, pieces...)...); got != want+strings.Replace(event, `{"functionCall":{}}`, `{"text":""}`, 1) {
		t.Errorf("got %d bytes", len(got))
	}
	c := newCopier(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}}, &bytes.Buffer{})
	err := c.write([]byte(event[:len(event)-4]), false)
	if err == nil {
		err = c.write([]byte(large), false)
	}
	if err != errEventSize {
		t.Errorf("got %v", err)
	}
}

// hasCall reports whether a reader of JSON that accepts what encoding/json does finds a call of a
// tool.
func hasCall(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if hasCall(e) {
				return true
			}
		}
	case map[string]any:
		for key, e := range v {
			if strings.EqualFold(key, "functionCall") && e != nil || hasCall(e) {
				return true
			}
		}
	}
	return false
}

// FuzzCopies looks for answers in which the language server would find a call, and for copies that
// depend on how an answer arrives.
func FuzzCopies(f *testing.F) {
	for _, s := range []string{hello, calling, "data: " + calling + "\r\n\r\n", "data: {\"functionCall\":{}}\n\ndata: {\"function\\u0043all\":1}", "data: {\ndata: \"functionCall\":{}}\n\n", "[DONE]", "\ufeffdata: {}\r\r"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, in string, step int) {
		step = max(1, min(step, len(in)))
		for _, kind := range []string{"text/event-stream", "application/json"} {
			var pieces []string
			for rest := in; rest != ""; rest = rest[min(step, len(rest)):] {
				pieces = append(pieces, rest[:min(step, len(rest))])
			}
			if len(pieces) == 0 {
				return
			}
			got := copyOf(t, kind, pieces...)
			if whole := copyOf(t, kind, in); got != whole {
				t.Errorf("in pieces %q, in one piece %q", got, whole)
			}
			texts := []string{got}
			if kind == "text/event-stream" {
				texts = append(dataOfEvents(got, "\r\n", "\n", "\r", "\n"), dataOfEvents(got, "\r\n", "\n")...)
			}
			for _, text := range texts {
				var v any
				if json.Unmarshal([]byte(text), &v) == nil && hasCall(v) {
					t.Errorf("%s: the copy of %q has a call: %q", kind, in, got)
				}
			}
		}
	})
}

// dataOfEvents returns the data of the events of a stream, after its line ends have been replaced:
// by the definition of event streams CRLF, CR and LF are line ends; some readers know no lone CR.
func dataOfEvents(stream string, lineEnds ...string) (list []string) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.NewReplacer(lineEnds...).Replace(stream)
	for event := range strings.SplitSeq(stream+"\n\n", "\n\n") {
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		list = append(list, strings.Join(data, "\n"))
	}
	return list
}

// FuzzRequests looks for bodies that take a call which is not theirs, and for requests that are not
// what was to be sent.
func FuzzRequests(f *testing.F) {
	body := native(agentID(cascade))
	for _, s := range []string{body, body[:100], native("checkpoint/1"), `{"requestId":"agent/` + cascade + `/","request":{}}`, `{"requestId":1}`, `{"request":{"labels":1},"requestId":"agent/a/b","requestType":"agent"}`,
		`{"requestId":"agent/a/","requestId":"agent/b/","request":{}}`, strings.Repeat(`{"a":`, 2000), `{"\u0072equestId":"agent\/a\/","request":{"session\u0049d":1}}`} {
		f.Add(s, `{"contents":[1.0],"sessionId":"ours"}`)
	}
	f.Fuzz(func(t *testing.T, in, request string) {
		_ = guessCascade([]byte(in))
		e, err := openEnvelope([]byte(in))
		if err != nil {
			return
		}
		id := e.cascade()
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatalf("%q was accepted: %v", in, err)
		}
		var requestID string
		matches := json.Unmarshal(want["requestId"], &requestID) == nil && strings.HasPrefix(requestID, "agent/"+id+"/")
		if id == "" {
			return
		}
		if !matches {
			t.Errorf("%q was taken for %q", in, id)
		}
		ours, err := membersOf([]byte(request))
		if err != nil || !strings.HasPrefix(strings.TrimSpace(request), "{") {
			return
		}
		theirs, _ := membersOf(e.request.of(e.text))
		out := e.splice(append(e.fitProject("p\"q"), e.carry(Call{Model: "m\n", Request: []byte(request)})...)...)
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		inner, err := membersOf(got["request"])
		if err != nil {
			t.Errorf("%q became %q: %v", in, out, err)
		}
		for _, name := range []string{"sessionId", "labels"} {
			delete(ours, name)
			if value, ok := theirs[name]; ok {
				ours[name] = value
			}
		}
		if fmt.Sprint(inner) != fmt.Sprint(ours) && !strings.Contains(in+request, `\`) { // names may have escapes
			t.Errorf("%q became %q, want %v", in, got["request"], ours)
		}
		for name, value := range want {
			switch name {
			case "request", "project":
				continue
			case "model":
				value = json.RawMessage(`"m\n"`)
			}
			if !bytes.Equal(got[name], value) {
				t.Errorf("%s of %q became %s", name, in, got[name])
			}
		}
	})
}
