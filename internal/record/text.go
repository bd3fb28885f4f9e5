package record

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// What clients and providers say is theirs to choose; a row has room for this much of it.
const (
	maxName = 200
	maxText = 2000
)

// clip cuts text to at most limit bytes, between characters, and says so with an ellipsis.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	// A copy: a piece of a large text would keep all of it alive for as long as the row is.
	return strings.Clone(text[:end]) + ellipsis
}

// Errors of net/http quote the URL that they were about, and a URL can have a key in it. Whoever made the
// error should have known; rows and logs are kept for long, so they do not rely on it.
var (
	secretParameter = regexp.MustCompile(`(?i)\b((?:api_?|access_?)?key|[a-z_]*token|[a-z_]*secret|password|code)=[^&\s"']+`)
	secretHeader    = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)
)

func redact(text string) string {
	if !strings.ContainsAny(text, "= ") {
		return text
	}
	text = secretParameter.ReplaceAllString(text, "$1=[redacted]")
	return secretHeader.ReplaceAllString(text, "$1 [redacted]")
}
