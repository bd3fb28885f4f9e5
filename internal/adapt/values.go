package adapt

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee/internal/lib/rawjson"
)

// undefined is sent by some user interfaces for a value that they do not have.
const undefined = "[undefined]"

// untidy reports whether tidy has to read a value.
func untidy(value []byte) bool {
	return len(value) == 0 || bytes.Contains(value, []byte(`"`+undefined+`"`)) || bytes.Contains(value, []byte("null"))
}

// tidy returns a JSON value without the members and elements that are null or undefined. It is nil
// where nothing is left.
func tidy(value json.RawMessage) json.RawMessage {
	if !untidy(value) {
		return value
	}
	if out := appendTidy(nil, rawjson.NewCursor(value)); len(out) > 0 {
		return out
	}
	return nil
}

// appendTidy appends the next value, or nothing.
func appendTidy(dst []byte, c *rawjson.Cursor) []byte {
	opened := len(dst) + 1
	// member appends a value of an object or array behind its head, or neither.
	member := func(head []byte) {
		before := len(dst)
		dst = append(separate(dst, opened), head...)
		begin := len(dst)
		if dst = appendTidy(dst, c); len(dst) == begin {
			dst = dst[:before]
		}
	}
	switch c.Kind() {
	case rawjson.None, rawjson.Null:
		c.Skip()
		return dst
	case rawjson.Object:
		dst = append(dst, '{')
		for key := range c.Object() {
			member(append(rawjson.AppendString(nil, string(key)), ':'))
		}
		return append(dst, '}')
	case rawjson.Array:
		dst = append(dst, '[')
		for range c.Array() {
			member(nil)
		}
		return append(dst, ']')
	}
	if raw := c.Raw(); string(raw) != `"`+undefined+`"` {
		dst = append(dst, raw...)
	}
	return dst
}

// separate appends a comma unless nothing has been written since a bracket was opened.
func separate(dst []byte, opened int) []byte {
	if len(dst) > opened {
		return append(dst, ',')
	}
	return dst
}

// object returns a value that must be an object as one: a string with an object inside is that
// object, and any other value becomes its only member. An empty value is an empty object.
func object(value json.RawMessage, member string) json.RawMessage {
	value = bytes.TrimSpace(value)
	if isObject(value) {
		return value
	}
	if len(value) == 0 || string(value) == "null" || string(value) == `"`+undefined+`"` {
		return emptyObject
	}
	if value[0] == '"' {
		inner := bytes.TrimSpace(rawjson.NewCursor(value).Bytes())
		if isObject(inner) && rawjson.Check(inner) == nil {
			return inner
		}
	}
	return slices.Concat(json.RawMessage(`{"`+member+`":`), value, json.RawMessage(`}`))
}

// isObject reports whether a value is an object, by its first byte.
func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

var emptyObject = json.RawMessage(`{}`)
