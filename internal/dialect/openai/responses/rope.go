package responses

import "slices"

// A rope is a long text in pieces. Texts of answers are kept in ropes, because events repeat them
// and share the pieces then; one growing array would be copied each time it grows, and again for
// each event.
type rope struct {
	pieces [][]byte
	size   int
}

const (
	smallPiece = 4 << 10
	largePiece = 256 << 10
)

// room returns the last piece if it has room for n more bytes, or a new one at the end. The caller
// appends to it and passes it to fill.
func (r *rope) room(n int) []byte {
	if last := len(r.pieces) - 1; last >= 0 && cap(r.pieces[last])-len(r.pieces[last]) >= n {
		return r.pieces[last]
	}
	// Each piece is as long as all before it, within limits, so at most half of the memory is
	// unused.
	r.pieces = append(r.pieces, make([]byte, 0, max(n, min(max(r.size, smallPiece), largePiece))))
	return r.pieces[len(r.pieces)-1]
}

// fill replaces the last piece by the result of appending to it.
func (r *rope) fill(piece []byte) {
	last := len(r.pieces) - 1
	r.size += len(piece) - len(r.pieces[last])
	r.pieces[last] = piece
}

// Write appends a copy of p. It does not fail.
func (r *rope) Write(p []byte) (int, error) {
	appendCopy(r, p)
	return len(p), nil
}

// text appends a text unchanged.
func (r *rope) text(s string) { appendCopy(r, s) }

// appendCopy appends a copy of p, in pieces of at most largePiece.
func appendCopy[T string | []byte](r *rope, p T) {
	for len(p) > 0 {
		n := min(len(p), largePiece)
		r.fill(append(r.room(n), p[:n]...))
		p = p[n:]
	}
}

// raw appends p, and does not copy it if it is long. The caller must not change p after that.
func (r *rope) raw(p []byte) {
	if len(p) < smallPiece {
		appendCopy(r, p)
		return
	}
	r.pieces = append(r.pieces, slices.Clip(p))
	r.size += len(p)
}

// add appends the text of another rope, which must not change after that.
func (r *rope) add(other *rope) {
	for _, piece := range other.pieces {
		r.raw(piece)
	}
}

// item appends an element to the text of a list, after a comma if it is not the first. A rope
// without text is not appended.
func (r *rope) item(other *rope) {
	if other.size == 0 {
		return
	}
	if r.size > 0 {
		r.text(",")
	}
	r.add(other)
}
