package thoughtsig

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"unicode"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// A textDigest is the digest of a text that comes in pieces, without the white space at its ends,
// which clients trim.
type textDigest struct {
	hash    hash.Hash
	size    int    // of the text so far
	pending []byte // white space that belongs to the text if more follows
	scratch []byte
}

func (d *textDigest) write(text string) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	if d.size == 0 {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	end := len(strings.TrimRightFunc(text, unicode.IsSpace))
	if end > 0 {
		d.scratch = append(append(d.scratch[:0], d.pending...), text[:end]...)
		d.hash.Write(d.scratch)
		d.size += len(d.scratch)
		d.pending = d.pending[:0]
	}
	if d.size > 0 {
		d.pending = append(d.pending, text[end:]...)
	}
}

// sum returns the digest of the text so far. It is valid until the next call.
func (d *textDigest) sum() []byte {
	d.scratch = d.hash.Sum(d.scratch[:0])
	return d.scratch[:16]
}

func (d *textDigest) reset() {
	if d.hash != nil {
		d.hash.Reset()
	}
	d.size, d.pending = 0, d.pending[:0]
}
