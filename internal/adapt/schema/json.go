package schema

import (
	"bytes"
	"encoding/json"
	"strings"

	"perigee/internal/lib/rawjson"
)

// JSON returns a schema of the Gemini API, an object, as a JSON Schema: types in lower case, and null
// as one of the types of a nullable value. A schema that is one already is returned unchanged.
func (c *Cache) JSON(raw json.RawMessage) json.RawMessage {
	return c.clean(raw, rules{json: true}).Schema
}

func toJSON(raw json.RawMessage) json.RawMessage {
	w := rawjson.Writer{Buf: make([]byte, 0, len(raw)+len(raw)/8)}
	writeJSON(&w, rawjson.NewCursor(raw), maxDepth)
	if bytes.Equal(w.Buf, raw) {
		return raw
	}
	return w.Buf
}

// writeJSON writes the next schema. Below depth levels it is copied.
func writeJSON(w *rawjson.Writer, c *rawjson.Cursor, depth int) {
	if c.Kind() != rawjson.Object || depth == 0 {
		w.Raw(c.Raw())
		return
	}
	probe := rawjson.NewCursor(nil)
	raw := c.Raw()
	probe.Reset(raw)
	var kind string
	nullable := false
	probe.Read(func([]byte) {}, "type", func() {
		if probe.Kind() == rawjson.String {
			kind = strings.ToLower(probe.String())
		} else {
			probe.Skip()
		}
	}, "nullable", func() {
		if probe.Kind() == rawjson.Bool {
			nullable = probe.Bool()
		} else {
			probe.Skip()
		}
	})
	w.Object()
	probe.Reset(raw)
	for key := range probe.Object() {
		name := string(key)
		switch {
		case name == "nullable" || name == "propertyOrdering" || name == "type" && kind == "type_unspecified":
			probe.Skip()
		case name == "type" && kind != "":
			probe.Skip()
			w.Key(name)
			if nullable && kind != "null" {
				w.Array().String(kind).String("null").EndArray()
			} else {
				w.String(kind)
			}
		case name == "enum" && nullable && probe.Kind() == rawjson.Array:
			w.Key(name).Array()
			for range probe.Array() {
				w.Raw(probe.Raw())
			}
			w.Null().EndArray()
		case name == "anyOf" && nullable && kind == "" && probe.Kind() == rawjson.Array:
			w.Key(name).Array()
			for range probe.Array() {
				writeJSON(w, probe, depth-1)
			}
			w.Members(`{"type":"null"}`).EndArray()
		default:
			w.AnyKey(name)
			writeKeyword(w, probe, name, depth)
		}
	}
	w.EndObject()
}

// writeKeyword writes the value of a keyword, with the schemas in it.
func writeKeyword(w *rawjson.Writer, c *rawjson.Cursor, name string, depth int) {
	kind := c.Kind()
	switch name {
	case "properties", "$defs", "definitions", "patternProperties":
		if kind == rawjson.Object {
			w.Object()
			for key := range c.Object() {
				writeJSON(w.AnyKey(string(key)), c, depth-1)
			}
			w.EndObject()
			return
		}
	case "items", "additionalProperties", "not", "prefixItems", "anyOf", "oneOf", "allOf":
		if kind == rawjson.Array {
			w.Array()
			for range c.Array() {
				writeJSON(w, c, depth-1)
			}
			w.EndArray()
			return
		}
		writeJSON(w, c, depth-1)
		return
	case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
		if kind == rawjson.String { // as Protocol Buffers write 64-bit numbers
			if text := c.String(); json.Valid([]byte(text)) {
				w.Raw([]byte(text))
			} else {
				w.String(text)
			}
			return
		}
	}
	w.Raw(c.Raw())
}
