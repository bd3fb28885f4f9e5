package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// echoes are the members of a response that repeat the request, and their values if the request did
// not set them. They are in the order of the API's own examples.
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

// echoOf returns a value of the request as the response repeats it: on one line, because it is sent
// in events, and with the members that a response always has.
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
		return json.RawMessage("null") // it is valid, so this cannot happen
	}
	return line.Bytes()
}

// fill returns an object with up to two members added that it does not have.
func fill(raw json.RawMessage, first, firstValue, second, secondValue string) json.RawMessage {
	c := rawjson.NewCursor(raw)
	w := rawjson.Writer{}
	w.Object()
	for key := range c.Object() {
		switch string(key) {
		case first:
			firstValue = ""
		case second:
			secondValue = ""
		}
		w.AnyKey(string(key)).Raw(c.Raw())
	}
	if c.Err() != nil {
		return raw // the decoder reports the error
	}
	if firstValue != "" {
		w.Key(first).Members(firstValue)
	}
	if secondValue != "" {
		w.Key(second).Members(secondValue)
	}
	return w.EndObject().Buf
}

// A status is the status of a response or an item.
type status string

const (
	statusQueued     status = "queued"
	statusInProgress status = "in_progress"
	statusCompleted  status = "completed"
	statusIncomplete status = "incomplete"
	statusFailed     status = "failed"
	statusCancelled  status = "cancelled"
)

// An answer has the members of a response that depend on its progress.
type answer struct {
	id         string
	created    time.Time
	completed  time.Time // zero if not completed
	status     status
	incomplete string // the reason; empty if it is complete
	errorCode  string
	errorClass perigee.Class
	errorText  string
	model      string
	usage      *perigee.Usage
	lost       bool // it could not be stored
}

// objectSize returns the approximate size of the response with the items of output: it repeats
// instructions and tools, which may be long.
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

// object appends the response with the items of output, which come without brackets; nil if there
// are none.
func (r *Request) object(w *rawjson.Writer, a *answer, output *rope) {
	if w.Flush == nil {
		w.Buf = slices.Grow(w.Buf, r.objectSize(output))
	}
	w.Object().Key("id").String(a.id).Members(`"object":"response"`).Key("created_at").Int(a.created.Unix())
	w.Key("status").String(string(a.status)).Key("background").Bool(r.Background).Key("completed_at")
	if a.completed.IsZero() {
		w.Null()
	} else {
		w.Int(a.completed.Unix())
	}
	a.problem(w)
	w.Key("model").String(a.model).Key("output").Array()
	if output != nil {
		w.Elements(output.pieces...)
	}
	w.EndArray().Members(`"service_tier":"default"`).Key("store").Bool(r.Store && !a.lost).Members(`"truncation":"disabled"`)
	for i := range echoes {
		w.Key(echoes[i].name)
		if value := r.echo[i]; value != nil {
			w.Raw(value)
		} else {
			w.Members(echoes[i].absent)
		}
	}
	writeUsage(w.Key("usage"), a.usage)
	w.EndObject()
}

func (a *answer) problem(w *rawjson.Writer) {
	w.Key("error")
	if a.errorCode == "" {
		w.Null()
	} else {
		w.Object().Key("code").String(a.errorCode).Key("class").String(string(a.errorClass)).Key("message").String(a.errorText).EndObject()
	}
	w.Key("incomplete_details")
	if a.incomplete == "" {
		w.Null()
	} else {
		w.Object().Key("reason").String(a.incomplete).EndObject()
	}
}

func writeUsage(w *rawjson.Writer, u *perigee.Usage) {
	if u == nil {
		w.Null()
		return
	}
	w.Object().Key("input_tokens").Int(u.Input)
	w.Key("input_tokens_details").Object().Key("cached_tokens").Int(u.Cached).Key("cache_write_tokens").Int(u.Written).EndObject()
	w.Key("output_tokens").Int(u.Output).Key("output_tokens_details").Object().Key("reasoning_tokens").Int(u.Thinking).EndObject()
	w.Key("total_tokens").Int(u.Total()).EndObject()
}
