package openai

import (
	"encoding/json"

	"perigee/internal/lib/rawjson"
)

// OfKind reads a value that must be of a kind, an object or an array, without decoding it. It
// returns nil for null.
func OfKind(c *rawjson.Cursor, want rawjson.Kind) json.RawMessage {
	switch got := c.Kind(); {
	case got == rawjson.Null:
		c.Skip()
		return nil
	case got == want:
		return c.Raw()
	case want == rawjson.Array:
		for range c.Array() { // fails with the position
		}
	default:
		for range c.Object() {
		}
	}
	return nil
}
