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
	var w rawjson.Writer
	if writeTidy(&w, rawjson.NewCursor(value)) {
		return w.Buf
	}
	return nil
}

// writeTidy writes the next value. It returns false and writes nothing if nothing is left of it.
func writeTidy(w *rawjson.Writer, c *rawjson.Cursor) bool {
	switch c.Kind() {
	case rawjson.None, rawjson.Null:
		c.Skip()
		return false
	case rawjson.Object:
		w.Object()
		for key := range c.Object() {
			before := *w
			if !writeTidy(w.AnyKey(string(key)), c) {
				*w = before
			}
		}
		w.EndObject()
		return true
	case rawjson.Array:
		w.Array()
		for range c.Array() {
			writeTidy(w, c)
		}
		w.EndArray()
		return true
	}
	raw := c.Raw()
	if string(raw) == `"`+undefined+`"` {
		return false
	}
	w.Raw(raw)
	return true
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
