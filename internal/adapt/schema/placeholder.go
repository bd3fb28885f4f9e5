package schema

import (
	"bytes"

	"perigee/internal/lib/rawjson"
)

// placeholder is the property of objects that have none. Its name is one that no tool has, so that
// it can be found in a call's arguments again.
const (
	placeholder       = "_placeholder"
	placeholderSchema = `{"type":"boolean","description":"Not used. Always pass true."}`
)

// wantsPlaceholder reports whether the provider would refuse an object without a placeholder. Both
// families require at least one property; Claude's validated mode also requires a required one,
// below the top.
func (r rules) wantsPlaceholder(top, properties, required bool) bool {
	return !r.response && (!properties || r.family == Claude && !top && !required)
}

func (c *cleaner) addPlaceholder(f *frame) {
	c.placeholder = true
	c.note(Added, "properties")
	if f.byName[placeholder] == nil {
		f.addProp(&prop{name: placeholder})
	}
	f.required = append(f.required, placeholder)
}

// TakeOutPlaceholder returns the arguments of a call without the placeholders of the tool's cleaned
// schema. A member of the same name where the schema has no placeholder is the tool's own and
// stays. Arguments without placeholders, or that are not a JSON object, are returned unchanged.
func TakeOutPlaceholder(args, cleaned []byte) []byte {
	if !bytes.Contains(args, []byte(`"`+placeholder+`"`)) || rawjson.Check(args) != nil || rawjson.Check(cleaned) != nil {
		return args
	}
	value, _ := parse(args, rules{})
	schema, _ := parse(cleaned, rules{})
	if value.kind != rawjson.Object {
		return args
	}
	return appendWithout(make([]byte, 0, len(args)), value, schema)
}

// appendWithout appends a value without the placeholders of its schema, and without the white space
// between its parts. A value that the schema does not describe is appended unchanged.
func appendWithout(dst []byte, value, schema *node) []byte {
	var inside *node
	switch {
	case schema == nil:
	case value.kind == rawjson.Object:
		inside = schema.part("properties")
	case value.kind == rawjson.Array:
		inside = schema.part("items")
	}
	if inside == nil {
		return append(dst, value.raw...)
	}
	dst = append(dst, value.raw[0])
	empty := len(dst)
	for _, m := range value.children {
		of := inside
		if value.kind == rawjson.Object {
			of = inside.member(m.name)
			if m.name == placeholder && of != nil && string(of.raw) == placeholderSchema {
				continue
			}
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		if value.kind == rawjson.Object {
			dst = append(rawjson.AppendString(dst, m.name), ':')
		}
		dst = appendWithout(dst, m, of)
	}
	return append(dst, value.raw[len(value.raw)-1])
}
