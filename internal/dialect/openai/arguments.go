package openai

import (
	"bytes"
	"encoding/json"

	"perigee/internal/lib/rawjson"
)

// EmptyArgs are the arguments of a call that has none.
var EmptyArgs = json.RawMessage("{}")

// Arguments reads the arguments of a call in a history. A text that is not a JSON object, which
// models sometimes write, becomes the value of one argument, so that the conversation can continue.
func Arguments(text []byte) (args json.RawMessage, repaired bool) {
	if len(bytes.TrimSpace(text)) == 0 {
		return EmptyArgs, false
	}
	if rawjson.Check(text) == nil && rawjson.NewCursor(text).Kind() == rawjson.Object {
		return text, false
	}
	return Wrap("arguments", rawjson.AppendString(nil, string(text))), true
}

// Wrap returns an object with one member. The name needs no escapes.
func Wrap(name string, value []byte) json.RawMessage {
	w := rawjson.Writer{Buf: make([]byte, 0, len(name)+len(value)+5)}
	return w.Object().Key(name).Raw(value).EndObject().Buf
}

// FreeText returns the schema of a tool that takes free text, for a function with the parameter
// input. A grammar for the text becomes a part of the description.
func FreeText(syntax, definition string) json.RawMessage {
	about := "The input of the tool, as plain text."
	if definition != "" {
		about += " It must match this " + syntax + " grammar:\n" + definition
	}
	w := rawjson.Writer{}
	w.Lit(`{"type":"object","properties":{"input":{"type":"string","description":`).String(about)
	return w.Lit(`}},"required":["input"]}`).Buf
}

// Unwrap undoes Wrap for a value that is a string. Arguments of another form are returned as text.
func Unwrap(name string, args json.RawMessage) string {
	return rawjson.NewCursor(UnwrapJSON(name, args)).String()
}

// UnwrapJSON is Unwrap, but returns a JSON string.
func UnwrapJSON(name string, args json.RawMessage) json.RawMessage {
	c := rawjson.NewCursor(args)
	if c.Kind() == rawjson.Object {
		for key := range c.Object() {
			if string(key) == name && c.Kind() == rawjson.String {
				return c.Raw()
			}
		}
	}
	return rawjson.AppendString(nil, string(args))
}
