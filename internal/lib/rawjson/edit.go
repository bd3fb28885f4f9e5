package rawjson

import (
	"bytes"
	"fmt"
)

// Find returns the position of the value that is reached from the top of a checked text through the
// object members named by path. With an empty path that is the whole value.
func Find(data []byte, path ...string) (start, end int, ok bool) {
	c := Cursor{data: data}
	return find(&c, path)
}

func find(c *Cursor, path []string) (start, end int, ok bool) {
	if c.Kind() == None {
		return 0, 0, false
	}
	if len(path) == 0 {
		start, end = c.Span()
		return start, end, true
	}
	if c.Kind() != Object {
		return 0, 0, false
	}
	for key := range c.Object() {
		if string(key) == path[0] {
			return find(c, path[1:])
		}
	}
	return 0, 0, false
}

// An Edit replaces data[Start:End] by New. With Start == End it inserts.
type Edit struct {
	Start, End int
	New        []byte
}

// Splice returns a copy of data with the edits made. They are in order and do not overlap; Splice
// panics otherwise.
func Splice(data []byte, edits ...Edit) []byte {
	size := len(data)
	for _, e := range edits {
		size += len(e.New) - (e.End - e.Start)
	}
	out := make([]byte, 0, max(size, 0))
	for _, piece := range Pieces(data, edits...) {
		out = append(out, piece...)
	}
	return out
}

// Pieces returns data with the edits made, in pieces that are not empty. Those that are not new alias
// data, and have no capacity beyond their length. The edits are as for Splice.
func Pieces(data []byte, edits ...Edit) [][]byte {
	list := make([][]byte, 0, 2*len(edits)+1)
	last := 0
	for _, e := range edits {
		if e.Start < last || e.End < e.Start || e.End > len(data) {
			panic(fmt.Sprintf("rawjson: edit of [%d:%d] after %d in %d bytes", e.Start, e.End, last, len(data)))
		}
		if e.Start > last {
			list = append(list, data[last:e.Start:e.Start])
		}
		if len(e.New) > 0 {
			list = append(list, e.New)
		}
		last = e.End
	}
	if last < len(data) {
		list = append(list, data[last:len(data):len(data)])
	}
	return list
}

// A Removal makes the edits that remove values of one object or list, each with its name and one
// comma. The caller calls Drop, or Keep, for each value in order, and sets End after Keep.
type Removal struct {
	Text []byte
	End  int // after the last value, or after the bracket that opens the list

	kept, removed bool
}

// Drop appends the edit that removes the value which ends at an offset.
func (r *Removal) Drop(edits []Edit, end int) []Edit {
	edits = append(edits, Edit{Start: r.End, End: end}) // with the comma before it
	r.End, r.removed = end, true
	return edits
}

// Keep completes the last of the edits for a value that starts at an offset and stays. The caller then
// sets End.
func (r *Removal) Keep(edits []Edit, start int) {
	if r.removed && !r.kept { // the comma before this value separates it from none
		edits[len(edits)-1].End += bytes.IndexByte(r.Text[r.End:start], ',') + 1
	}
	r.kept = true
}
