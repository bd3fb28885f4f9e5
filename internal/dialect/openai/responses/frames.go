package responses

import (
	"encoding/binary"

	"perigee/internal/lib/sse"
)

// A framing separates the events of an answer on the wire. The JSON of an event is written between
// the output of its methods.
type framing interface {
	begin(dst []byte, name string) []byte
	end(dst []byte, from int) []byte // from is where begin began
	idle(dst []byte) []byte          // a keep-alive
	cuttable() bool                  // an event may be handed on in pieces; otherwise only between events
}

// eventFrames are server-sent events. The JSON has no line ends, so it fits on one line.
type eventFrames struct{}

func (eventFrames) begin(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	return append(dst, "\ndata: "...)
}

func (eventFrames) end(dst []byte, _ int) []byte { return append(dst, "\n\n"...) }

func (eventFrames) cuttable() bool { return true }

func (eventFrames) idle(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive", false) }

// messageFrames are the messages of a WebSocket, each with its length before it. They have the name
// of their stream, if it has one.
type messageFrames struct{ stream string }

// lengthSize is how many bytes the length of a message takes.
const lengthSize = 4

func (messageFrames) begin(dst []byte, _ string) []byte {
	return append(dst, make([]byte, lengthSize)...)
}

func (m messageFrames) end(dst []byte, from int) []byte {
	if m.stream != "" {
		dst = append(dst[:len(dst)-1], `,"stream_id":"`...)
		dst = append(append(dst, m.stream...), `"}`...) // it has no letters to escape
	}
	binary.BigEndian.PutUint32(dst[from:], uint32(len(dst)-from-lengthSize))
	return dst
}

func (messageFrames) cuttable() bool { return false }

// idle is nothing: a socket has signs of life of its own.
func (messageFrames) idle(dst []byte) []byte { return dst }

// CutMessage splits the first message off the output of a stream of messages.
func CutMessage(p []byte) (message, rest []byte) {
	end := lengthSize + int(binary.BigEndian.Uint32(p))
	return p[lengthSize:end], p[end:]
}
