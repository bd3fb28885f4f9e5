package anthropic

import (
	"cmp"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A blockKind is the kind of the open block of an answer.
type blockKind uint8

const (
	none blockKind = iota
	text
	thought
	toolCall // of a stream, while its pieces arrive
)

// An encoder turns the events of one answer into blocks: as the events of a stream, or as the
// elements of content.
type encoder struct {
	answer *Answer
	stream bool
	w      rawjson.Writer

	model    string
	usage    perigee.Usage
	finish   perigee.Finish
	index    int // of the open block, or of the next one
	kind     blockKind
	signed   bool   // the open thinking has its signature
	citing   bool   // the open text has a list of citations
	filled   bool   // the open call has a part of its input
	hidden   []byte // the text of the open thinking that the client does not see
	calls    int
	servers  int    // uses of the provider's tools
	server   string // the id of the last of them
	searches int
	trail    dialect.Searches
	cited    int // the number of its supports that texts have already

	answering bool // there is more than thinking and searches
	before    int  // the offset in the content at which that begins
	placeOf   int  // the index of its first block
}

// event writes the content of an event.
func (e *encoder) event(ev *perigee.Event) {
	if ev.Candidate != 0 {
		return // this dialect has one answer
	}
	switch ev.Kind {
	case perigee.EventStart:
		e.model = ev.Model
	case perigee.EventUsage:
		e.usage = *ev.Usage
	case perigee.EventFinish:
		e.finish = *ev.Finish
	case perigee.EventText:
		e.writeText(ev.Text) // its signature has no place here; the server remembers it by the text
	case perigee.EventThinking:
		e.think(ev)
	case perigee.EventSignature:
		if e.kind == thought && !e.signed {
			e.signThinking(ev.Signature)
		}
	case perigee.EventCallPart:
		e.callPiece(ev)
	case perigee.EventRedacted:
		e.redacted(ev.Signature)
	case perigee.EventCall:
		e.toolUse(ev)
	case perigee.EventBlob:
		e.blob(ev)
	case perigee.EventPart:
		e.part(ev.Raw)
	case perigee.EventGrounding:
		e.trail.Add(ev.Grounding)
		if !e.answering { // the model has searched first; else it goes out when the text is
			e.writeSearches()
		}
	}
}

// to opens a block of the kind, unless one without a signature is open.
func (e *encoder) to(kind blockKind) {
	if e.kind == kind && !e.signed {
		return
	}
	e.close()
	if kind == text {
		e.markAnswer()
	}
	e.kind = kind
	e.openBlock()
}

// markAnswer records where the answer itself begins, which follows the searches that it is based
// on. No block is open.
func (e *encoder) markAnswer() {
	if !e.answering {
		e.answering, e.before, e.placeOf = true, len(e.w.Buf), e.index
	}
}

// close ends the open block, if there is one.
func (e *encoder) close() {
	if e.kind == none {
		return
	}
	if e.kind == text {
		e.cite()
	}
	e.closeBlock()
	e.index++
	e.kind, e.signed, e.citing, e.filled, e.hidden = none, false, false, false, nil
}

func (e *encoder) writeText(s string) {
	if s != "" {
		e.to(text)
		e.extend(s)
	}
}

func (e *encoder) think(ev *perigee.Event) {
	if e.answer.Thinking == DisplayNone {
		return
	}
	e.to(thought)
	if e.answer.Thinking == DisplayOmitted {
		e.hidden = append(e.hidden, ev.Text...)
	} else if ev.Text != "" {
		e.extend(ev.Text)
	}
	if ev.Signature != "" {
		e.signThinking(ev.Signature)
	}
}

// redacted writes thinking that only its provider can read. It has a block of its own.
func (e *encoder) redacted(data string) {
	if e.answer.Thinking == DisplayNone || data == "" {
		return
	}
	e.close()
	e.writeRedacted(data)
	e.index++
}

// signThinking gives the open thinking its own signature.
func (e *encoder) signThinking(signature string) {
	if len(e.hidden) > 0 {
		signature = carryThinking(e.hidden, signature)
	}
	e.sign(signature)
}

// toolUse writes a call. Its thought signature goes into the thinking block before it. Where there
// is none, a client that asked for thinking gets an empty one; for all other clients the server
// remembers the signature by the id of the call.
//
// A call of which the pieces were written is ended. Its signature is only remembered.
func (e *encoder) toolUse(ev *perigee.Event) {
	if e.kind == toolCall {
		if !e.filled {
			e.extend(string(callInput(ev.Call.Args)))
		}
		e.close()
		return
	}
	if ev.Signature != "" {
		if (e.kind != thought || e.signed) && (e.answer.Thinking == DisplayFull || e.answer.Thinking == DisplayOmitted) {
			e.to(thought)
		}
		if e.kind == thought && !e.signed {
			e.sign(carryCall(ev.Signature))
		}
	}
	e.use(e.newCall(ev.Call))
}

// newCall begins a call, after the block before it.
func (e *encoder) newCall(call *perigee.FunctionCall) *toolBlock {
	e.close()
	e.markAnswer()
	e.calls++
	id := call.ID
	if id == "" {
		id = "toolu_" + e.answer.ID + "_" + strconv.Itoa(e.calls)
	}
	return &toolBlock{"tool_use", id, call.Name, callInput(call.Args)}
}

// callPiece writes a piece of a call. A message has whole calls.
func (e *encoder) callPiece(ev *perigee.Event) {
	if !e.stream || ev.Call == nil {
		return
	}
	if e.kind != toolCall {
		e.openUse(e.newCall(ev.Call))
		e.kind = toolCall
	}
	if ev.Text != "" {
		e.filled = true
		e.extend(ev.Text)
	}
}

// callInput returns the arguments of a call as the object that clients expect, also if the model
// wrote another value.
func callInput(args []byte) []byte {
	switch {
	case len(args) == 0 || string(args) == "null":
		return []byte("{}")
	case args[0] == '{':
		return args // JSON, as every upstream has seen to
	}
	var w rawjson.Writer
	return w.Object().Key("arguments").String(string(args)).EndObject().Buf
}

// blob writes an image or audio as a link. Images in the thinking are drafts and are left out.
func (e *encoder) blob(ev *perigee.Event) {
	if ev.Thought || ev.Blob == nil {
		return
	}
	url := ""
	if e.answer.SaveImage != nil {
		url = e.answer.SaveImage(ev.Blob.MIME, ev.Blob.Data)
	}
	if url == "" {
		url = dialect.DataURL(ev.Blob)
	}
	e.close()
	e.writeText("![" + ev.Blob.MIME + "](" + url + ")") // in its own block, so that clients find it
	e.close()
}

// head writes the members with which every message begins.
func (e *encoder) head(w *rawjson.Writer) {
	w.Key("id").String("msg_" + e.answer.ID).Members(`"type":"message","role":"assistant"`)
	w.Key("model").String(cmp.Or(e.model, e.answer.Model))
}

// stop returns why the answer ended, and the stop sequence if it was one.
func (e *encoder) stop() (reason, sequence string) {
	if e.finish.Dialect == perigee.DialectAnthropic && e.finish.Reason != "" {
		return e.finish.Reason, e.finish.Stop
	}
	if e.calls > 0 {
		return "tool_use", ""
	}
	if e.finish.Stop != "" {
		return "stop_sequence", e.finish.Stop
	}
	switch e.finish.Kind {
	case perigee.FinishLength:
		return "max_tokens", ""
	case perigee.FinishFiltered:
		return "refusal", ""
	}
	return "end_turn", "" // this API has no reason for malformed answers
}

// writeStop writes why the answer ended. A refusal includes the provider's reason.
func (e *encoder) writeStop(w *rawjson.Writer) {
	reason, sequence := e.stop()
	w.Key("stop_reason").String(reason).Key("stop_sequence").StringOrNull(sequence)
	if reason == "refusal" {
		why := e.finish.Message
		if e.finish.Dialect != perigee.DialectAnthropic {
			why = strings.TrimSuffix(e.finish.Reason+": "+why, ": ")
		}
		w.Key("stop_details").Object().Members(`"type":"refusal","category":null`).Key("explanation").String(why).EndObject()
	}
}

// writeUsage writes the member usage. Tokens read from the provider's cache, and tokens written to
// it, are counted separately. The usage of a message has more members than the usage at the end of a stream.
func writeUsage(w *rawjson.Writer, u *perigee.Usage, searches int, message bool) {
	w.Key("usage").Object().Key("input_tokens").Int(max(0, u.Input-u.Cached-u.Written))
	w.Key("cache_creation_input_tokens").Int(u.Written).Key("cache_read_input_tokens").Int(u.Cached)
	if message {
		w.Key("cache_creation").Object().Key("ephemeral_5m_input_tokens").Int(u.Written - u.WrittenHour)
		w.Key("ephemeral_1h_input_tokens").Int(u.WrittenHour).EndObject()
	}
	w.Key("output_tokens").Int(u.Output)
	if u.Thinking > 0 {
		w.Key("output_tokens_details").Object().Key("thinking_tokens").Int(u.Thinking).EndObject()
	}
	if searches > 0 {
		w.Key("server_tool_use").Object().Key("web_search_requests").Int(int64(searches)).Members(`"web_fetch_requests":0`).EndObject()
	}
	if message {
		w.Members(`"service_tier":"standard"`)
	}
	w.EndObject()
}
