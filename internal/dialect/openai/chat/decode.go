package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Decoder turns the chunks of a provider's stream, or its whole answer, into events. Servers write
// this API in many ways; TestDecoderAcceptsServers has one transcript for each. The zero value is
// ready to use.
//
// An answer is finished when each choice that began has a finish reason: some servers send no
// [DONE], and some send it although the answer was cut short.
type Decoder struct {
	started bool
	choices map[int]*receivedChoice // by index
	open    int                     // choices that are not finished
	kept    int64
	cursor  rawjson.Cursor
	events  []perigee.Event // of the chunk that is read
	start   perigee.Event
	failure error
}

// A receivedChoice is one answer of the provider.
type receivedChoice struct {
	index    int
	calls    []*receivedCall // that are not complete
	held     []perigee.Event // texts that came between the pieces of the first of them
	details  details
	finished bool
}

// A receivedCall is a tool call while its pieces arrive.
type receivedCall struct {
	slot   int64 // the provider's index; -1 if it gives none
	id     string
	name   string
	args   []byte // of a custom tool: its input, escaped
	object bool   // args is not a text that may grow, but an object
	custom bool
	shown  bool // a piece was emitted
}

// ErrInChoice is the cause of an error that only a choice reports, by its finish reason or in a member
// of its own. Clients do not recognize such a chunk as an error.
var ErrInChoice = errors.New("a choice reports an error")

// done is the data of the event after the last chunk.
const done = "[DONE]"

// maxOpenCalls bounds the calls that a provider writes at once. All servers write one after the
// other.
const maxOpenCalls = 128

// Finished reports whether the answer has come to its end.
func (d *Decoder) Finished() bool {
	return len(d.choices) > 0 && d.open == 0
}

// Kept returns the approximate number of bytes that are kept of the answer: calls that are not
// complete, what came after them, details of the reasoning, and the choices.
func (d *Decoder) Kept() int64 { return d.kept }

// partSize is the approximate size of a choice or a call, without its content.
const partSize = 256

// Decode appends the events of a chunk, or of a whole answer. For data that is no answer or reports
// an error, it returns an error, and events without additions.
func (d *Decoder) Decode(events []perigee.Event, data []byte) ([]perigee.Event, error) {
	if string(data) == done {
		return events, nil
	}
	if err := rawjson.Check(data); err != nil {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent something that is not JSON: %w", err)
	}
	c := &d.cursor
	c.Reset(data)
	defer c.Reset(nil) // the data belongs to the caller
	if kind := c.Kind(); kind != rawjson.Object {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent %v where an answer should be", kind)
	}
	before := len(events)
	d.events, d.failure, d.start = events, nil, perigee.Event{Kind: perigee.EventStart}
	if !d.started {
		d.events = append(d.events, perigee.Event{}) // a place for the start
	}
	d.chunk(c, data)
	if err := c.Err(); err != nil && d.failure == nil {
		d.failure = perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", err)
	}
	decoded := d.events
	d.events = nil
	if d.failure != nil {
		return events[:before], d.failure
	}
	if !d.started {
		decoded[before], d.started = d.start, true
	}
	return decoded, nil
}

// chunk reads a chunk or an answer. Members that are null are as good as absent.
func (d *Decoder) chunk(c *rawjson.Cursor, data []byte) {
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "id":
			d.start.ResponseID = text(c)
		case "model":
			d.start.Model = text(c)
		case "choices":
			for i := range c.Array() {
				d.choice(c, i)
			}
		case "usage":
			d.usage(c)
		case "x_groq":
			for key := range c.Object() {
				if string(key) == "usage" && c.Kind() == rawjson.Object {
					d.usage(c)
				}
			}
		case "error":
			d.failure = openai.DecodeError(0, data)
			return
		case "object":
			if text(c) == "error" {
				d.failure = openai.DecodeError(0, data)
				return
			}
		}
	}
}

// text reads a string. A value of another kind is as good as an empty one.
func text(c *rawjson.Cursor) string {
	if c.Kind() != rawjson.String {
		c.Skip()
		return ""
	}
	return c.String()
}

func (d *Decoder) emit(ev perigee.Event) { d.events = append(d.events, ev) }

// choice reads the next of choices, which is the i-th. The finish reason is applied after the
// content, whatever the order of the members.
func (d *Decoder) choice(c *rawjson.Cursor, i int) {
	var reason string
	var logprobs json.RawMessage
	index, delta := int64(i), json.RawMessage(nil)
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "index":
			index = c.Int64()
		case "delta", "message":
			delta = c.Raw()
		case "finish_reason":
			reason = text(c)
		case "logprobs":
			logprobs = c.Raw()
		case "error":
			e := openai.DecodeError(0, openai.Wrap("error", c.Raw()))
			e.Cause = ErrInChoice
			d.failure = e
			return
		}
	}
	if c.Err() != nil {
		return
	}
	choice := d.choiceOf(int(index))
	if delta != nil {
		d.delta(choice, delta)
	}
	if logprobs != nil {
		d.logprobs(choice, logprobs)
	}
	if reason != "" && d.failure == nil {
		d.finish(choice, reason)
	}
}

func (d *Decoder) choiceOf(index int) *receivedChoice {
	if c := d.choices[index]; c != nil {
		return c
	}
	if d.choices == nil {
		d.choices = map[int]*receivedChoice{}
	}
	c := &receivedChoice{index: index}
	d.choices[index] = c
	d.open++
	d.kept += partSize
	return c
}

// delta reads what a chunk adds to a choice, or the whole message: thinking first, then text, then
// calls, as models write them.
func (d *Decoder) delta(choice *receivedChoice, raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Object {
		return
	}
	var reasoning, refusal string
	var content, calls, function json.RawMessage
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "content":
			content = c.Raw()
		case "reasoning_content", "reasoning": // servers that have both repeat the text
			if said := text(c); said != "" {
				reasoning = said
			}
		case "reasoning_details":
			d.kept += choice.details.add(c)
		case "refusal":
			refusal = text(c)
		case "tool_calls":
			calls = c.Raw()
		case "function_call":
			function = c.Raw()
		}
	}
	d.emitText(choice, perigee.EventThinking, reasoning)
	d.content(choice, content)
	d.emitText(choice, perigee.EventText, refusal)
	if calls != nil {
		d.calls(choice, calls)
	}
	if function != nil {
		d.piece(choice, callPiece{slot: 0, has: true, function: function})
	}
}

// emitText emits a piece of text or thinking, after a call of which pieces were emitted.
func (d *Decoder) emitText(choice *receivedChoice, kind perigee.EventKind, text string) {
	if text == "" {
		return
	}
	ev := perigee.Event{Kind: kind, Candidate: choice.index, Text: text}
	if len(choice.calls) > 0 && !choice.calls[0].custom { // any input may be longer
		d.completeCalls(choice, false)
	}
	if len(choice.calls) > 0 && choice.calls[0].shown {
		choice.held = append(choice.held, ev)
		d.kept += partSize + ev.Size()
		return
	}
	d.emit(ev)
}

// content reads a text, or a list of texts and thoughts.
func (d *Decoder) content(choice *receivedChoice, raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	switch c.Kind() {
	case rawjson.String:
		d.emitText(choice, perigee.EventText, c.String())
	case rawjson.Array:
		for range c.Array() {
			d.contentPart(choice, c)
		}
	}
}

// contentPart reads a part of a list: {"type":"text","text":…} or Mistral's
// {"type":"thinking","thinking":[{"type":"text","text":…}]}.
func (d *Decoder) contentPart(choice *receivedChoice, c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	for key := range c.Object() {
		switch {
		case string(key) == "text" && c.Kind() == rawjson.String:
			d.emitText(choice, perigee.EventText, c.String())
		case string(key) == "thinking" && c.Kind() == rawjson.String:
			d.emitText(choice, perigee.EventThinking, c.String())
		case string(key) == "thinking" && c.Kind() == rawjson.Array:
			for range c.Array() {
				said := ""
				c.Read(nil, "text", &said)
				d.emitText(choice, perigee.EventThinking, said)
			}
		}
	}
}

// A callPiece is one element of tool_calls.
type callPiece struct {
	slot     int64
	has      bool // slot is the provider's
	id       string
	function json.RawMessage
	custom   json.RawMessage
}

// calls reads the pieces of calls in a chunk, or the calls of a whole message.
func (d *Decoder) calls(choice *receivedChoice, raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Array {
		return
	}
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		p := callPiece{}
		for key := range c.Object() {
			if c.Kind() == rawjson.Null {
				continue
			}
			switch string(key) {
			case "index":
				p.slot, p.has = c.Int64(), true
			case "id":
				p.id = text(c)
			case "function":
				p.function = c.Raw()
			case "custom":
				p.custom = c.Raw()
			}
		}
		d.piece(choice, p)
	}
	if err := c.Err(); err != nil {
		d.failure = perigee.Errorf(perigee.ClassUnavailable, "the provider sent a tool call of unknown shape: %w", err)
	}
}

// piece adds a piece to its call.
func (d *Decoder) piece(choice *receivedChoice, p callPiece) {
	var name, more string
	object, custom := json.RawMessage(nil), p.custom != nil
	c := rawjson.NewCursor(p.function)
	if custom {
		c = rawjson.NewCursor(p.custom)
	}
	if c.Kind() != rawjson.Object {
		return // a call with no function
	}
	for key := range c.Object() {
		switch {
		case string(key) == "name":
			name = text(c)
		case string(key) != "arguments" && string(key) != "input":
		case c.Kind() == rawjson.Object:
			object = c.Raw()
		default:
			more = text(c)
		}
	}
	call := choice.callOf(p, name)
	if call == nil {
		if p.id == "" && name == "" && more == "" && object == nil {
			return
		}
		d.completeCalls(choice, false)
		if len(choice.calls) == maxOpenCalls {
			d.failure = perigee.Errorf(perigee.ClassUnavailable, "the provider has begun %d tool calls and completed none of them", maxOpenCalls)
			return
		}
		call = &receivedCall{slot: -1, custom: custom}
		if p.has {
			call.slot = p.slot
		}
		choice.calls = append(choice.calls, call)
		d.kept += partSize
	}
	call.id, call.name = cmp.Or(call.id, p.id), cmp.Or(call.name, name)
	if custom {
		more = string(rawjson.AppendInner(nil, more))
	}
	if object != nil && len(call.args) == 0 {
		call.args, call.object = slices.Clone(object), true
		more = string(object)
		d.kept += int64(len(object))
	} else if !call.object {
		call.args = append(call.args, more...)
		d.kept += int64(len(more))
	}
	d.show(choice, call, more)
}

// callOf returns the call that a piece belongs to, or nil if it begins another one. The index
// decides, unless the piece has an id of its own: some servers give all calls the same index. A
// piece without index and id belongs to the last call, unless it has a name.
func (c *receivedChoice) callOf(p callPiece, name string) *receivedCall {
	for i := len(c.calls) - 1; i >= 0; i-- {
		call := c.calls[i]
		switch same := p.id == "" || call.id == "" || call.id == p.id; {
		case p.has && call.slot == p.slot && same:
			return call
		case !p.has && p.id != "" && call.id == p.id:
			return call
		case !p.has && p.id == "" && name == "":
			return call
		}
	}
	return nil
}

// The arguments of a custom tool are an object around its input.
const (
	customHead = `{"input":"`
	customEnd  = `"}`
)

// show emits a piece of a call that can be streamed: its id and name are known, it is the only one
// that is not complete, and its arguments are an object.
func (d *Decoder) show(choice *receivedChoice, call *receivedCall, more string) {
	if call.id == "" || call.name == "" || choice.calls[0] != call {
		return
	}
	if !call.shown {
		if !call.custom && !bytes.HasPrefix(call.args, []byte("{")) {
			return
		}
		call.shown, more = true, string(call.args)
		if call.custom {
			more = customHead + more
		}
	}
	d.emit(perigee.Event{Kind: perigee.EventCallPart, Candidate: choice.index, Text: more,
		Call: &perigee.FunctionCall{ID: call.id, Name: call.name}})
}

// completeCalls emits the calls at the beginning of the list with complete arguments, or all of
// them.
func (d *Decoder) completeCalls(choice *receivedChoice, all bool) {
	for len(choice.calls) > 0 {
		call := choice.calls[0]
		if !all && !call.custom && rawjson.Check(call.args) != nil {
			return
		}
		if call.custom && call.shown {
			d.show(choice, call, customEnd)
		}
		choice.calls = choice.calls[1:]
		d.kept -= partSize + int64(len(call.args))
		args, _ := openai.Arguments(call.args)
		if call.custom {
			args = json.RawMessage(customHead + string(call.args) + customEnd)
		}
		if call.name != "" {
			d.emit(perigee.Event{Kind: perigee.EventCall, Candidate: choice.index,
				Call: &perigee.FunctionCall{ID: call.id, Name: call.name, Args: args}})
		}
		d.events = append(d.events, choice.held...)
		for i := range choice.held {
			d.kept -= partSize + choice.held[i].Size()
		}
		choice.held = nil
	}
}

// finish ends a choice. A second finish reason changes nothing.
func (d *Decoder) finish(choice *receivedChoice, reason string) {
	if choice.finished {
		return
	}
	if reason == "error" || reason == "insufficient_system_resource" {
		d.failure = &perigee.Error{Class: perigee.ClassCapacity, Message: "the provider ended its answer with " + reason, Cause: ErrInChoice}
		return
	}
	d.completeCalls(choice, true)
	choice.finished = true
	d.open--
	d.emit(perigee.Event{Kind: perigee.EventFinish, Candidate: choice.index, Signature: choice.details.encode(),
		Finish: &perigee.Finish{Kind: finishKinds[reason], Reason: reason, Dialect: perigee.DialectOpenAIChat}})
}

// finishKinds are the kinds of finish reasons. Any other reason is an ordinary end.
var finishKinds = map[string]perigee.FinishKind{
	"length": perigee.FinishLength, "model_length": perigee.FinishLength, "content_filter": perigee.FinishFiltered,
}

// usage reads the usage so far.
func (d *Decoder) usage(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	u := &perigee.Usage{}
	prompt := func() {
		if c.Kind() == rawjson.Object {
			c.Read(nil, "cached_tokens", &u.Cached, "cache_write_tokens", &u.Written)
		} else {
			c.Skip()
		}
	}
	cached := func(names ...any) func() {
		return func() {
			if c.Kind() == rawjson.Object {
				c.Read(nil, names...)
			} else {
				c.Skip()
			}
		}
	}
	c.Read(nil, "prompt_tokens", &u.Input, "completion_tokens", &u.Output,
		"prompt_tokens_details", prompt, "prompt_token_details", cached("cached_tokens", &u.Cached),
		"num_cached_tokens", &u.Cached, "prompt_cache_hit_tokens", &u.Cached,
		"completion_tokens_details", cached("reasoning_tokens", &u.Thinking),
		"cost", func() { u.Charged = openai.ReadCost(c) })
	d.emit(perigee.Event{Kind: perigee.EventUsage, Usage: u})
}

// logprobs reads the log probabilities of a chunk.
func (d *Decoder) logprobs(choice *receivedChoice, raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Object {
		return
	}
	l := &perigee.Logprobs{}
	for key := range c.Object() {
		if string(key) == "content" {
			l = dialect.ReadLogprobs(c)
		}
	}
	if len(l.Chosen) > 0 {
		d.emit(perigee.Event{Kind: perigee.EventLogprobs, Candidate: choice.index, Logprobs: l})
	}
}

// IsUsageChunk reports whether a chunk of a stream has the usage and no choices: the one that a
// client gets only if it asks for it.
func IsUsageChunk(data []byte) bool {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	usage, choices := false, false
	c := rawjson.NewCursor(data)
	for key := range c.Object() {
		switch string(key) {
		case "usage":
			usage = c.Kind() == rawjson.Object
		case "choices":
			if c.Kind() != rawjson.Array {
				return false
			}
			for range c.Array() {
				return false
			}
			choices = true
		}
	}
	return usage && choices && c.Err() == nil
}

// Streams reports whether a request has the member stream, beside extra_body, and it is true.
func Streams(c *rawjson.Cursor) (streams bool) {
	for key := range c.Object() {
		if string(key) == "stream" && c.Kind() == rawjson.Bool {
			streams = c.Bool()
		}
	}
	return streams
}

// AsksForUsage reports whether a request asks for the chunk with the usage of its stream.
func AsksForUsage(c *rawjson.Cursor) (asks bool) {
	for key := range c.Object() {
		if string(key) != "stream_options" || c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			if string(key) == "include_usage" && c.Kind() == rawjson.Bool {
				asks = c.Bool()
			}
		}
	}
	return asks
}
