package ollama

import (
	"bytes"
	"encoding/json"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A Decoder turns the lines of an answer, or the answer in one piece, into events. Both have the same
// form, and an answer is finished when one of them is done. The zero value is ready to use.
type Decoder struct {
	started, finished bool
}

// Finished reports whether the answer has come to its end.
func (d *Decoder) Finished() bool { return d.finished }

// Decode appends the events of a line. For data that is no answer or reports an error, it returns an
// error, and events without additions.
func (d *Decoder) Decode(events []perigee.Event, line []byte) ([]perigee.Event, error) {
	if err := rawjson.Check(line); err != nil {
		if isCut(line) {
			return events, nil // the answer is not finished
		}
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent something that is not JSON: %w", err)
	}
	c := rawjson.NewCursor(line)
	if kind := c.Kind(); kind != rawjson.Object {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent %v where an answer should be", kind)
	}
	before := len(events)
	start := perigee.Event{Kind: perigee.EventStart}
	if !d.started {
		events = append(events, start)
	}
	var done, failed bool
	var reason string
	var usage perigee.Usage
	tokens := &perigee.Logprobs{}
	c.Read(nil, "model", &start.Model, "error", func() { failed = true; c.Skip() },
		"message", func() { events = message(events, c) }, "logprobs", func() { tokens = dialect.ReadLogprobs(c) },
		"done", &done, "done_reason", &reason, "prompt_eval_count", &usage.Input, "eval_count", &usage.Output)
	usage.Input, usage.Output = max(usage.Input, 0), max(usage.Output, 0)
	switch err := c.Err(); {
	case failed:
		return events[:before], DecodeError(0, line)
	case err != nil:
		return events[:before], perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", err)
	}
	if !d.started {
		events[before], d.started = start, true
	}
	if len(tokens.Chosen) > 0 {
		events = append(events, perigee.Event{Kind: perigee.EventLogprobs, Logprobs: tokens})
	}
	if !done || d.finished {
		return events, nil
	}
	d.finished = true
	if usage != (perigee.Usage{}) {
		events = append(events, perigee.Event{Kind: perigee.EventUsage, Usage: &usage})
	}
	return append(events, perigee.Event{Kind: perigee.EventFinish,
		Finish: &perigee.Finish{Kind: finishKinds[reason], Reason: reason, Dialect: Dialect}}), nil
}

// isCut reports whether a line is the beginning of a longer one, because the connection was lost.
func isCut(line []byte) bool {
	line = bytes.TrimSpace(line)
	return bytes.HasPrefix(line, []byte("{")) && !bytes.HasSuffix(line, []byte("}"))
}

// finishKinds are the kinds of finish reasons. Any other reason is an ordinary end.
var finishKinds = map[string]perigee.FinishKind{"length": perigee.FinishLength}

// message appends what a line adds to the message: thinking first, then text, then calls, as models
// write them. Calls come whole.
func message(events []perigee.Event, c *rawjson.Cursor) []perigee.Event {
	var thinking, text string
	var calls []perigee.Event
	c.Read(nil, "thinking", &thinking, "content", &text, "tool_calls", func() {
		for range c.Array() {
			calls = append(calls, perigee.Event{Kind: perigee.EventCall, Call: call(c)})
		}
	})
	if thinking != "" {
		events = append(events, perigee.Event{Kind: perigee.EventThinking, Text: thinking})
	}
	if text != "" {
		events = append(events, perigee.Event{Kind: perigee.EventText, Text: text})
	}
	return append(events, calls...)
}

func call(c *rawjson.Cursor) *perigee.FunctionCall {
	call := &perigee.FunctionCall{Args: json.RawMessage("{}")}
	c.Read(nil, "id", &call.ID, "function", func() {
		c.Read(nil, "name", &call.Name, "arguments", func() {
			if c.Kind() == rawjson.Object {
				call.Args = append(json.RawMessage(nil), c.Raw()...)
			} else {
				c.Skip()
			}
		})
	})
	return call
}

// CheckAnswer returns an error if an answer in one piece cannot be read or is itself an error.
func CheckAnswer(body []byte) error {
	if err := rawjson.Check(body); err != nil {
		return err
	}
	if _, _, failed := rawjson.Find(body, "error"); failed {
		return DecodeError(0, body)
	}
	return nil
}
