package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// chunks is the text of the given chunks of c1, out of 3, in the first attempt.
func chunks(numbers ...int) string {
	var b strings.Builder
	for _, i := range numbers {
		b.WriteString(mark("c1", 1, i, 3) + filler("c1", 2))
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	once := sent{}
	tests := []struct {
		name   string
		answer answer
		sent   sent
		want   outcome
	}{
		{"a complete answer", answer{status: 200, text: chunks(0, 1, 2), ended: true}, once, whole},
		{"a function call at the end", answer{status: 200, text: chunks(0, 1) + `{"at":"` + mark("c1", 1, 2, 3) + `"}`, ended: true}, once, whole},
		{"the second attempt", answer{status: 200, text: strings.ReplaceAll(chunks(0, 1, 2), "c1.1.", "c1.2."), ended: true}, once, whole},
		{"a chunk of another call", answer{status: 200, text: chunks(0) + mark("c2", 1, 1, 3) + chunks(2), ended: true}, once, mixed},
		{"a chunk of another call before an error", answer{status: 200, text: mark("c2", 1, 0, 3), failure: "broke off"}, once, mixed},
		{"another order", answer{status: 200, text: chunks(0, 2, 1), ended: true}, once, mixed},
		{"a chunk missing in the middle", answer{status: 200, text: chunks(0, 2), ended: true}, once, mixed},
		{"foreign text", answer{status: 200, text: chunks(0, 1, 2) + "hello", ended: true}, once, mixed},
		{"filler of another call", answer{status: 200, text: chunks(0, 1, 2) + filler("c12", 1), ended: true}, once, mixed},
		{"a chunk twice", answer{status: 200, text: chunks(0, 1, 1, 2), ended: true}, once, doubled},
		{"everything twice", answer{status: 200, text: chunks(0, 1, 2, 0, 1, 2), ended: true}, once, doubled},
		{"everything twice, as the provider did", answer{status: 200, text: chunks(0, 1, 2, 0, 1, 2), ended: true}, sent{repeated: true}, twice},
		{"chunks of two attempts", answer{status: 200, text: chunks(0) + mark("c1", 2, 1, 3), ended: true}, once, doubled},
		{"asked again after the answer began", answer{status: 200, text: chunks(0), failure: "broke off"}, sent{later: 1}, doubled},
		{"a truncated answer with a normal end", answer{status: 200, text: chunks(0, 1), ended: true}, once, cutShort},
		{"no chunk, and a normal end", answer{status: 200, ended: true}, once, cutShort},
		{"an empty answer, as the provider gave it", answer{status: 200, ended: true}, sent{empty: true}, empty},
		{"a truncated answer with an error", answer{status: 200, text: chunks(0, 1), failure: "broke off"}, once, broken},
		{"a normal end and then an error", answer{status: 200, text: chunks(0, 1, 2), ended: true, failure: "broke off"}, once, broken},
		{"an error in place of an answer", answer{status: 503, failure: "try again"}, once, refused},
		{"an error event before any chunk", answer{status: 200, failure: "try again"}, once, refused},
		{"an error in a foreign form", answer{status: 502, said: "<html>"}, once, malformed},
		{"a connection that broke", answer{status: 200, text: chunks(0), err: io.ErrUnexpectedEOF}, once, lost},
		{"no answer at all", answer{err: errors.New("connection reset")}, once, lost},
		{"an end without answer or error", answer{status: 200, text: chunks(0, 1, 2)}, once, lost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, why := check("c1", &test.answer, func(int) sent { return test.sent })
			if got != test.want {
				t.Errorf("verdict %q (%s), want %q", got, why, test.want)
			}
		})
	}
}

// TestObvious has the verdicts that do not depend on the text.
func TestObvious(t *testing.T) {
	for name, test := range map[string]struct {
		call call
		want outcome
	}{
		"the simulator answered":        {call{answer: answer{status: 200, upstream: "simulator"}}, simulated},
		"the simulator, over a socket":  {call{answer: answer{status: 200, text: "You said: hello"}}, simulated},
		"a wrong key was let in":        {call{key: clientKey{wrong: true}, answer: answer{status: 200}}, letIn},
		"a wrong key was refused":       {call{key: clientKey{wrong: true}, answer: answer{status: 401, failure: "key"}}, ""},
		"a client left":                 {call{leaves: true, answer: answer{status: 200, text: chunks(0)}}, left},
		"a client that would have left": {call{leaves: true, answer: answer{status: 200, text: chunks(0), failure: "no"}}, ""},
		"no end within the limit":       {call{answer: answer{err: fmt.Errorf("read: %w", context.DeadlineExceeded)}}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.call
			if c.obvious(); c.verdict != test.want {
				t.Errorf("verdict %q, want %q", c.verdict, test.want)
			}
		})
	}
}

// TestDialects reads streams that break off: none of them may count as complete.
func TestDialects(t *testing.T) {
	for _, test := range []struct {
		dialect *dialect
		events  []string
		ends    int // how many of the events make a complete answer
	}{
		{geminiAPI, []string{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}`}, 2},
		{chatAPI, []string{`{"choices":[{"delta":{"content":"ab"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `[DONE]`}, 3},
		{responses, []string{`{"type":"response.output_text.delta","delta":"ab"}`, `{"type":"response.completed","response":{"id":"r","output":[{"content":[{"text":"ab"}]}]}}`}, 2},
		{messages, []string{`{"type":"content_block_delta","delta":{"text":"ab"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`}, 3},
	} {
		for n := range len(test.events) + 1 {
			a := answer{status: 200}
			for _, data := range test.events[:n] {
				test.dialect.event([]byte(data), &a)
			}
			if want := n >= test.ends; a.ended != want || want && a.text != "ab" {
				t.Errorf("%s: after %d events ended is %v, text %q", test.dialect.name, n, a.ended, a.text)
			}
		}
	}
}
