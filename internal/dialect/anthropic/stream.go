package anthropic

import (
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// A Stream puts one answer on the wire as the events of this API, in their order: message_start, a ping, each
// block as start, deltas and stop, then message_delta and message_stop.
//
// message_start tells how large the request was. The provider says so with its first chunk, but behind the
// content, so the first events are held back while more of the same chunk are at hand, and no longer.
type Stream struct {
	encoder encoder
	begun   bool
	held    []byte
}

// NewStream returns the stream for an answer.
func NewStream(answer *Answer) *Stream {
	return &Stream{encoder: encoder{answer: answer, out: frames{}}}
}

// ContentType is what the answer says it is.
func (s *Stream) ContentType() string { return "text/event-stream; charset=utf-8" }

// Encode appends what an event adds to the answer, which may be nothing.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	if s.begun {
		return s.encoder.event(dst, ev)
	}
	s.held = s.encoder.event(s.held, ev)
	if ev.Kind == perigee.EventUsage || (len(s.held) > 0 && !ev.More) {
		dst = s.begin(dst)
	}
	return dst
}

// begin appends message_start and what was held back until now.
func (s *Stream) begin(dst []byte) []byte {
	e := &s.encoder
	dst = frame(dst, "message_start")
	dst = append(dst, `{"type":"message_start","message":{`...)
	dst = e.appendHead(dst)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	usage := e.usage
	usage.Output, usage.Thinking = max(1, usage.Output), 0 // the official one has always begun to write
	dst = appendUsage(dst, &usage, 0, true)
	dst = append(dst, "}}\n\n"...)
	dst = append(appendPing(dst), s.held...)
	s.begun, s.held = true, nil
	return dst
}

// End appends what closes the answer.
func (s *Stream) End(dst []byte) []byte {
	if !s.begun {
		dst = s.begin(dst)
	}
	e := &s.encoder
	dst = e.end(dst)
	dst = frame(dst, "message_delta")
	dst = append(dst, `{"type":"message_delta","delta":{`...)
	dst = e.appendStop(dst)
	dst = append(dst, `},"usage":`...)
	dst = appendUsage(dst, &e.usage, e.searches, false)
	dst = append(dst, "}\n\n"...)
	dst = frame(dst, "message_stop")
	return append(dst, `{"type":"message_stop"}`+"\n\n"...)
}

// Fail appends an error, after which nothing comes.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	if !s.begun && len(s.held) > 0 {
		dst = s.begin(dst)
	}
	dst = append(frame(dst, "error"), EncodeError(status, err, s.encoder.answer.ID)...)
	return append(dst, "\n\n"...)
}

// Idle appends a sign of life.
func (s *Stream) Idle(dst []byte) []byte { return appendPing(dst) }

func appendPing(dst []byte) []byte {
	return append(frame(dst, "ping"), `{"type":"ping"}`+"\n\n"...)
}

// frame begins an event. Its data is JSON without line ends, so it fits on one line.
func frame(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	return append(dst, "\ndata: "...)
}

// frames is the sink that writes each step of a block as an event.
type frames struct{}

// block begins the data of an event about a block.
func (frames) block(dst []byte, name string, index int) []byte {
	dst = frame(dst, name)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","index":`...)
	return strconv.AppendInt(dst, int64(index), 10)
}

func (f frames) open(dst []byte, index int, kind blockKind) []byte {
	dst = f.block(dst, "content_block_start", index)
	if kind == thought {
		return append(dst, `,"content_block":{"type":"thinking","thinking":"","signature":""}}`+"\n\n"...)
	}
	return append(dst, `,"content_block":{"type":"text","text":""}}`+"\n\n"...)
}

func (f frames) more(dst []byte, index int, kind blockKind, s string) []byte {
	if kind == thought {
		return f.delta(dst, index, `"thinking_delta","thinking":`, s)
	}
	return f.delta(dst, index, `"text_delta","text":`, s)
}

func (f frames) seal(dst []byte, index int, signature string) []byte {
	return f.delta(dst, index, `"signature_delta","signature":`, signature)
}

// delta writes a change that is one string.
func (f frames) delta(dst []byte, index int, kind, s string) []byte {
	dst = f.block(dst, "content_block_delta", index)
	dst = append(dst, `,"delta":{"type":`...)
	dst = append(dst, kind...)
	dst = rawjson.AppendString(dst, s)
	return append(dst, "}}\n\n"...)
}

func (f frames) cite(dst []byte, index int, from *perigee.Source, cited string) []byte {
	dst = f.block(dst, "content_block_delta", index)
	dst = append(dst, `,"delta":{"type":"citations_delta","citation":`...)
	return append(appendCitation(dst, from, cited), "}}\n\n"...)
}

func (f frames) close(dst []byte, index int, _ blockKind) []byte {
	return append(f.block(dst, "content_block_stop", index), "}\n\n"...)
}

func (f frames) call(dst []byte, index int, kind, id, name string, input []byte) []byte {
	dst = f.block(dst, "content_block_start", index)
	dst = append(dst, `,"content_block":{`...)
	dst = appendCall(dst, kind, id, name)
	dst = append(dst, `{}}}`+"\n\n"...)
	dst = f.delta(dst, index, `"input_json_delta","partial_json":`, string(input))
	return f.close(dst, index, none)
}

func (f frames) result(dst []byte, index int, kind, id string, content []byte) []byte {
	dst = f.block(dst, "content_block_start", index)
	dst = append(dst, `,"content_block":`...)
	dst = appendResult(dst, kind, id, content)
	dst = append(dst, "}\n\n"...)
	return f.close(dst, index, none)
}
