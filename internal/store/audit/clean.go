package audit

import (
	"strconv"
	"strings"
	"unicode"

	"perigee"
	"perigee/internal/lib/redact"
)

// clean makes a text fit to be kept for a year and to be printed.
func clean(text string) string {
	text = perigee.Clip(text, 8*perigee.AuditMaxText) // text that is cut off below is not searched
	text = redact.RandomWords(redact.Assignments(redact.Credentials(text)))
	return perigee.Clip(escape(text), perigee.AuditMaxText)
}

// escape writes characters that do not print as in a Go string: \n, \x1b, \u202e.
func escape(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], string(unicode.ReplacementChar)):
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[i])+0x100, 16)[1:]) // no UTF-8
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
