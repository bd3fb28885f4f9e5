package responses

import (
	"encoding/json"

	"perigee/internal/dialect/openai"
)

// A room is memory for the answers of tools, which are most of what an agent sends. They live and die together,
// and by themselves each would take up to a quarter more than it needs.
type room struct {
	step int // how much to make at once; the zero value makes none
	free []byte
}

// maxRoomStep is the largest step.
const maxRoomStep = 256 << 10

// newRoom returns room for a conversation of a size.
func newRoom(size int) room { return room{step: min(size/4, maxRoomStep)} }

// wrap returns an object with one member, as openai.Wrap does. What is large gets memory of its own, so that
// little is left over at the end of a step.
func (r *room) wrap(name string, value []byte) json.RawMessage {
	size := len(name) + len(value) + len(`{"":}`)
	if size > r.step/4 {
		return openai.Wrap(name, value)
	}
	if cap(r.free)-len(r.free) < size {
		r.free = make([]byte, 0, r.step)
	}
	from := len(r.free)
	b := append(append(append(r.free, `{"`...), name...), `":`...)
	r.free = append(append(b, value...), '}')
	return r.free[from:len(r.free):len(r.free)]
}
