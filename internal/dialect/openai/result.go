package openai

import (
	"encoding/json"
	"slices"

	"perigee/internal/lib/rawjson"
)

// ResultText returns a tool result as a JSON string. An object with one text is that text, and any
// other object is its JSON.
func ResultText(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage(`""`)
	}
	c := rawjson.NewCursor(object)
	var only json.RawMessage
	members := 0
	if c.Kind() == rawjson.Object {
		for key := range c.Object() {
			members++
			if text := c.Kind() == rawjson.String; text && (string(key) == "output" || string(key) == "result") {
				only = c.Raw()
			} else {
				c.Skip()
			}
		}
	}
	if members == 1 && only != nil {
		return only
	}
	return rawjson.AppendString(nil, string(object))
}

// AudioFormat returns the name of a format of sound, for the part of its MIME type behind the slash.
func AudioFormat(subtype string) string {
	switch {
	case slices.Contains([]string{"mpeg", "mp3", "mpga"}, subtype):
		return "mp3"
	case slices.Contains([]string{"wav", "x-wav", "wave", "vnd.wave"}, subtype):
		return "wav"
	}
	return subtype
}
