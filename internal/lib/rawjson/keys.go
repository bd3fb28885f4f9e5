package rawjson

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// A key is the position of a member name in the text, without its quotes.
type key struct {
	start int
	end   int    // ^end when the name contains escapes
	tag   uint64 // equal names without escapes have equal tags
}

// Keys of objects that are still open are kept, 100 bytes for each while the list grows and the
// table is filled. So there may be manyKeys of them, or one for each keyBytes bytes of the text.
const (
	manyKeys = 1 << 18
	keyBytes = 64
)

func newKey(data []byte, start, end int, escaped bool) key {
	if escaped {
		return key{start: start, end: ^end}
	}
	return key{start: start, end: end, tag: keyTag(data, start, end)}
}

// keyTag returns a fingerprint that costs next to nothing: the name itself if it has at most eight
// bytes, otherwise a mixture of both its ends.
func keyTag(data []byte, start, end int) uint64 {
	n := end - start
	if n >= 8 {
		head := binary.LittleEndian.Uint64(data[start:])
		tail := binary.LittleEndian.Uint64(data[end-8:])
		return head ^ bits.RotateLeft64(tail, 29) ^ uint64(n)
	}
	if start+8 <= len(data) {
		return binary.LittleEndian.Uint64(data[start:]) & (1<<(8*n) - 1)
	}
	var tag uint64
	for _, c := range data[start:end] {
		tag = tag<<8 | uint64(c)
	}
	// The last few bytes of a text: the same order as above, so that equal names keep equal tags.
	return bits.ReverseBytes64(tag) >> (64 - 8*n)
}

// fewKeys is up to how many names comparing each with each is faster than a hash table.
const fewKeys = 16

// duplicate returns the index of the first of keys[from:to] that repeats an earlier one of them, or
// -1. It runs when an object ends, because then its names lie side by side and one table serves all
// objects.
func (k *checker) duplicate(from, to int) int {
	keys := k.keys[from:to]
	if len(keys) > fewKeys {
		return k.duplicateOfMany(from, to)
	}
	for i := range keys {
		if keys[i].end < 0 {
			return k.duplicateOfMany(from, to)
		}
		for j := range i {
			if keys[i].tag == keys[j].tag && string(k.name(keys[i])) == string(k.name(keys[j])) {
				return from + i
			}
		}
	}
	return -1
}

// duplicateOfMany is duplicate for large objects and for escaped names. The hash is seeded, so that
// a request cannot have a million names that fall into one slot.
func (k *checker) duplicateOfMany(from, to int) int {
	size := 1 << bits.Len(uint(2*(to-from)))
	if size > cap(k.table) {
		k.table = make([]uint32, size)
	}
	table := k.table[:size]
	clear(table)
	mask := uint64(size - 1)
	for i := from; i < to; i++ {
		name := k.name(k.keys[i])
		hash := maphash.Bytes(k.seed, name)
		slot := hash & mask
		for table[slot] != 0 {
			if other := k.keys[from+int(table[slot])-1]; other.tag == hash && k.sameName(k.keys[i], other) {
				return i
			}
			slot = (slot + 1) & mask
		}
		table[slot] = uint32(i - from + 1)
		k.keys[i].tag = hash
	}
	return -1
}

// sameName compares two names. It may allocate, as it is called when they are almost certainly
// equal.
func (k *checker) sameName(a, b key) bool {
	name := bytes.Clone(k.name(a))
	return bytes.Equal(name, k.name(b))
}

// name returns the unescaped name. It may be overwritten by the next call.
func (k *checker) name(key key) []byte {
	if key.end >= 0 {
		return k.data[key.start:key.end]
	}
	k.scratch = appendUnescaped(k.scratch[:0], k.data[key.start:^key.end])
	return k.scratch
}

func (k *checker) failDuplicate(index int) int {
	return k.fail(k.keys[index].start-1, "duplicate key "+quoteShort(k.name(k.keys[index])))
}

// preferEarlierDuplicate replaces the error by a duplicate name that comes before it in an object
// that was still open, and therefore not checked yet.
func (k *checker) preferEarlierDuplicate() {
	to := len(k.keys)
	found := -1
	for level := len(k.open) - 1; level >= 0; level-- {
		from := k.open[level]
		if from == inArray {
			continue
		}
		if again := k.duplicate(from, to); again >= 0 {
			found = again // comes before those in inner objects, which are still open
		}
		to = from
	}
	if found >= 0 && k.keys[found].start < k.badOffset {
		k.failDuplicate(found)
	}
}
