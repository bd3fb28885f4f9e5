package trace

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// lines are buffers for events.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// kinds are the names of events in events.jsonl.
var kinds = map[perigee.EventKind]string{
	perigee.EventStart: "start", perigee.EventText: "text", perigee.EventThinking: "thinking",
	perigee.EventSignature: "signature", perigee.EventRedacted: "redacted", perigee.EventCall: "call", perigee.EventBlob: "blob", perigee.EventPart: "part",
	perigee.EventGrounding: "grounding", perigee.EventLogprobs: "logprobs", perigee.EventUsage: "usage", perigee.EventFinish: "finish",
}

// appendEvent appends a line of events.jsonl: an object with ms, the time since the call began,
// kind, and the fields of the event.
func appendEvent(dst []byte, e *perigee.Event, at time.Duration) []byte {
	dst = append(dst, `{"ms":`...)
	dst = appendMilliseconds(dst, at)
	dst = appendText(dst, "kind", kinds[e.Kind])
	if e.Candidate != 0 {
		dst = appendNumber(dst, "candidate", int64(e.Candidate))
	}
	if e.Kind == perigee.EventStart {
		dst = appendText(dst, "upstream", e.Upstream)
		dst = appendText(dst, "account", e.Account)
		dst = appendText(dst, "model", e.Model)
		dst = appendText(dst, "response_id", e.ResponseID)
	}
	dst = appendText(dst, "text", e.Text)
	if e.Thought {
		dst = append(dst, `,"thought":true`...)
	}
	if c := e.Call; c != nil {
		dst = appendText(dst, "id", c.ID)
		dst = appendText(dst, "name", c.Name)
		dst = appendRaw(dst, "args", c.Args)
	}
	if b := e.Blob; b != nil {
		dst = appendText(dst, "mime", b.MIME)
		dst = appendNumber(dst, "base64_bytes", int64(len(b.Data))) // the data are in the bodies
	}
	if u := e.Usage; u != nil {
		dst = appendNumber(dst, "input", u.Input)
		dst = appendNumber(dst, "cached", u.Cached)
		if u.Written > 0 {
			dst = appendNumber(dst, "written", u.Written)
		}
		dst = appendNumber(dst, "output", u.Output)
		dst = appendNumber(dst, "thinking", u.Thinking)
	}
	if f := e.Finish; f != nil {
		dst = appendText(dst, "reason", f.Reason)
		dst = appendText(dst, "message", f.Message)
		dst = appendText(dst, "trouble", f.Error)
		dst = appendText(dst, "stop", f.Stop)
	}
	dst = appendText(dst, "signature", e.Signature)
	dst = appendRaw(dst, "raw", e.Raw)
	return append(dst, "}\n"...)
}

// appendMilliseconds appends a time in milliseconds, with the microseconds as its decimals.
func appendMilliseconds(dst []byte, at time.Duration) []byte {
	us := at.Microseconds()
	if dst = strconv.AppendInt(dst, us/1000, 10); us%1000 != 0 {
		dst = append(dst, '.', byte('0'+us/100%10), byte('0'+us/10%10), byte('0'+us%10))
	}
	return dst
}

// appendText appends a member with a string, unless that is empty.
func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return rawjson.AppendString(appendName(dst, name), text)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, `,"`...), name...), `":`...)
}

// appendRaw appends a member with a value that is JSON, in one line. A value that is not JSON is
// appended as a string.
func appendRaw(dst []byte, name string, raw []byte) []byte {
	if len(raw) == 0 {
		return dst
	}
	dst = appendName(dst, name)
	if rawjson.Check(raw) != nil {
		return rawjson.AppendString(dst, string(raw))
	}
	at := len(dst)
	dst = append(dst, raw...)
	for line := dst[at:]; ; { // a line break between the tokens of JSON
		i := bytes.IndexAny(line, "\r\n")
		if i < 0 {
			return dst
		}
		line[i] = ' '
		line = line[i+1:]
	}
}

// A Line has the members of a line of events.jsonl that concern the answer.
type Line struct {
	MS        float64 // since the call began
	Kind      string  // of the event: text, thinking, call, blob, finish and more
	Candidate int
	Text      string // of text and thinking
	Name      string // of the function that is called
	Args      json.RawMessage
	MIME      string // of a blob
	Bytes     int64  `json:"base64_bytes"`
	// Reason, Message and Trouble are the fields of the finish. Each may be empty.
	Reason, Message, Trouble string
}

// Lines returns the lines of events.jsonl. It leaves out those that cannot be read, such as the
// last one of a call that was cut off.
func Lines(events []byte) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for text := range bytes.Lines(events) {
			var l Line
			if json.Unmarshal(text, &l) == nil && !yield(l) {
				return
			}
		}
	}
}
