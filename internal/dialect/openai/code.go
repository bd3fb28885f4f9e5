package openai

import (
	"encoding/json"
	"strings"

	"perigee/internal/rawjson"
)

// codeText writes a part of the provider's code execution as fenced text, which is all that this dialect has for
// it. Other parts give nothing.
func codeText(part json.RawMessage) string {
	c := rawjson.NewCursor(part)
	for key := range c.Object() {
		switch string(key) {
		case "executableCode":
			language, code := readPair(c, "language", "code")
			return fenced(strings.ToLower(language), code)
		case "codeExecutionResult":
			_, output := readPair(c, "outcome", "output")
			return fenced("", output)
		}
	}
	return ""
}

func readPair(c *rawjson.Cursor, first, second string) (a, b string) {
	for key := range c.Object() {
		switch string(key) {
		case first:
			a = c.String()
		case second:
			b = c.String()
		}
	}
	return a, b
}

func fenced(language, text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return "\n```" + language + "\n" + text + "```\n"
}
