package rawjson

import "fmt"

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
	size, last := len(data), 0
	for _, e := range edits {
		if e.Start < last || e.End < e.Start || e.End > len(data) {
			panic(fmt.Sprintf("rawjson: edit of [%d:%d] after %d in %d bytes", e.Start, e.End, last, len(data)))
		}
		size += len(e.New) - (e.End - e.Start)
		last = e.End
	}
	out := make([]byte, 0, size)
	last = 0
	for _, e := range edits {
		out = append(out, data[last:e.Start]...)
		out = append(out, e.New...)
		last = e.End
	}
	return append(out, data[last:]...)
}
