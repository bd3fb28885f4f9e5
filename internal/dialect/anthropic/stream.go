package anthropic

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A Stream puts one answer on the wire as the events of this API, in their order: message_start, a
// ping, each block as start, deltas and stop, then message_delta and message_stop.
//
// message_start has the input tokens. The provider reports them in its first chunk, but after the
// content, so the first events are held back while more events of the same chunk are available, and
// no longer. The events of a provider that speaks this API pass unchanged.
type Stream struct {
	frames  dialect.Frames
	encoder encoder
	started bool
	pending []byte // events before message_start
}

// NewStream returns the stream for an answer.
func NewStream(answer *Answer) *Stream {
	return &Stream{encoder: encoder{answer: answer, stream: true}, frames: dialect.Frames{Dialect: perigee.DialectAnthropic}}
}

// ContentType returns the Content-Type of the answer.
func (s *Stream) ContentType() string { return "text/event-stream; charset=utf-8" }

// Encode appends the output for an event, which may be empty.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	dst, done := s.frames.Encode(dst, ev)
	if done {
		return dst
	}
	if s.started {
		return s.encode(dst, ev)
	}
	s.pending = s.encode(s.pending, ev)
	if ev.Kind == perigee.EventUsage || (len(s.pending) > 0 && !ev.More) {
		dst = s.begin(dst)
	}
	return dst
}

func (s *Stream) encode(dst []byte, ev *perigee.Event) []byte {
	w := &s.encoder.w
	w.Buf = dst
	s.encoder.event(ev)
	dst, w.Buf = w.Buf, nil
	return dst
}

// begin appends message_start and the events that were held back.
func (s *Stream) begin(dst []byte) []byte {
	w := rawjson.Writer{Buf: dst}
	frame(&w, "message_start").Key("message").Object()
	s.encoder.head(&w)
	w.Members(`"content":[],"stop_reason":null,"stop_sequence":null`)
	usage := s.encoder.usage
	usage.Output, usage.Thinking = max(1, usage.Output), 0 // the official API never sends 0 here
	writeUsage(&w, &usage, 0, true)
	w.Lit("}" + eventEnd + ping)
	dst = append(w.Buf, s.pending...)
	s.started, s.pending = true, nil
	return dst
}

// End appends the end of the answer.
func (s *Stream) End(dst []byte) []byte {
	if s.frames.Framed() {
		return dst
	}
	if !s.started {
		dst = s.begin(dst)
	}
	e := &s.encoder
	e.w.Buf = dst
	e.close()
	e.writeSearches()
	frame(&e.w, "message_delta").Key("delta").Object()
	e.writeStop(&e.w)
	e.w.EndObject()
	writeUsage(&e.w, &e.usage, e.searches, false)
	return frame(e.w.Lit(eventEnd), "message_stop").Lit(eventEnd).Buf
}

// Fail appends an error, after which nothing comes.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	dst, done := s.frames.Fail(dst, err)
	if done {
		return dst
	}
	if !s.started && len(s.pending) > 0 {
		dst = s.begin(dst)
	}
	dst = append(dst, "event: error\ndata: "...)
	return append(append(dst, EncodeError(status, err, s.encoder.answer.ID)...), "\n\n"...)
}

const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// Idle appends a keep-alive.
func (s *Stream) Idle(dst []byte) []byte { return append(dst, ping...) }
