package openai

import (
	"encoding/json"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// OfKind reads a value that must be of a kind, an object or an array, without decoding it. It
// returns nil for null.
func OfKind(c *rawjson.Cursor, want rawjson.Kind) json.RawMessage {
	switch got := c.Kind(); {
	case got == want:
		return c.Raw()
	case want == rawjson.Array:
		for range c.Array() { // fails with the position, unless the value is null
		}
	default:
		for range c.Object() {
		}
	}
	return nil
}

// ToolModes are the modes for the words of tool_choice; the mode of auto is the model's default.
// validated is Gemini's mode by its own name: GitHub Copilot sends it for every model named
// gemini-*.
var ToolModes = map[string]string{"auto": "", "none": perigee.ToolModeNone, "required": perigee.ToolModeAny,
	"validated": perigee.ToolModeValidated}
