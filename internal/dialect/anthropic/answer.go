package anthropic

import (
	"strconv"

	"perigee"
	"perigee/internal/dialect/media"
	"perigee/internal/dialect/search"
	"perigee/internal/rawjson"
)

// A blockKind is what the open block of an answer holds.
type blockKind uint8

const (
	none blockKind = iota
	text
	thought
)

// A sink writes the blocks of an answer, each method appending to dst. Blocks come one after the other:
// opened, filled, closed.
type sink interface {
	open(dst []byte, index int, kind blockKind) []byte
	more(dst []byte, index int, kind blockKind, s string) []byte
	seal(dst []byte, index int, signature string) []byte
	cite(dst []byte, index int, from *perigee.Source, cited string) []byte
	close(dst []byte, index int, kind blockKind) []byte
	call(dst []byte, index int, kind, id, name string, input []byte) []byte
	result(dst []byte, index int, kind, id string, content []byte) []byte
}

// An encoder turns the events of one answer into blocks.
type encoder struct {
	answer *Answer
	out    sink

	model    string
	usage    perigee.Usage
	finish   perigee.Finish
	index    int // of the open block, or of the next one
	kind     blockKind
	sealed   bool   // the open thinking has its signature
	hidden   []byte // the text of the open thinking that the client does not see
	calls    int
	servers  int    // tools of the provider's that were used
	server   string // the id of the last of them
	searches int
	trail    search.Trail
	cited    int // so many of its supports stand on texts already

	spoken  bool // there is more than thinking and searches
	before  int  // where in dst that begins
	placeOf int  // and the index of its first block
}

// event appends what an event adds to the content.
func (e *encoder) event(dst []byte, ev *perigee.Event) []byte {
	if ev.Candidate != 0 {
		return dst // this dialect has one answer
	}
	switch ev.Kind {
	case perigee.EventStart:
		e.model = ev.Model
	case perigee.EventUsage:
		e.usage = *ev.Usage
	case perigee.EventFinish:
		e.finish = *ev.Finish
	case perigee.EventText:
		dst = e.say(dst, ev.Text) // its seal has no place here; the server remembers it by the text
	case perigee.EventThinking:
		dst = e.think(dst, ev)
	case perigee.EventSignature:
		if e.kind == thought && !e.sealed {
			dst = e.seal(dst, ev.Signature)
		}
	case perigee.EventCall:
		dst = e.toolUse(dst, ev)
	case perigee.EventBlob:
		dst = e.blob(dst, ev)
	case perigee.EventPart:
		dst = e.part(dst, ev.Raw)
	case perigee.EventGrounding:
		e.trail.Add(ev.Grounding)
		if !e.spoken { // the model has searched first; else it goes out when the text is
			dst = e.searched(dst)
		}
	}
	return dst
}

// to makes a block of the kind the open one.
func (e *encoder) to(dst []byte, kind blockKind) []byte {
	if e.kind == kind && !e.sealed {
		return dst
	}
	dst = e.close(dst)
	if kind == text {
		e.speak(dst)
	}
	e.kind = kind
	return e.out.open(dst, e.index, kind)
}

// speak notes where the answer itself begins, which the client is told of after the searches that it rests on. No block is open.
func (e *encoder) speak(dst []byte) {
	if !e.spoken {
		e.spoken, e.before, e.placeOf = true, len(dst), e.index
	}
}

// close ends the open block, if there is one.
func (e *encoder) close(dst []byte) []byte {
	if e.kind == none {
		return dst
	}
	if e.kind == text {
		dst = e.cite(dst)
	}
	dst = e.out.close(dst, e.index, e.kind)
	e.index++
	e.kind, e.sealed, e.hidden = none, false, nil
	return dst
}

func (e *encoder) say(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	dst = e.to(dst, text)
	return e.out.more(dst, e.index, text, s)
}

func (e *encoder) think(dst []byte, ev *perigee.Event) []byte {
	if e.answer.Thinking == DisplayNone {
		return dst
	}
	dst = e.to(dst, thought)
	if e.answer.Thinking == DisplayOmitted {
		e.hidden = append(e.hidden, ev.Text...)
	} else if ev.Text != "" {
		dst = e.out.more(dst, e.index, thought, ev.Text)
	}
	if ev.Signature != "" {
		dst = e.seal(dst, ev.Signature)
	}
	return dst
}

// seal puts its own signature on the open thinking.
func (e *encoder) seal(dst []byte, signature string) []byte {
	if len(e.hidden) > 0 {
		signature = carryThinking(e.hidden, signature)
	}
	e.sealed = true
	return e.out.seal(dst, e.index, signature)
}

// toolUse writes a call. Its seal goes into the thinking before it; where there is none, a client that asked
// for thinking gets an empty one, and for the others the server remembers the seal by the id of the call.
func (e *encoder) toolUse(dst []byte, ev *perigee.Event) []byte {
	if ev.Signature != "" {
		if (e.kind != thought || e.sealed) && (e.answer.Thinking == DisplayFull || e.answer.Thinking == DisplayOmitted) {
			dst = e.to(dst, thought)
		}
		if e.kind == thought && !e.sealed {
			dst = e.out.seal(dst, e.index, carryCall(ev.Signature))
		}
	}
	dst = e.close(dst)
	e.speak(dst)
	e.calls++
	id := ev.Call.ID
	if id == "" {
		id = "toolu_" + e.answer.ID + "_" + strconv.Itoa(e.calls)
	}
	dst = e.out.call(dst, e.index, "tool_use", id, ev.Call.Name, callInput(ev.Call.Args))
	e.index++
	return dst
}

// callInput is the arguments of a call as clients must get them: an object, whatever the model wrote.
func callInput(args []byte) []byte {
	switch {
	case len(args) == 0 || string(args) == "null":
		return []byte("{}")
	case args[0] == '{':
		return args // JSON, as every upstream has seen to
	}
	wrapped := rawjson.AppendString([]byte(`{"arguments":`), string(args))
	return append(wrapped, '}')
}

// blob writes an image or a sound as a link. Pictures that belong to the thinking are only steps on the way.
func (e *encoder) blob(dst []byte, ev *perigee.Event) []byte {
	if ev.Thought || ev.Blob == nil {
		return dst
	}
	url := ""
	if e.answer.SaveImage != nil {
		url = e.answer.SaveImage(ev.Blob.MIME, ev.Blob.Data)
	}
	if url == "" {
		url = media.URL(ev.Blob)
	}
	dst = e.say(e.close(dst), "!["+ev.Blob.MIME+"]("+url+")") // in a block of its own, so that clients find it
	return e.close(dst)
}

// end appends what can only be said after everything else.
func (e *encoder) end(dst []byte) []byte { return e.searched(e.close(dst)) }

// stop says why the answer ended, and with which stop sequence if it was one.
func (e *encoder) stop() (reason, sequence string) {
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
	return "end_turn", "" // this API has no word for mishaps
}
