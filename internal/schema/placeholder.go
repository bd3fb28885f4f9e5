package schema

import (
	"bytes"

	"perigee/internal/rawjson"
)

// placeholder is the property of objects that have none. Its name is one that no tool has, so that it can be found in
// a call's arguments again.
const (
	placeholder       = "_placeholder"
	placeholderSchema = `{"type":"boolean","description":"Not used. Always pass true."}`
)

// wantsPlaceholder says whether the provider would refuse an object for what it lacks. Both families want at least one
// property; Claude's validated mode also wants one to be required, below the top.
func (r rules) wantsPlaceholder(at place, properties, required bool) bool {
	switch {
	case r.response:
		return false
	case r.family == Gemini || at == top:
		return !properties
	}
	return !properties || !required
}

func (c *cleaner) addPlaceholder(f *frame) {
	c.placeholder = true
	c.note(added, wProperties)
	if c.find(f, []byte(placeholder)) < 0 {
		f.props = append(f.props, prop{})
	}
	f.required = append(f.required, 0)
}

// TakeOutPlaceholder returns the arguments of a call without what only the placeholders of the tool's cleaned schema made
// the model say. A member of the same name where the schema has no placeholder is the tool's own and stays. Arguments that
// have nothing of it, or are not a JSON object, come back as they are.
func TakeOutPlaceholder(args, cleaned []byte) []byte {
	if !bytes.Contains(args, []byte(`"`+placeholder+`"`)) || rawjson.Check(args) != nil || rawjson.Check(cleaned) != nil {
		return args
	}
	var t, s tape
	t.read(args)
	s.read(cleaned)
	if t.nodes[root].kind != rawjson.Object {
		return args
	}
	return t.appendWithout(make([]byte, 0, len(args)), root, &s, root)
}

// appendWithout appends a value without the placeholders of its schema, which stands at the given place of s, and without
// the space between its parts. What the schema does not speak about is appended as it is.
func (t *tape) appendWithout(dst []byte, place int32, s *tape, schema int32) []byte {
	n := &t.nodes[place]
	object := n.kind == rawjson.Object
	inside := s.keyword(schema, wProperties)
	if n.kind == rawjson.Array {
		inside = s.keyword(schema, wItems)
	} else if !object {
		inside = 0
	}
	if inside == 0 {
		return append(dst, t.raw(place)...)
	}
	dst = append(dst, t.data[n.start])
	opened := len(dst)
	for i := n.first; i != 0; i = t.nodes[i].next {
		of := inside
		if object {
			name := t.nameOf(i)
			if of = s.property(inside, name); string(name) == placeholder && string(s.raw(of)) == placeholderSchema {
				continue
			}
		}
		if len(dst) > opened {
			dst = append(dst, ',')
		}
		if object {
			dst = append(append(dst, t.rawName(i)...), ':')
		}
		dst = t.appendWithout(dst, i, s, of)
	}
	return append(dst, t.data[n.end-1])
}

// keyword is the place of the value of a keyword in the schema at a place; 0: it has none.
func (t *tape) keyword(schema int32, w word) int32 {
	for i := t.nodes[schema].first; i != 0; i = t.nodes[i].next {
		if t.nodes[i].word == w {
			return i
		}
	}
	return 0
}

// property is the place of the member of an object with a name; 0: it has none.
func (t *tape) property(object int32, name []byte) int32 {
	for i := t.nodes[object].first; i != 0; i = t.nodes[i].next {
		if bytes.Equal(t.nameOf(i), name) {
			return i
		}
	}
	return 0
}
