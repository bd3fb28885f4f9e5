package openai

import (
	"encoding/json"
	"strings"

	"perigee/internal/lib/rawjson"
)

// CodeText writes a part of the provider's code execution as fenced text, because this dialect
// has no other form for it. For other parts it returns "".
func CodeText(part json.RawMessage) string {
	c := rawjson.NewCursor(part)
	for key := range c.Object() {
		switch string(key) {
		case "executableCode":
			language, code := ReadPair(c, "language", "code")
			return fenced(strings.ToLower(language), code)
		case "codeExecutionResult":
			_, output := ReadPair(c, "outcome", "output")
			return fenced("", output)
		}
	}
	return ""
}

// ReadPair reads two strings out of an object. A missing member is empty.
func ReadPair(c *rawjson.Cursor, first, second string) (a, b string) {
	c.Read(nil, first, &a, second, &b)
	return a, b
}

func fenced(language, text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return "\n```" + language + "\n" + text + "```\n"
}
