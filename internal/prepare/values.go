package prepare

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee/internal/rawjson"
)

// undefined is what some user interfaces send for a value that they have not got.
const undefined = "[undefined]"

// untidy says whether tidy would have to look at a value.
func untidy(value []byte) bool {
	return len(value) == 0 || bytes.Contains(value, []byte(`"`+undefined+`"`)) || bytes.Contains(value, []byte("null"))
}

// tidy returns a JSON value without the members and elements that are not there: nulls and the word for undefined. It is
// nil where nothing is there at all.
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
	switch c.Kind() {
	case rawjson.None, rawjson.Null:
		c.Skip()
		return dst
	case rawjson.Object:
		return appendTidyObject(dst, c)
	case rawjson.Array:
		dst = append(dst, '[')
		opened := len(dst)
		for range c.Array() {
			before := len(dst)
			dst = appendTidy(separate(dst, opened), c)
			dst = undo(dst, before, opened, "")
		}
		return append(dst, ']')
	}
	raw := c.Raw()
	if string(raw) == `"`+undefined+`"` {
		return dst
	}
	return append(dst, raw...)
}

func appendTidyObject(dst []byte, c *rawjson.Cursor) []byte {
	dst = append(dst, '{')
	opened := len(dst)
	for key := range c.Object() {
		before := len(dst)
		name := rawjson.AppendString(nil, string(key))
		dst = append(append(separate(dst, opened), name...), ':')
		dst = appendTidy(dst, c)
		dst = undo(dst, before, opened, string(name)+":")
	}
	return append(dst, '}')
}

func separate(dst []byte, opened int) []byte {
	if len(dst) > opened {
		return append(dst, ',')
	}
	return dst
}

// undo takes back the separator and the head of a member that turned out to be nothing.
func undo(dst []byte, before, opened int, head string) []byte {
	nothing := before + len(head)
	if before > opened {
		nothing++
	}
	if len(dst) == nothing {
		return dst[:before]
	}
	return dst
}

// object returns a value that must be an object as one: a string with an object inside is that object, and anything else
// becomes its only member. Nothing is an empty object.
func object(value json.RawMessage, member string) json.RawMessage {
	value = bytes.TrimSpace(value)
	if len(value) > 0 && value[0] == '{' {
		return value
	}
	if len(value) == 0 || string(value) == "null" || string(value) == `"`+undefined+`"` {
		return json.RawMessage(`{}`)
	}
	if value[0] == '"' {
		inner := bytes.TrimSpace(rawjson.NewCursor(value).Bytes())
		if len(inner) > 0 && inner[0] == '{' && rawjson.Check(inner) == nil {
			return inner
		}
	}
	return slices.Concat(json.RawMessage(`{"`+member+`":`), value, json.RawMessage(`}`))
}

// isObject says whether a value is an object, without looking inside.
func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

var emptyObject = json.RawMessage(`{}`)
