package rawjson

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"unsafe"
)

// A Document is a text that passed CheckCount. Its cursors know where long values end, so that the
// bytes of such a value are looked at once, when the text is checked.
type Document struct {
	Count Count
	data  []byte
	ends  []span
	names nameFilter
}

// A span is the position of a value in the text.
type span struct{ start, end uint32 }

// longValue is the number of bytes from which the end of a value is remembered, in eight bytes.
// There is at most one such value for each longValue bytes of the text; a Cursor searches for the
// ends of all further values.
const longValue = 128

// Open is CheckCount, and calls visit, which may be nil, with each member of the object that data
// is. It may find an error after it has called visit.
func Open(data []byte, visit func(m Member)) (*Document, error) {
	k := checkers.Get().(*checker)
	k.naming, k.names = true, nameFilter{}
	if uint64(len(data)) <= math.MaxUint32 {
		k.longest = len(data) / longValue
		if likely := k.longest / 4; likely > usual { // about what agents send
			k.ends = make([]span, 0, likely)
		}
	}
	count, err := k.check(data, true, visit)
	d := &Document{Count: count, data: data, ends: k.ends, names: k.names}
	if cap(k.ends) <= usual { // the memory in which it has grown is for the next text
		d.ends = slices.Clone(k.ends)
	}
	k.longest, k.naming = 0, false
	k.release()
	return d, err
}

// Cursor returns a Cursor before the one value of the text.
func (d *Document) Cursor() *Cursor { return &Cursor{data: d.data, ends: d.ends} }

// Value returns a Cursor before a value. The value may be a part of the text, such as the value of a
// Member, or any other one.
func (d *Document) Value(raw []byte) *Cursor {
	c := NewCursor(raw)
	if len(raw) < longValue || d == nil {
		return c
	}
	if at, ends := d.find(raw); ends != nil {
		c.base, c.ends = at, ends
	}
	return c
}

// find returns where a value is in the text, and the remembered values from there on. They are nil if
// it is not a part of the text.
func (d *Document) find(raw []byte) (at int, ends []span) {
	offset := uintptr(unsafe.Pointer(unsafe.SliceData(raw))) - uintptr(unsafe.Pointer(unsafe.SliceData(d.data)))
	if offset >= uintptr(len(d.data)) {
		return 0, nil
	}
	from, _ := slices.BinarySearchFunc(d.ends, uint32(offset), func(s span, at uint32) int { return cmp.Compare(s.start, at) })
	return int(offset), d.ends[from:]
}

// Short yields the text of a value, without most of its strings of 128 bytes and more. All names of
// members up to that length are in one piece. The value may be a part of the text, or any other one.
func (d *Document) Short(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		done := 0
		if at, ends := d.find(raw); len(raw) >= longValue {
			for _, s := range ends {
				start, end := int(s.start)-at, int(s.end)-at
				if end > len(raw) {
					break
				}
				if raw[start] != '"' {
					continue
				}
				if !yield(raw[done:start]) {
					return
				}
				done = end
			}
		}
		yield(raw[done:])
	}
}

// Index returns the document that index is, or nil, which knows nothing of any text.
func Index(index any) *Document {
	d, _ := index.(*Document)
	return d
}

// skip returns the offset after the value that starts at i. Offsets of calls for one Cursor do not
// decrease.
func (c *Cursor) skip(i int) int {
	at := c.base + i
	for len(c.ends) > 0 && int(c.ends[0].start) < at {
		c.ends = c.ends[1:]
	}
	if len(c.ends) > 0 && int(c.ends[0].start) == at {
		return min(int(c.ends[0].end)-c.base, len(c.data))
	}
	return skipValue(c.data, i)
}

// begin remembers that a value starts at i. Values are remembered in the order in which they start;
// a container is, before it is known to be long.
func (k *checker) begin(i int) {
	if len(k.ends) >= k.longest {
		k.begun = append(k.begun, -1)
		return
	}
	k.begun = append(k.begun, len(k.ends))
	k.ends = append(k.ends, span{start: uint32(i)})
}

// finish is called at the end of the container that began last.
func (k *checker) finish(end int) {
	last := len(k.begun) - 1
	mark := k.begun[last]
	k.begun = k.begun[:last]
	if mark < 0 {
		return
	}
	if s := &k.ends[mark]; end-int(s.start) >= longValue {
		s.end = uint32(end)
	} else {
		k.ends = k.ends[:mark] // it has no long value in it
	}
}
