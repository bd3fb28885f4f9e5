package audit

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"perigee"
)

const redacted = "[redacted]"

// Credentials are recognized by the word in front of them, by the prefixes of the providers, or as long random words.
var (
	pairs    = regexp.MustCompile(`(?i)\b([a-z_-]*(?:token|secret|password|api_?key|authorization|cookie))(["']?\s*[=:]\s*["']?)[^\s"'&,;}]+`)
	schemes  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}`)
	prefixes = regexp.MustCompile(`\b(?:ya29\.|1//|AIza|GOCSPX-|sk-)[A-Za-z0-9._/-]{6,}`)
	words    = regexp.MustCompile(`[A-Za-z0-9_+/=-]{24,}`)
)

// clean makes a text fit to be kept for a year and to be printed.
func clean(text string) string {
	text = perigee.Clip(text, 8*perigee.AuditMaxText) // what is cut off below is not searched
	text = schemes.ReplaceAllString(text, "$1 "+redacted)
	text = pairs.ReplaceAllString(text, "$1$2"+redacted)
	text = prefixes.ReplaceAllString(text, redacted)
	text = words.ReplaceAllStringFunc(text, func(word string) string {
		if looksRandom(word) {
			return redacted
		}
		return word
	})
	return perigee.Clip(escape(text), perigee.AuditMaxText)
}

// looksRandom says whether a long word is more likely a credential than a name or the path of a file.
func looksRandom(word string) bool {
	path := strings.HasPrefix(word, "/") && strings.Count(word, "/") > 1
	for part := range strings.SplitSeq(word, "/") {
		if len(part) < 24 {
			continue
		}
		digits, changes := strings.ContainsAny(part, "0123456789"), 0
		for i := 1; i < len(part); i++ {
			if kindOf(part[i]) != kindOf(part[i-1]) {
				changes++
			}
		}
		lower, upper := strings.ToLower(part), strings.ToUpper(part)
		switch {
		case !digits:
		case part != lower && part != upper && !path:
			return true
		case part != lower && part != upper && changes*100 > len(part)*35: // of base64 about 62 of 100, of CamelCase under 33
			return true
		case part == upper && part != lower && len(part) >= 26: // base32
			return true
		case len(part) >= 32 && strings.Trim(lower, "0123456789abcdef") == "" && strings.ContainsAny(lower, "abcdef"):
			return true
		}
	}
	return false
}

func kindOf(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return 1
	case c >= 'a' && c <= 'z':
		return 2
	case c >= 'A' && c <= 'Z':
		return 3
	}
	return 0
}

// escape writes what does not print as Go does in a string: \n, \x1b, \u202e.
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
