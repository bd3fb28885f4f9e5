package gemini

import (
	"perigee"
	"perigee/internal/lib/sse"
)

// A Stream puts the chunks of one answer on the wire: as events when the client asked for alt=sse,
// as the elements of one JSON array otherwise. Both are the provider's own framing, down to the
// line ends.
type Stream struct {
	SSE bool

	framed  bool // the provider's own chunks go out, and everything is in them
	encoder encoder
	open    bool // the array has its bracket
	filled  bool // and an element
	chunk   []byte
}

// ContentType returns the Content-Type of the answer.
func (s *Stream) ContentType() string {
	if s.SSE {
		return "text/event-stream"
	}
	return "application/json; charset=utf-8"
}

// Encode appends the output for an event, which may be empty.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	switch {
	case ev.Kind == perigee.EventFrame && ev.Dialect != perigee.DialectGemini:
		return dst
	case ev.Kind == perigee.EventFrame:
		s.framed = true
		return s.write(dst, ev.Frame)
	case s.framed:
		return dst
	}
	s.chunk = s.encoder.encode(s.chunk[:0], ev)
	return s.write(dst, s.chunk)
}

// End appends the end of the answer.
func (s *Stream) End(dst []byte) []byte {
	if !s.framed {
		dst = s.write(dst, s.encoder.close(s.chunk[:0]))
	}
	return s.close(dst)
}

// Fail appends an error as the last event or element. The array stays open, because a reader
// without error handling must not treat it as a complete answer: Google's REST libraries report an
// unfinished stream.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	return s.write(dst, EncodeError(status, err))
}

// RepeatError appends the error of Fail a second time, without framing, where events were asked
// for. @google/genai before 2.0, @google/generative-ai and libraries based on them treat an event
// without candidates as an empty chunk, and the end of the stream as the end of the answer. They
// throw the error that a read consists of, and fail on bytes left over at the end; sent a moment
// later, the object is such a read. To readers of event streams the line is an unknown field, which
// they ignore.
func (s *Stream) RepeatError(dst []byte, status int, err *perigee.Error) []byte {
	if !s.SSE {
		return dst
	}
	return append(dst, EncodeError(status, err)...)
}

// Idle appends a keep-alive: an empty chunk, or white space between the elements of the array. An
// event stream has comments for this, but Google's libraries take them, and blank lines, for a
// broken answer.
func (s *Stream) Idle(dst []byte) []byte {
	if s.SSE {
		return sse.AppendEvent(dst, []byte("{}"), true)
	}
	return append(s.bracket(dst), '\n')
}

func (s *Stream) write(dst, chunk []byte) []byte {
	switch {
	case len(chunk) == 0:
		return dst
	case s.SSE:
		return sse.AppendEvent(dst, chunk, true)
	case s.filled:
		dst = append(dst, ",\r\n"...)
	}
	dst, s.filled = s.bracket(dst), true
	return append(dst, chunk...)
}

// bracket opens the array, before anything else: a reader may look for the bracket in the first
// byte.
func (s *Stream) bracket(dst []byte) []byte {
	if s.open {
		return dst
	}
	s.open = true
	return append(dst, '[')
}

func (s *Stream) close(dst []byte) []byte {
	if s.SSE {
		return dst
	}
	return append(s.bracket(dst), "]\r\n"...)
}
