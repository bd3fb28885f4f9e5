package rawjson

import (
	"strings"
	"unsafe"
)

// A Text is a long text that comes in pieces. It keeps long pieces as they are and copies short ones together, so that gathering costs
// the text once: an array that grows is copied again and again, and leaves several times the text behind as garbage.
type Text struct {
	pieces []string
	last   []byte // what follows them; it never grows beyond what it was made with
	size   int
}

const (
	shortPiece = 4 << 10
	mostPiece  = 256 << 10
)

// Add appends a piece.
func (t *Text) Add(s string) {
	t.size += len(s)
	if len(s) >= shortPiece {
		t.flush()
		t.pieces = append(t.pieces, s)
		return
	}
	if cap(t.last)-len(t.last) < len(s) {
		t.flush()
		t.last = make([]byte, 0, max(len(s), min(t.size, mostPiece))) // small at first: most texts are short
	}
	t.last = append(t.last, s...)
}

func (t *Text) flush() {
	if len(t.last) > 0 {
		t.pieces = append(t.pieces, unsafe.String(&t.last[0], len(t.last))) // its bytes do not change any more
	}
	t.last = nil
}

// Len is how many bytes the text has.
func (t *Text) Len() int { return t.size }

// String returns the whole text.
func (t *Text) String() string {
	t.flush()
	if len(t.pieces) > 1 {
		t.pieces = []string{strings.Join(t.pieces, "")}
	}
	if len(t.pieces) == 0 {
		return ""
	}
	return t.pieces[0]
}

// AppendTo appends the text as a JSON string. Each piece must be valid UTF-8 by itself.
func (t *Text) AppendTo(dst []byte) []byte {
	t.flush()
	dst = append(dst, '"')
	for _, s := range t.pieces {
		dst = AppendInner(dst, s)
	}
	return append(dst, '"')
}

// AppendInner appends s as AppendString does, without the quotes.
func AppendInner(dst []byte, s string) []byte {
	from := len(dst)
	dst = AppendString(dst, s)
	inner := dst[from+1 : len(dst)-1]
	copy(dst[from:], inner)
	return dst[:from+len(inner)]
}
