package thoughtsig

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"hash/maphash"
	"strings"
	"sync"
	"unicode"

	"perigee"
	"perigee/internal/lib/rawjson"
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

// A textSum identifies a text by its size and digest, both without the white space at its ends. The
// size is 0 if there is nothing else.
type textSum struct {
	size   int
	digest [16]byte
}

// sum returns the size and digest of the text so far.
func (d *textDigest) sum() textSum {
	s := textSum{size: d.size}
	if d.size > 0 {
		d.scratch = d.hash.Sum(d.scratch[:0])
		copy(s.digest[:], d.scratch)
	}
	return s
}

func (d *textDigest) reset() {
	if d.hash != nil {
		d.hash.Reset()
	}
	d.size, d.pending = 0, d.pending[:0]
}

// A sumCache holds the sums of texts that requests had, by a fast hash of the text. Each request of
// a conversation repeats its texts, and the hash takes a small part of the time of the digest,
// without copying the text. It has 64 bits and a random seed, so that no client can make two texts
// with the same hash. A sumCache is safe for concurrent use.
type sumCache struct {
	seed maphash.Seed
	mu   sync.Mutex
	// slots has pairs: a text is in one of the two slots of its pair, and replaces the text that was
	// added there earlier.
	slots []sumSlot
}

type sumSlot struct {
	hash uint64
	textSum
}

// sumSlots is the number of texts in a sumCache, which takes 512 KiB: eight conversations with
// 2,000 texts each.
const sumSlots = 1 << 14

// sum returns the sum of a text. It uses d, in any state, for a text that is not in the cache.
func (c *sumCache) sum(t perigee.Text, d *textDigest) textSum {
	text, escaped := t.Form()
	hash := maphash.String(c.seed, text)
	if escaped { // the plain text with the same bytes is another one
		hash = ^hash
	}
	if s, ok := c.get(hash); ok {
		return s
	}
	s := d.of(rawjson.Unescaped(text, escaped))
	c.put(sumSlot{hash, s})
	return s
}

func (c *sumCache) get(hash uint64) (s textSum, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == nil {
		return s, false
	}
	at := hash % sumSlots
	for _, slot := range [...]*sumSlot{&c.slots[at], &c.slots[at^1]} {
		if slot.hash == hash {
			return slot.textSum, true
		}
	}
	return s, false
}

func (c *sumCache) put(s sumSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == nil {
		c.slots = make([]sumSlot, sumSlots)
	}
	at := s.hash % sumSlots
	c.slots[at^1] = c.slots[at]
	c.slots[at] = s
}

// of returns the sum of one text.
func (d *textDigest) of(text string) textSum {
	d.reset()
	d.write(text)
	return d.sum()
}
