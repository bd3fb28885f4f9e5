package responses

import (
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Decoder turns the events of a provider's stream, or its whole response, into events. It does
// not depend on all events of the API: content that came without deltas is taken from the item when
// that is done, and an item that did not come at all from the response at the end.
//
// An answer is finished with response.completed or response.incomplete, or with a whole response of
// such a status. A whole response that is made in the background is finished, too: its client asks
// for it again.
type Decoder struct {
	streamed bool
	started  bool
	finished bool
	items    []*receivedItem
	byID     map[string]*receivedItem
	byIndex  map[int64]*receivedItem // the last item with the index
	call     *receivedItem           // the call that pieces are emitted of
	held     []perigee.Event         // content that came between these pieces
	kept     int64

	events  []perigee.Event // of the chunk that is read
	start   perigee.Event
	failure error
}

// NewDecoder returns a decoder for a stream, or for a whole response. The chunks of a stream are the
// data of its events, and a whole response is the only chunk.
func NewDecoder(streamed bool) *Decoder {
	return &Decoder{streamed: streamed, byID: map[string]*receivedItem{}, byIndex: map[int64]*receivedItem{}}
}

// Finished reports whether the answer has come to its end.
func (d *Decoder) Finished() bool { return d.finished }

// Kept returns the approximate number of bytes that are kept of the answer: calls that are not
// complete, what came after the first of them, and the names of the items.
func (d *Decoder) Kept() int64 { return d.kept }

// itemSize is the approximate size of an item or an event, without its content.
const itemSize = 256

// Decode appends the events of a chunk. For data that is no answer or reports an error, it returns
// an error, and events without additions.
func (d *Decoder) Decode(events []perigee.Event, data []byte) ([]perigee.Event, error) {
	if d.finished || string(data) == "[DONE]" { // which some servers send, as in Chat Completions
		return events, nil
	}
	if err := rawjson.Check(data); err != nil {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent something that is not JSON: %w", err)
	}
	c := rawjson.NewCursor(data)
	if kind := c.Kind(); kind != rawjson.Object {
		return events, perigee.Errorf(perigee.ClassUnavailable, "the provider sent %v where an answer should be", kind)
	}
	before := len(events)
	d.events, d.failure, d.start = events, nil, perigee.Event{Kind: perigee.EventStart}
	if !d.started {
		d.events = append(d.events, perigee.Event{}) // a place for the start
	}
	if d.streamed {
		d.chunk(c, data)
	} else {
		d.response(c, data)
	}
	decoded := d.events
	d.events = nil
	if err := c.Err(); err != nil && d.failure == nil {
		d.failure = perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", err)
	}
	if d.failure != nil {
		return events[:before], d.failure
	}
	if !d.started {
		decoded[before], d.started = d.start, true
	}
	return decoded, nil
}

// A receivedChunk has the members of an event of the stream. The item, the part and the piece of
// content that it is about are empty if it has none.
type receivedChunk struct {
	kind     string
	id       string
	index    int64 // of the item; -1 if it has none
	part     int64 // of the content or the summary
	delta    string
	item     json.RawMessage
	response json.RawMessage
	logprobs json.RawMessage
}

// chunk reads an event. Events and members without a meaning here are skipped.
func (d *Decoder) chunk(c *rawjson.Cursor, data []byte) {
	e := receivedChunk{index: -1}
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			e.kind = text(c)
		case "item_id":
			e.id = text(c)
		case "output_index":
			e.index = number(c, -1)
		case "content_index", "summary_index":
			e.part = number(c, 0)
		case "delta":
			e.delta = text(c)
		case "item":
			e.item = c.Raw()
		case "response":
			e.response = c.Raw()
		case "logprobs":
			e.logprobs = c.Raw()
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
	if c.Err() == nil {
		d.dispatch(&e, data)
	}
}

func (d *Decoder) dispatch(e *receivedChunk, data []byte) {
	switch e.kind {
	case "error":
		d.failure = openai.DecodeError(0, data)
	case "response.created", "response.queued", "response.in_progress", "response.completed", "response.incomplete", "response.failed",
		"response.cancelled":
		if e.response != nil {
			d.ending(e)
		}
	case "response.output_item.added":
		d.added(e)
	case "response.output_item.done":
		if raw := objectCursor(e.item); raw != nil {
			item := readOutput(raw)
			d.whole(d.itemOf(e.index, item.id, item.kind), &item)
		}
	case "response.output_text.delta":
		item := d.itemOf(e.index, e.id, "message")
		d.textPiece(item, partKey{textContent, e.part}, e.delta)
		d.logprobs(item, e.part, e.logprobs)
	case "response.refusal.delta":
		d.textPiece(d.itemOf(e.index, e.id, "message"), partKey{refusalContent, e.part}, e.delta)
	case "response.reasoning_summary_text.delta":
		d.thinkingPiece(d.itemOf(e.index, e.id, "reasoning"), partKey{summaryContent, e.part}, e.delta)
	case "response.reasoning_text.delta":
		d.thinkingPiece(d.itemOf(e.index, e.id, "reasoning"), partKey{reasoningContent, e.part}, e.delta)
	case "response.function_call_arguments.delta":
		d.callPiece(d.itemOf(e.index, e.id, "function_call"), e.delta)
	case "response.custom_tool_call_input.delta":
		d.callPiece(d.itemOf(e.index, e.id, "custom_tool_call"), e.delta)
	}
}

// ending reads the response of an event. An event that is not the last one does not end the answer,
// and the type of the last one is the status if the response has none, or an old one.
func (d *Decoder) ending(e *receivedChunk) {
	c := objectCursor(e.response)
	if c == nil {
		return
	}
	r := readResponse(c)
	ends := func(s status) bool {
		return s == statusCompleted || s == statusIncomplete || s == statusFailed || s == statusCancelled
	}
	if kind := status(strings.TrimPrefix(e.kind, "response.")); !ends(kind) || !ends(r.status) || kind == statusFailed {
		r.status = kind
	}
	d.conclude(&r)
}

// response reads a whole response. One without a status is complete.
func (d *Decoder) response(c *rawjson.Cursor, data []byte) {
	r := readResponse(c)
	if r.status == "" && r.output != nil {
		r.status = statusCompleted
	}
	if r.object == "error" || r.status == "" && r.failure == nil {
		d.failure = openai.DecodeError(0, data)
		return
	}
	d.conclude(&r)
}

// A receivedResponse has the members of a response that are of interest.
type receivedResponse struct {
	object, id, model, reason string
	status                    status
	background                bool
	output, usage, failure    json.RawMessage
}

func readResponse(c *rawjson.Cursor) receivedResponse {
	var r receivedResponse
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "object":
			r.object = text(c)
		case "id":
			r.id = text(c)
		case "model":
			r.model = text(c)
		case "status":
			r.status = status(text(c))
		case "background":
			r.background = string(c.Raw()) == "true"
		case "output":
			r.output = c.Raw()
		case "usage":
			r.usage = c.Raw()
		case "error":
			r.failure = c.Raw()
		case "incomplete_details":
			r.reason = memberOf(c, "reason")
		}
	}
	return r
}

// conclude takes the members of a response: its name at the beginning, its output and its usage at
// the end.
func (d *Decoder) conclude(r *receivedResponse) {
	d.start.ResponseID, d.start.Model = r.id, r.model
	switch {
	case r.failure != nil:
		d.failure = openai.DecodeError(0, openai.Wrap("error", r.failure))
		return
	case r.status == statusFailed:
		d.failure = openai.DecodeError(0, []byte(`{}`))
		return
	case r.status == statusCancelled:
		d.failure = &perigee.Error{Class: perigee.ClassUnavailable, Message: "the provider cancelled its answer"}
		return
	case r.background && !d.streamed && (r.status == statusQueued || r.status == statusInProgress):
	case r.status != statusCompleted && r.status != statusIncomplete:
		return // it has begun
	}
	d.output(r.output)
	for _, item := range d.items {
		d.complete(item)
	}
	d.usage(r.usage)
	finish := &perigee.Finish{Reason: string(r.status), Dialect: perigee.DialectOpenAIResponses}
	if r.status == statusIncomplete {
		finish.Reason, finish.Kind = r.reason, incompleteKinds[r.reason]
	}
	d.emit(perigee.Event{Kind: perigee.EventFinish, Finish: finish})
	d.finished = true
}

// incompleteKinds are the kinds of the reasons of incomplete responses. Any other reason is an
// ordinary end.
var incompleteKinds = map[string]perigee.FinishKind{
	"max_output_tokens": perigee.FinishLength, contentFilter: perigee.FinishFiltered,
}

// output reads the items of the response at the end, of which most have come before: with the same
// id, or in the same order among the items of their type.
func (d *Decoder) output(raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Array {
		return
	}
	byKind := map[string][]*receivedItem{}
	for _, r := range d.items {
		byKind[r.kind] = append(byKind[r.kind], r)
	}
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		item := readOutput(c)
		received := d.byID[item.id]
		for same := byKind[item.kind]; received == nil && len(same) > 0; same = byKind[item.kind] {
			if byKind[item.kind] = same[1:]; !same[0].final {
				received = same[0]
			}
		}
		if received == nil {
			received = d.newItem(-1, item.id, item.kind)
		}
		received.final = true
		d.whole(received, &item)
	}
}

func (d *Decoder) usage(raw json.RawMessage) {
	c := objectCursor(raw)
	if c == nil {
		return
	}
	u := &perigee.Usage{}
	details := func(name string, n *int64) func() {
		return func() {
			if c.Kind() == rawjson.Object {
				c.Read(nil, name, n)
			} else {
				c.Skip()
			}
		}
	}
	c.Read(nil, "input_tokens", &u.Input, "output_tokens", &u.Output, "input_tokens_details", func() {
		if c.Kind() == rawjson.Object {
			c.Read(nil, "cached_tokens", &u.Cached, "cache_write_tokens", &u.Written)
		} else {
			c.Skip()
		}
	}, "cost", func() { u.Charged = openai.ReadCost(c) },
		"output_tokens_details", details("reasoning_tokens", &u.Thinking))
	if c.Err() == nil {
		d.emit(perigee.Event{Kind: perigee.EventUsage, Usage: u})
	}
}

// emit emits an event, or holds it until the call is complete of which pieces were emitted.
func (d *Decoder) emit(ev perigee.Event) {
	if d.call != nil {
		d.held = append(d.held, ev)
		d.kept += itemSize + ev.Size()
		return
	}
	d.events = append(d.events, ev)
}

// text reads a string. A value of another kind is as good as an empty one.
func text(c *rawjson.Cursor) string {
	if c.Kind() != rawjson.String {
		c.Skip()
		return ""
	}
	return c.String()
}

// number reads a whole number, or returns otherwise for a value of another kind.
func number(c *rawjson.Cursor, otherwise int64) int64 {
	if c.Kind() != rawjson.Number {
		c.Skip()
		return otherwise
	}
	return c.Int64()
}

// memberOf reads an object and returns one of its members, which is a string.
func memberOf(c *rawjson.Cursor, name string) (value string) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return ""
	}
	for key := range c.Object() {
		if string(key) == name {
			value = text(c)
		}
	}
	return value
}

// objectCursor returns a cursor at an object, or nil if raw is something else.
func objectCursor(raw json.RawMessage) *rawjson.Cursor {
	if raw == nil {
		return nil
	}
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Object {
		return nil
	}
	return c
}

// DecodeTokenCount reads the answer to the request of EncodeCountRequest.
func DecodeTokenCount(answer []byte) (*perigee.TokenCount, error) {
	var count *int64
	err := rawjson.Check(answer)
	if err == nil {
		c := rawjson.NewCursor(answer)
		c.Read(nil, "input_tokens", &count)
		err = c.Err()
	}
	switch {
	case err != nil:
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the provider sent a token count of unknown shape: %w", err)
	case count == nil:
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the provider sent no token count")
	}
	return &perigee.TokenCount{Total: *count}, nil
}
