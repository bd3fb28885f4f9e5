package responses

import (
	"encoding/binary"

	"perigee/internal/lib/sse"
)

// A framing separates the events of an answer on the wire. The JSON of an event is written between
// the output of begin and end. The zero value writes server-sent events: the JSON has no line ends,
// so it fits on one line.
type framing struct {
	messages bool   // the events are messages of a WebSocket, each with its length before it
	stream   string // the name of the stream of the messages; empty if it has none
}

// lengthSize is how many bytes the length of a message takes.
const lengthSize = 4

func (f framing) begin(dst []byte, name string) []byte {
	if f.messages {
		return append(dst, make([]byte, lengthSize)...)
	}
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	return append(dst, "\ndata: "...)
}

// end ends an event; from is the length of dst before begin.
func (f framing) end(dst []byte, from int) []byte {
	if !f.messages {
		return append(dst, "\n\n"...)
	}
	if f.stream != "" {
		dst = append(dst[:len(dst)-1], `,"stream_id":"`...)
		dst = append(append(dst, f.stream...), `"}`...) // it has no letters to escape
	}
	binary.BigEndian.PutUint32(dst[from:], uint32(len(dst)-from-lengthSize))
	return dst
}

// idle appends a keep-alive. Sockets have keep-alives of their own.
func (f framing) idle(dst []byte) []byte {
	if f.messages {
		return dst
	}
	return append(dst, sse.KeepAlive...)
}

// CutMessage splits the first message off the output of a stream of messages.
func CutMessage(p []byte) (message, rest []byte) {
	end := lengthSize + int(binary.BigEndian.Uint32(p))
	return p[lengthSize:end], p[end:]
}
