package dialect

import (
	"encoding/json"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// ResultText returns the result of a tool as a JSON string. An object with one text, as output or as
// result, is that text; any other object is written as JSON.
func ResultText(r *perigee.FunctionResponse) json.RawMessage {
	switch {
	case r.Output != nil:
		return r.Output
	case r.Response == nil:
		return json.RawMessage(`""`)
	}
	var text json.RawMessage
	members := 0
	c := rawjson.NewCursor(r.Response)
	if c.Kind() == rawjson.Object {
		for key := range c.Object() {
			if members++; (string(key) == "output" || string(key) == "result") && c.Kind() == rawjson.String {
				text = c.Raw()
			}
		}
	}
	if text != nil && members == 1 {
		return text
	}
	return rawjson.AppendString(nil, string(r.Response))
}
