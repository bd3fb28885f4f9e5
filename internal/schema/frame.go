package schema

import (
	"slices"
	"strconv"
)

// A frame is one schema of the result while it is put together from everything in the input that speaks about it: a
// node, what it refers to, what it is merged with. Where two speak about the same, the first one counts.
type frame struct {
	order []word           // in which the keywords came
	val   [wordCount]int32 // plain keywords, and those that become hints

	kinds     []kind
	nullable  bool
	nullNamed bool // null was one of the types
	sees      bool // it has a reference that was not followed

	base   int32  // the description
	hints  []byte // what is added to it, see hint
	hinted int
	unsaid bool // there was no room for a hint

	enum     []int32
	enumDone bool

	props    []prop
	byName   map[string]int32
	required []name
	group    int32 // counts the unions whose branches voted for required properties

	items []source
	tuple bool
}

// A prop is a property of the object that a frame is.
type prop struct {
	key  int32 // the member that has its name; 0 is the placeholder
	src  source
	more []source

	group, branch, votes int32 // see votes
	required             bool
}

// A name is where the name of a property stands: the place of a string, or below zero that of a member called so. Zero
// is the placeholder.
type name int32

// named returns the name itself.
func (c *cleaner) named(n name) []byte {
	switch {
	case n > 0:
		return c.text(int32(n))
	case n < 0:
		return c.nameOf(int32(-n))
	}
	return []byte(placeholder)
}

// A source is a place in the input that speaks about a schema, and the references that led to it.
type source struct {
	node  int32
	chain *link
	alt   bool // one of several alternatives, not something that holds anyway
}

func (c *cleaner) frame(depth int) *frame {
	for len(c.frames) <= depth {
		c.frames = append(c.frames, new(frame))
	}
	f := c.frames[depth]
	f.release()
	return f
}

// release makes the frame ready for another schema.
func (f *frame) release() {
	for _, w := range f.order {
		f.val[w] = 0
	}
	f.order, f.kinds, f.hints, f.enum = f.order[:0], f.kinds[:0], f.hints[:0], f.enum[:0]
	f.props, f.required, f.items = f.props[:0], f.required[:0], f.items[:0]
	f.nullable, f.nullNamed, f.sees, f.enumDone, f.tuple, f.unsaid = false, false, false, false, false, false
	f.base, f.hinted, f.group, f.byName = 0, 0, 0, nil
	if cap(f.props) > 256 || cap(f.enum) > 1024 {
		f.props, f.enum, f.required = nil, nil, nil
	}
}

// mention gives a keyword its place in the result.
func (f *frame) mention(w word) {
	if !slices.Contains(f.order, w) {
		f.order = append(f.order, w)
	}
}

// fewNames is up to how many names comparing one by one is faster than a map.
const fewNames = 16

// find returns the index of the property called name, or -1.
func (c *cleaner) find(f *frame, wanted []byte) int {
	if len(f.props) <= fewNames {
		for i := range f.props {
			if string(c.named(-name(f.props[i].key))) == string(wanted) {
				return i
			}
		}
		return -1
	}
	if f.byName == nil {
		f.byName = make(map[string]int32, len(f.props))
	}
	for i := len(f.byName); i < len(f.props); i++ {
		f.byName[string(c.named(-name(f.props[i].key)))] = int32(i)
	}
	if i, ok := f.byName[string(wanted)]; ok {
		return int(i)
	}
	return -1
}

// add takes a property. One that is there already gets another source.
func (c *cleaner) add(f *frame, s source, fresh bool) {
	if !fresh {
		if i := c.find(f, c.nameOf(s.node)); i >= 0 {
			if s.node != f.props[i].src.node {
				f.props[i].more = append(f.props[i].more, s)
			}
			return
		}
	}
	f.props = append(f.props, prop{key: s.node, src: s})
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
