package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"perigee"
	"perigee/internal/rawjson"
)

// A writer appends JSON. With flush it hands on what it has whenever that is spillSize or more, and goes on with the buffer that it
// gets for it.
type writer struct {
	buf   []byte
	flush func(buf []byte) []byte
}

const spillSize = 64 << 10

func (w *writer) lit(s string) { w.buf = append(w.buf, s...) }
func (w *writer) int(n int64)  { w.buf = strconv.AppendInt(w.buf, n, 10) }

func (w *writer) spill() {
	if w.flush != nil && len(w.buf) >= spillSize {
		w.buf = w.flush(w.buf)
	}
}

func (w *writer) raw(b []byte) {
	for w.flush != nil && len(b) > spillSize {
		w.buf = append(w.buf, b[:spillSize]...)
		b = b[spillSize:]
		w.spill()
	}
	w.buf = append(w.buf, b...)
	w.spill()
}

func (w *writer) str(s string) {
	if w.flush == nil || len(s) <= spillSize {
		w.buf = rawjson.AppendString(w.buf, s)
		w.spill()
		return
	}
	w.lit(`"`)
	for len(s) > 0 {
		n := min(len(s), spillSize)
		for n < len(s) && n > spillSize-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		w.buf = rawjson.AppendInner(w.buf, s[:n])
		s = s[n:]
		w.spill()
	}
	w.lit(`"`)
}

func (w *writer) rope(r *rope) {
	if w.flush == nil {
		w.buf = slices.Grow(w.buf, r.size)
	}
	for _, piece := range r.pieces {
		w.raw(piece)
	}
}

// echoes are the members of a response that repeat the request, and what they say when it did not. They stand
// in the order of the API's own examples.
var echoes = [...]struct{ name, absent string }{
	{"instructions", `null`},
	{"max_output_tokens", `null`},
	{"max_tool_calls", `null`},
	{"frequency_penalty", `0`},
	{"parallel_tool_calls", `true`},
	{"presence_penalty", `0`},
	{"previous_response_id", `null`},
	{"prompt_cache_key", `null`},
	{"prompt_cache_retention", `null`},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", `null`},
	{"temperature", `1`},
	{"text", `{"format":{"type":"text"},"verbosity":"medium"}`},
	{"tool_choice", `"auto"`},
	{"tools", `[]`},
	{"top_logprobs", `0`},
	{"top_p", `1`},
	{"user", `null`},
	{"metadata", `{}`},
}

func echoIndex(name []byte) int {
	for i := range echoes {
		if echoes[i].name == string(name) {
			return i
		}
	}
	return -1
}

// echoOf makes a value of the request into one of the response: on one line, because it travels in events, and with
// the members that a response always has.
func echoOf(name string, raw json.RawMessage) json.RawMessage {
	raw = oneLine(raw)
	switch name {
	case "reasoning":
		return fill(raw, "effort", `null`, "summary", `null`)
	case "text":
		return fill(raw, "format", `{"type":"text"}`, "verbosity", `"medium"`)
	}
	return raw
}

func oneLine(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return json.RawMessage("null") // it passed the check, so this cannot be
	}
	return line.Bytes()
}

// fill returns an object with its own members, and those of two that it lacks.
func fill(raw json.RawMessage, first, firstValue, second, secondValue string) json.RawMessage {
	c := rawjson.NewCursor(raw)
	w := writer{buf: []byte("{")}
	for key := range c.Object() {
		switch string(key) {
		case first:
			firstValue = ""
		case second:
			secondValue = ""
		}
		w.member(string(key), c.Raw())
	}
	if c.Err() != nil {
		return raw // the decoder says what is wrong with it
	}
	if firstValue != "" {
		w.member(first, []byte(firstValue))
	}
	if secondValue != "" {
		w.member(second, []byte(secondValue))
	}
	w.lit("}")
	return w.buf
}

// member appends a member to the object that is open.
func (w *writer) member(name string, value []byte) {
	if w.buf[len(w.buf)-1] != '{' {
		w.lit(",")
	}
	w.str(name)
	w.lit(":")
	w.raw(value)
}

// A status is how an answer stands.
type status string

const (
	statusQueued     status = "queued"
	statusInProgress status = "in_progress"
	statusCompleted  status = "completed"
	statusIncomplete status = "incomplete"
	statusFailed     status = "failed"
	statusCancelled  status = "cancelled"
)

// An answer is what a response says of itself.
type answer struct {
	id         string
	created    time.Time
	completed  time.Time // zero: not yet
	status     status
	incomplete string // why
	errorCode  string
	errorText  string
	model      string
	usage      *perigee.Usage
	lost       bool // it could not be stored
}

// objectSize is about how long the response is with the items of output: agents send long instructions and many tools,
// which come back in it.
func (r *Request) objectSize(output *rope) int {
	size := 1024
	if output != nil {
		size += output.size
	}
	for i := range r.echo {
		size += len(echoes[i].name) + max(len(r.echo[i]), len(echoes[i].absent)) + len(`,"":`)
	}
	return size
}

// object appends the response with the items of output, which come without brackets; nil: there are none.
func (r *Request) object(w *writer, a *answer, output *rope) {
	if w.flush == nil {
		w.buf = slices.Grow(w.buf, r.objectSize(output))
	}
	w.lit(`{"id":`)
	w.str(a.id)
	w.lit(`,"object":"response","created_at":`)
	w.int(a.created.Unix())
	w.lit(`,"status":`)
	w.str(string(a.status))
	w.lit(`,"background":`)
	w.buf = strconv.AppendBool(w.buf, r.Background)
	w.lit(`,"completed_at":`)
	if a.completed.IsZero() {
		w.lit(`null`)
	} else {
		w.int(a.completed.Unix())
	}
	w.problem(a)
	w.lit(`,"model":`)
	w.str(a.model)
	w.lit(`,"output":[`)
	if output != nil {
		w.rope(output)
	}
	w.lit(`],"service_tier":"default","store":`)
	w.buf = strconv.AppendBool(w.buf, r.Store && !a.lost)
	w.lit(`,"truncation":"disabled"`)
	for i := range echoes {
		value := r.echo[i]
		if value == nil {
			value = json.RawMessage(echoes[i].absent)
		}
		w.lit(`,"`)
		w.lit(echoes[i].name)
		w.lit(`":`)
		w.raw(value)
	}
	w.usage(a.usage)
	w.lit(`}`)
}

func (w *writer) problem(a *answer) {
	w.lit(`,"error":`)
	if a.errorCode == "" {
		w.lit(`null`)
	} else {
		w.lit(`{"code":`)
		w.str(a.errorCode)
		w.lit(`,"message":`)
		w.str(a.errorText)
		w.lit(`}`)
	}
	w.lit(`,"incomplete_details":`)
	if a.incomplete == "" {
		w.lit(`null`)
	} else {
		w.lit(`{"reason":`)
		w.str(a.incomplete)
		w.lit(`}`)
	}
}

func (w *writer) usage(u *perigee.Usage) {
	w.lit(`,"usage":`)
	if u == nil {
		w.lit(`null`)
		return
	}
	w.lit(`{"input_tokens":`)
	w.int(u.Input)
	w.lit(`,"input_tokens_details":{"cached_tokens":`)
	w.int(u.Cached)
	w.lit(`,"cache_write_tokens":0},"output_tokens":`)
	w.int(u.Output)
	w.lit(`,"output_tokens_details":{"reasoning_tokens":`)
	w.int(u.Thinking)
	w.lit(`},"total_tokens":`)
	w.int(u.Total())
	w.lit(`}`)
}
