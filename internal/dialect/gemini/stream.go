package gemini

import (
	"perigee"
	"perigee/internal/sse"
)

// A Stream puts the chunks of one answer on the wire: as events when the client asked for alt=sse, as the
// elements of one JSON array otherwise. Both are the provider's own framing, down to the line ends.
type Stream struct {
	SSE bool
	// Bare leaves out what is no event: Google's own libraries take a comment for a broken answer, and Gemini CLI asks again.
	Bare bool

	framed  bool // the provider's own chunks go out, and everything is in them
	encoder encoder
	open    bool // the array has its bracket
	chunk   []byte
}

// ContentType is what the answer says it is.
func (s *Stream) ContentType() string {
	if s.SSE {
		return "text/event-stream"
	}
	return "application/json; charset=utf-8"
}

// Encode appends what an event adds to the answer, which may be nothing.
func (s *Stream) Encode(dst []byte, ev *perigee.Event) []byte {
	switch {
	case ev.Kind == perigee.EventFrame:
		s.framed = true
		return s.write(dst, ev.Frame)
	case s.framed:
		return dst
	}
	s.chunk = s.encoder.encode(s.chunk[:0], ev)
	return s.write(dst, s.chunk)
}

// End appends what closes the answer.
func (s *Stream) End(dst []byte) []byte {
	if !s.framed {
		dst = s.write(dst, s.encoder.close(s.chunk[:0]))
	}
	return s.close(dst)
}

// Fail appends an error and closes the answer.
func (s *Stream) Fail(dst []byte, status int, err *perigee.Error) []byte {
	return s.close(s.write(dst, EncodeError(status, err)))
}

// Idle appends a sign of life that means nothing: a comment, or white space between events, or between elements.
func (s *Stream) Idle(dst []byte) []byte {
	switch {
	case s.SSE && s.Bare:
		return append(dst, "\r\n\r\n"...)
	case s.SSE:
		return sse.AppendComment(dst, "keep-alive", true)
	}
	return append(dst, '\n')
}

func (s *Stream) write(dst, chunk []byte) []byte {
	switch {
	case len(chunk) == 0:
		return dst
	case s.SSE:
		return sse.AppendEvent(dst, "", chunk, true)
	case s.open:
		dst = append(dst, ",\r\n"...)
	default:
		dst = append(dst, '[')
		s.open = true
	}
	return append(dst, chunk...)
}

func (s *Stream) close(dst []byte) []byte {
	if s.SSE {
		return dst
	}
	if !s.open {
		dst = append(dst, '[')
	}
	return append(dst, "]\r\n"...)
}
