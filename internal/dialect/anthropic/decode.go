package anthropic

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A Decoder turns the events of a provider's stream, or its whole message, into events. The zero
// value is ready to use.
//
// An answer is finished with message_stop, or if it is a whole message that has a stop reason.
type Decoder struct {
	events   []perigee.Event // of the chunk that is read
	start    perigee.Event
	started  bool
	open     *receivedBlock
	usage    receivedUsage
	stop     receivedStop
	finished bool
	cursor   rawjson.Cursor

	ground perigee.Grounding // so far
	length int               // of the text of the answer in bytes, without the open block
	found  int64             // the size of what ground was read from
}

// A receivedBlock is the block that the provider is writing.
type receivedBlock struct {
	kind   string
	id     string
	name   string
	input  []byte // of a call, as text that may be incomplete
	text   []byte // of a text that may have citations
	signed bool   // thinking that has its text or its signature
	length int    // of its text
	cited  []int64
}

// receivedUsage is the usage so far, as the provider counts it.
type receivedUsage struct {
	known                                        bool
	input, read, written, hour, output, thinking int64
}

// receivedStop is why the answer ended.
type receivedStop struct{ reason, sequence, explanation string }

// Finished reports whether the answer has come to its end.
func (d *Decoder) Finished() bool { return d.finished }

// Kept returns the number of bytes that are kept of the answer: the open block, and what the sources
// of its texts were read from.
func (d *Decoder) Kept() int64 {
	kept := d.found
	if d.open != nil {
		kept += int64(len(d.open.input) + len(d.open.text))
	}
	return kept
}

// Decode appends the events of the data of an event, or of a whole message. For data that is no
// answer or reports an error, it returns an error, and events without additions. Events of an
// unknown type have none.
func (d *Decoder) Decode(events []perigee.Event, data []byte) ([]perigee.Event, error) {
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
	d.events = events
	err := d.chunk(c, data)
	if failed := c.Err(); failed != nil && err == nil {
		err = perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", failed)
	}
	decoded := d.events
	d.events = nil
	if err != nil {
		return events[:before], err
	}
	return decoded, nil
}

// A chunk is an event of a stream, or a message, with the members of all types.
type chunk struct {
	kind                           string
	message, block, delta, failure []byte
}

// chunk reads an event or a message. Its type may come last.
func (d *Decoder) chunk(c *rawjson.Cursor, data []byte) error {
	var e chunk
	c.Read(nil, "type", func() { e.kind = textOf(c) }, "message", &e.message, "content_block", &e.block, "delta", &e.delta,
		"usage", func() { d.readUsage(c) }, "error", &e.failure)
	if e.failure != nil {
		return DecodeError(0, data)
	}
	if c.Err() != nil {
		return nil
	}
	switch e.kind {
	case "message_start":
		return d.within(e.message, func(c *rawjson.Cursor) { d.readMessage(c, nil) })
	case "content_block_start":
		d.endBlock() // also if the new one is missing
		return d.addition(e.block, d.beginBlock)
	case "content_block_delta":
		return d.addition(e.delta, d.extendBlock)
	case "content_block_stop":
		d.endBlock()
	case "message_delta":
		err := d.addition(e.delta, d.readStop)
		d.emitUsage()
		return err
	case "message_stop":
		d.finish()
	case "message":
		return d.within(data, func(c *rawjson.Cursor) { d.readMessage(c, data) })
	}
	return nil
}

// addition reads a member of a chunk. One that is missing adds nothing to the answer.
func (d *Decoder) addition(raw []byte, read func(c *rawjson.Cursor)) error {
	if raw == nil {
		return nil
	}
	return d.within(raw, read)
}

// within reads a member of a chunk. A member that is missing or no object counts as an error.
func (d *Decoder) within(raw []byte, read func(c *rawjson.Cursor)) error {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Object {
		return perigee.Errorf(perigee.ClassUnavailable, "the provider sent an event without its content")
	}
	read(c)
	if err := c.Err(); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "the provider sent an answer of unknown shape: %w", err)
	}
	return nil
}

// textOf reads a string. A value of another kind is as good as an empty one.
func textOf(c *rawjson.Cursor) string {
	if c.Kind() != rawjson.String {
		c.Skip()
		return ""
	}
	return c.String()
}

// emit adds an event, after the start of the answer.
func (d *Decoder) emit(ev perigee.Event) {
	d.begin()
	d.events = append(d.events, ev)
}

// begin emits the start of the answer, once.
func (d *Decoder) begin() {
	if !d.started {
		d.started = true
		d.start.Kind = perigee.EventStart
		d.events = append(d.events, d.start)
	}
}

// readMessage reads the message at the start of a stream, or a whole one.
func (d *Decoder) readMessage(c *rawjson.Cursor, whole []byte) {
	var content json.RawMessage
	c.Read(nil, "id", func() { d.start.ResponseID = textOf(c) }, "model", func() { d.start.Model = textOf(c) },
		"content", &content, "usage", func() { d.readUsage(c) },
		"stop_reason", func() { d.stop.reason = textOf(c) }, "stop_sequence", func() { d.stop.sequence = textOf(c) },
		"stop_details", func() { d.readDetails(c) })
	if c.Err() != nil {
		return
	}
	if whole == nil {
		d.begin()
		d.emitUsage()
		return
	}
	blocks := rawjson.NewCursor(content)
	if blocks.Kind() == rawjson.Array {
		for range blocks.Array() {
			if blocks.Kind() == rawjson.Object {
				d.beginBlock(blocks)
				d.endBlock()
			} else {
				blocks.Skip()
			}
		}
	}
	d.emitUsage()
	if d.stop.reason != "" {
		d.finish()
	}
}

// beginBlock reads the beginning of a block, which is all of it in a whole message.
func (d *Decoder) beginBlock(c *rawjson.Cursor) {
	b := &receivedBlock{}
	var text, thinking, signature, data string
	var input, citations, content json.RawMessage
	c.Read(nil, "type", func() { b.kind = textOf(c) }, "id", func() { b.id = textOf(c) }, "name", func() { b.name = textOf(c) },
		"text", func() { text = textOf(c) }, "thinking", func() { thinking = textOf(c) }, "signature", func() { signature = textOf(c) },
		"data", func() { data = textOf(c) }, "input", &input, "citations", &citations, "content", &content)
	if c.Err() != nil {
		return
	}
	d.open = b
	switch b.kind {
	case "text":
		d.addText(text)
		d.addCitations(citations)
	case "thinking":
		d.addThinking(thinking)
		d.addSignature(signature)
	case "redacted_thinking":
		if data != "" {
			d.emit(perigee.Event{Kind: perigee.EventRedacted, Signature: data})
		}
	case "tool_use":
		d.addInput("")
		if string(input) != "{}" {
			d.addInput(string(input))
		}
	case "server_tool_use":
		if string(input) != "{}" {
			b.input = slices.Clone(input)
		}
	case "web_search_tool_result":
		d.found += int64(len(content))
		d.addFindings(content)
	}
}

// extendBlock reads a change of the open block.
func (d *Decoder) extendBlock(c *rawjson.Cursor) {
	var kind, text, thinking, signature, input string
	var citation json.RawMessage
	c.Read(nil, "type", func() { kind = textOf(c) }, "text", func() { text = textOf(c) }, "thinking", func() { thinking = textOf(c) },
		"signature", func() { signature = textOf(c) }, "partial_json", func() { input = textOf(c) }, "citation", &citation)
	if c.Err() != nil || d.open == nil {
		return
	}
	switch kind {
	case "text_delta":
		d.addText(text)
	case "thinking_delta":
		d.addThinking(thinking)
	case "signature_delta":
		d.addSignature(signature)
	case "input_json_delta":
		d.addInput(input)
	case "citations_delta":
		d.addCitation(citation)
	}
}

func (d *Decoder) addText(text string) {
	if text == "" {
		return
	}
	d.open.length += len(text)
	if len(d.ground.Sources) > 0 {
		d.open.text = append(d.open.text, text...)
	}
	d.emit(perigee.Event{Kind: perigee.EventText, Text: text})
}

func (d *Decoder) addThinking(text string) {
	if text != "" {
		d.open.signed = true
		d.emit(perigee.Event{Kind: perigee.EventThinking, Text: text})
	}
}

// addSignature emits the signature of the open thinking. If the thinking is omitted, the signature
// is all of it.
func (d *Decoder) addSignature(signature string) {
	switch {
	case signature == "":
	case d.open.signed:
		d.emit(perigee.Event{Kind: perigee.EventSignature, Signature: signature})
	default:
		d.open.signed = true
		d.emit(perigee.Event{Kind: perigee.EventThinking, Signature: signature})
	}
}

// addInput adds a piece of the input of the open call. The pieces of the provider's own calls are
// not shown.
func (d *Decoder) addInput(piece string) {
	b := d.open
	b.input = append(b.input, piece...)
	if b.kind == "tool_use" && b.id != "" && b.name != "" {
		d.emit(perigee.Event{Kind: perigee.EventCallPart, Text: piece, Call: &perigee.FunctionCall{ID: b.id, Name: b.name}})
	}
}

// endBlock ends the open block, if there is one.
func (d *Decoder) endBlock() {
	b := d.open
	if b == nil {
		return
	}
	d.open = nil
	d.length += b.length
	switch b.kind {
	case "tool_use":
		if b.name != "" {
			d.emit(perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: b.id, Name: b.name, Args: b.arguments()}})
		}
	case "server_tool_use":
		d.addQuery(b)
	case "text":
		d.support(b)
	}
}

// arguments returns the input of a call as an object, also if the model wrote something else.
func (b *receivedBlock) arguments() json.RawMessage {
	switch {
	case len(b.input) == 0:
		return json.RawMessage("{}")
	case b.input[0] == '{' && rawjson.Check(b.input) == nil:
		return b.input
	}
	var w rawjson.Writer
	return w.Object().Key("arguments").String(string(b.input)).EndObject().Buf
}

// readUsage reads the counts that there are. In a stream they are cumulative, and later events may
// leave some out.
func (d *Decoder) readUsage(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	u := &d.usage
	u.known = true
	inside := func(name string, into *int64) func() {
		return func() {
			if c.Kind() != rawjson.Object {
				c.Skip()
				return
			}
			c.Read(nil, name, into)
		}
	}
	c.Read(nil, "input_tokens", &u.input, "output_tokens", &u.output,
		"cache_read_input_tokens", &u.read, "cache_creation_input_tokens", &u.written,
		"cache_creation", inside("ephemeral_1h_input_tokens", &u.hour),
		"output_tokens_details", inside("thinking_tokens", &u.thinking))
}

// emitUsage emits the usage so far. The provider counts cached tokens beside the input, not in it.
func (d *Decoder) emitUsage() {
	u := &d.usage
	if !u.known {
		return
	}
	d.emit(perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: u.input + u.read + u.written, Cached: u.read,
		Written: u.written, WrittenHour: min(u.hour, u.written), Output: u.output, Thinking: min(u.thinking, u.output)}})
}

// readStop reads why the answer ends.
func (d *Decoder) readStop(c *rawjson.Cursor) {
	c.Read(nil, "stop_reason", func() { d.stop.reason = textOf(c) }, "stop_sequence", func() { d.stop.sequence = textOf(c) },
		"stop_details", func() { d.readDetails(c) })
}

func (d *Decoder) readDetails(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	c.Read(nil, "explanation", func() { d.stop.explanation = textOf(c) })
}

// stopKinds are the kinds of stop reasons. Any other reason is an ordinary end.
var stopKinds = map[string]perigee.FinishKind{
	"": perigee.FinishUnexplained, "max_tokens": perigee.FinishLength, "model_context_window_exceeded": perigee.FinishLength,
	"refusal": perigee.FinishFiltered,
}

// finish ends the answer, once.
func (d *Decoder) finish() {
	if d.finished {
		return
	}
	d.endBlock()
	d.finished = true
	d.emit(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Kind: stopKinds[d.stop.reason], Reason: d.stop.reason,
		Dialect: perigee.DialectAnthropic, Message: d.stop.explanation, Stop: d.stop.sequence}})
}
