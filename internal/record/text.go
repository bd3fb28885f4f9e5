package record

import (
	"regexp"
	"strings"
)

// What clients and providers say is theirs to choose; a row has room for this much of it.
const (
	maxName = 200
	maxText = 2000
)

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
