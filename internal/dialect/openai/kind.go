package openai

import (
	"encoding/json"

	"perigee/internal/lib/rawjson"
)

// OfKind reads a value that has to be of a kind, an object or an array, and nothing of what is in
// it. Null is nothing.
func OfKind(c *rawjson.Cursor, want rawjson.Kind) json.RawMessage {
	switch got := c.Kind(); {
	case got == rawjson.Null:
		c.Skip()
		return nil
	case got == want:
		return c.Raw()
	case want == rawjson.Array:
		for range c.Array() { // fails, and says where
		}
	default:
		for range c.Object() {
		}
	}
	return nil
}
