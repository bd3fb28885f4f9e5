package rawjson

import (
	"strings"
	"unsafe"
)

// A Text is a long text that comes in pieces. It keeps references to long pieces and copies short
// ones together, so that gathering costs the text once: an array that grows is copied again and
// again, and leaves several times the text behind as garbage.
type Text struct {
	pieces []string
	last   []byte // the text after them; it never grows beyond its first capacity
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
		// The first buffers are small, because most texts are short.
		t.last = make([]byte, 0, max(len(s), min(t.size, mostPiece)))
	}
	t.last = append(t.last, s...)
}

func (t *Text) flush() {
	if len(t.last) > 0 {
		t.pieces = append(t.pieces, unsafe.String(&t.last[0], len(t.last))) // its bytes do not change any more
	}
	t.last = nil
}

// Len returns how many bytes the text has.
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

// A LineJoiner makes one JSON string of texts with line ends between them. Texts are escaped when
// they are added: if they were joined first, they would be in memory twice.
type LineJoiner struct {
	json  []byte
	texts int
}

// NewLineJoiner returns an empty text with room for size bytes.
func NewLineJoiner(size int) *LineJoiner {
	return &LineJoiner{json: append(make([]byte, 0, size+2), '"')}
}

// Add appends a text, which may be escaped.
func (j *LineJoiner) Add(text string, escaped bool) {
	if j.texts++; j.texts > 1 {
		j.json = append(j.json, `\n`...)
	}
	if escaped {
		j.json = append(j.json, text...)
	} else {
		j.json = AppendInner(j.json, text)
	}
}

// JSON returns the string with its quotes.
func (j *LineJoiner) JSON() []byte { return append(j.json, '"') }
