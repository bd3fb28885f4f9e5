package schema

import (
	"bytes"

	"perigee/internal/rawjson"
)

// A place is where a schema stands, which decides what it must have.
type place uint8

const (
	inside place = iota
	top          // of a tool's parameters
)

// maxDepth is the level below which nothing is put together any more; what is cut there may still have a placeholder one
// level further down. The provider reads a hundred messages deep, and the tool around the schema takes some of them.
const maxDepth = 90

// dirty is what accepted says of a node that has to be changed; its memory of others starts from 1.
const dirty = -1

// accepted says whether the provider takes the node exactly as it stands, and if so how many schemas stand inside each
// other in it. Whatever emit writes is accepted: that is what makes cleaning twice the same as cleaning once.
func (c *cleaner) accepted(i int32, at place) int {
	n := &c.nodes[i]
	if n.kind != rawjson.Object {
		return dirty
	}
	if at == inside && n.height != 0 {
		return max(int(n.height)-1, dirty)
	}
	height := c.acceptedNode(n, at)
	if at == inside {
		if n.height = int16(height + 1); height == dirty {
			n.height = dirty
		}
	}
	return height
}

// seen are the members of a node that have to fit each other.
type seen struct {
	kind                                              kind
	description, enum, properties, required, ordering int32
	format                                            int32
	items                                             bool
	height                                            int
}

func (c *cleaner) acceptedNode(n *node, at place) int {
	c.visits += 1 + int(n.count)
	var s seen
	for i := n.first; i != 0; i = c.nodes[i].next {
		if !c.acceptedMember(&s, i) {
			return dirty
		}
	}
	object, array := s.kind == kindObject, s.kind == kindArray
	switch {
	case s.kind == kindUnknown,
		at == top && !object,
		s.items != array,
		!object && (s.properties != 0 || s.required != 0 || s.ordering != 0),
		s.format != 0 && !formatFits(s.kind, c.text(s.format)),
		s.enum != 0 && !c.acceptedEnum(&s),
		s.required != 0 && !c.namesExist(s.properties, s.required),
		s.ordering != 0 && !c.namesExist(s.properties, s.ordering),
		object && !c.acceptedObject(&s, at):
		return dirty
	}
	return s.height
}

// acceptedMember looks at one member by itself.
func (c *cleaner) acceptedMember(s *seen, i int32) bool {
	n := &c.nodes[i]
	if n.marks&aliased != 0 {
		return false
	}
	switch n.word {
	case wType:
		s.kind = n.named
		return n.marks&exact != 0
	case wDescription:
		s.description = i
		return n.kind == rawjson.String
	case wNullable:
		return n.kind == rawjson.Bool
	case wEnum:
		s.enum = i
		return n.kind == rawjson.Array
	case wProperties:
		s.properties = i
		return n.kind == rawjson.Object && c.acceptedProperties(s, n)
	case wRequired:
		s.required = i
		return n.kind == rawjson.Array
	case wItems:
		s.items = true
		return s.deeper(c.accepted(i, inside))
	case wPropertyOrdering:
		s.ordering = i
	case wFormat:
		s.format = i
	}
	return c.kept(n.word) && c.fits(n.word, i)
}

func (c *cleaner) acceptedProperties(s *seen, n *node) bool {
	for i := n.first; i != 0; i = c.nodes[i].next {
		if !s.deeper(c.accepted(i, inside)) {
			return false
		}
	}
	return true
}

// deeper counts the level of something inside, and passes on whether it is accepted.
func (s *seen) deeper(height int) bool {
	if height == dirty {
		return false
	}
	s.height = max(s.height, height+1)
	return true
}

func (c *cleaner) acceptedEnum(s *seen) bool {
	n := &c.nodes[s.enum]
	if n.count == 0 || !c.enumFits(s.kind) {
		return false
	}
	var base []byte
	if s.description != 0 {
		raw := c.raw(s.description)
		base = raw[1 : len(raw)-1]
	}
	if len(base) == 0 {
		return false // the values are not in words
	}
	values := c.values[:0]
	for i := n.first; i != 0; i = c.nodes[i].next {
		if c.nodes[i].kind != rawjson.String || c.nodes[i].end-c.nodes[i].start == 2 {
			return false
		}
		values = append(values, i)
	}
	c.values = values[:0]
	if len(c.distinct(values)) != len(values) {
		return false
	}
	text, _ := c.listed(allowed, values, mostAllowed)
	if !isPlain(text) {
		text = rawjson.AppendString(nil, string(text))
		text = text[1 : len(text)-1]
	}
	return said(base, text)
}

// acceptedObject asks for the properties that the provider asks for, see wantsPlaceholder.
func (c *cleaner) acceptedObject(s *seen, at place) bool {
	properties := s.properties != 0 && c.nodes[s.properties].count > 0
	if s.properties != 0 && !properties {
		return false // empty ones are not written
	}
	required := s.required != 0 && c.nodes[s.required].count > 0
	return !c.wantsPlaceholder(at, properties, required)
}

// namesExist says whether a list is not empty and has nothing but names of properties, each once.
func (c *cleaner) namesExist(properties, list int32) bool {
	n := &c.nodes[list]
	if properties == 0 || n.kind != rawjson.Array || n.count == 0 || n.count > c.nodes[properties].count {
		return false
	}
	if c.nodes[properties].count > fewNames {
		return c.namesExistAmongMany(properties, n)
	}
	var used [fewNames]bool
	for i := n.first; i != 0; i = c.nodes[i].next {
		if c.nodes[i].kind != rawjson.String {
			return false
		}
		name := c.text(i)
		at, found := 0, false
		for p := c.nodes[properties].first; p != 0 && !found; p = c.nodes[p].next {
			if found = bytes.Equal(c.nameOf(p), name); !found {
				at++
			}
		}
		if !found || used[at] {
			return false
		}
		used[at] = true
	}
	return true
}

func (c *cleaner) namesExistAmongMany(properties int32, list *node) bool {
	unused := make(map[string]bool, c.nodes[properties].count)
	for p := c.nodes[properties].first; p != 0; p = c.nodes[p].next {
		unused[string(c.nameOf(p))] = true
	}
	for i := list.first; i != 0; i = c.nodes[i].next {
		if c.nodes[i].kind != rawjson.String || !unused[string(c.text(i))] {
			return false
		}
		unused[string(c.text(i))] = false
	}
	return true
}
