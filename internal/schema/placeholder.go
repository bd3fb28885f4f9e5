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
	c.changes.note(added, wProperties)
	if c.find(f, []byte(placeholder)) < 0 {
		f.props = append(f.props, prop{})
	}
	f.required = append(f.required, 0)
}

// TakeOutPlaceholder returns the arguments of a call without what only the placeholder of the tool's schema made the
// model say, at any depth. Arguments that have nothing of it, or are not a JSON object, come back as they are.
func TakeOutPlaceholder(args []byte) []byte {
	if !bytes.Contains(args, []byte(`"`+placeholder+`"`)) || rawjson.Check(args) != nil {
		return args
	}
	var t tape
	t.read(args)
	if t.nodes[root].kind != rawjson.Object {
		return args
	}
	return t.appendWithout(make([]byte, 0, len(args)), root)
}

// appendWithout appends a value without its placeholders, and without the space between its parts.
func (t *tape) appendWithout(dst []byte, place int32) []byte {
	n := &t.nodes[place]
	object := n.kind == rawjson.Object
	if !object && n.kind != rawjson.Array {
		return append(dst, t.raw(place)...)
	}
	dst = append(dst, t.data[n.start])
	opened := len(dst)
	for i := n.first; i != 0; i = t.nodes[i].next {
		if object && string(t.nameOf(i)) == placeholder {
			continue
		}
		if len(dst) > opened {
			dst = append(dst, ',')
		}
		if object {
			dst = append(append(dst, t.rawName(i)...), ':')
		}
		dst = t.appendWithout(dst, i)
	}
	return append(dst, t.data[n.end-1])
}
