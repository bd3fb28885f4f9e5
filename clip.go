package perigee

import "unicode/utf8"

// Clip cuts text to at most limit bytes, between characters, and says so with an ellipsis at its end. What clients and
// providers call things is theirs to choose, and need not fit where it is repeated. What is cut does not keep the whole alive.
func Clip(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	// Longer than a character there is nothing to step back over: that is no text.
	for range utf8.UTFMax - 1 {
		if end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
	}
	return text[:end] + ellipsis
}
