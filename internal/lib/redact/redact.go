// Package redact replaces secrets in texts that are shown, logged or stored: those that are known
// (Redactor, and Stream for texts in pieces), and those that are recognized by their form
// (Credentials, Assignments, Parameters, MixedWords, RandomWords, Emails). Header, URL, Query,
// Content and Binary are for recordings of HTTP, which keep everything but the secrets.
//
// It is the only implementation. The errors of sign-in servers, providers and proxies, the record
// of calls, the audit log and the log all use it; which forms apply is for each of them to choose.
package redact

import (
	"strings"
	"unicode"

	"perigee/internal/lib/lazyregexp"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// value is = or : and a value, in any state of quoting.
const value = `(\\*["']?\s*[=:]\s*\\*["']?)(?:[^\s"'\\&,;}]|\\[^"'\\])+`

// Credentials are recognized by the word before them, in a header, a query, a form or JSON in any
// state of quoting, or by the prefixes of the providers.
var (
	schemes = lazyregexp.New(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}`)
	pairs   = lazyregexp.New(`(?i)\b((?:[a-z_-]*[_-])?` +
		`(?:(?:access|refresh|id|auth)_?token|client_?secret|password|api[_-]?key|authorization|cookie))` + value)
	prefixes = lazyregexp.New(`\b(?:sk-|` + prefixed + `)[A-Za-z0-9._/-]{6,}|\b` + jwt)
)

// The forms of credentials: the prefixes of providers' credentials, except for sk-, in which words
// may end as well, and signed JSON.
const (
	prefixed = `ya29\.|1//|AIza|GOCSPX-|gh[opsu]_|github_pat_|xox[abp]-`
	jwt      = `eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`
)

// Credentials replaces text that is recognized as a credential by the word before it or by its
// prefix.
func Credentials(text string) string {
	text = schemes().ReplaceAllString(text, "$1 "+Mark)
	text = pairs().ReplaceAllString(text, "$1$2"+Mark)
	return prefixes().ReplaceAllString(text, Mark)
}

var assignments = lazyregexp.New(`(?i)\b([a-z_-]*(?:token|secret|password|api[_-]?key|authorization|cookie))` + value)

// Assignments replaces the value after any name of a token, secret, password or key. It is not for
// errors of providers: "invalid_token:" is the beginning of a sentence there.
func Assignments(text string) string { return assignments().ReplaceAllString(text, "$1$2"+Mark) }

var parameters = lazyregexp.New(`(?i)\b((?:api_?|access_?)?key|[a-z_]*token|[a-z_]*secret|password|code)=(?:[^\s"'\\&]|\\[^"'])+`)

// Parameters replaces the values of parameters that have credentials in URLs and forms. Errors of
// net/http quote their URL.
func Parameters(text string) string { return parameters().ReplaceAllString(text, "$1="+Mark) }

var emails = lazyregexp.New(`(?i)[a-z0-9._+-]+(?:@|%40)[a-z0-9-]+(?:\.[a-z0-9-]+)+`)

// Emails replaces e-mail addresses, also those that a URL encodes.
func Emails(text string) string { return string(EmailsIn([]byte(text))) }

// EmailsIn is Emails for a body. It returns the body itself if it has no address. Only words with @
// or % are matched: the expression would take seconds for a large body.
func EmailsIn(text []byte) []byte {
	var out []byte
	done, begin, found := 0, 0, false
	for i := 0; i <= len(text); i++ {
		if i < len(text) && inAddress(text[i]) {
			found = found || text[i] == '@' || text[i] == '%'
			continue
		}
		if word := text[begin:i]; found && emails().Match(word) {
			out = append(append(out, text[done:begin]...), emails().ReplaceAll(word, []byte(Mark))...)
			done = i
		}
		begin, found = i+1, false
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// inAddress reports whether an e-mail address can have a byte.
func inAddress(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '-' && c <= '9' && c != '/' || c == '@' || c == '%' || c == '+' || c == '_' || c >= 0x80
}

var mixedWords = lazyregexp.New(`[A-Za-z0-9_-]{32,}`)

// callIDs are the prefixes of ids of calls and answers, which are not secrets.
var callIDs = []string{"toolu_", "call_", "msg_", "req_"}

// MixedWords replaces words of 32 and more characters with capitals, small letters and digits,
// except for ids of calls and answers. It leaves hexadecimal numbers, such as trace ids.
func MixedWords(text string) string {
	return mixedWords().ReplaceAllStringFunc(text, func(word string) string {
		for _, prefix := range callIDs {
			if strings.HasPrefix(word, prefix) {
				return word
			}
		}
		has := func(kind func(rune) bool) bool { return strings.ContainsFunc(word, kind) }
		if has(unicode.IsUpper) && has(unicode.IsLower) && has(unicode.IsDigit) {
			return Mark
		}
		return word
	})
}

var longWords = lazyregexp.New(`[A-Za-z0-9_+/=-]{24,}`)

// RandomWords replaces words of 24 and more characters that are more likely a credential than a
// name or the path of a file, in hexadecimal, base32 or base64.
func RandomWords(text string) string {
	return longWords().ReplaceAllStringFunc(text, func(word string) string {
		if looksRandom(word) {
			return Mark
		}
		return word
	})
}

func looksRandom(word string) bool {
	path := strings.HasPrefix(word, "/") && strings.Count(word, "/") > 1
	for part := range strings.SplitSeq(word, "/") {
		if len(part) < 24 || !strings.ContainsAny(part, "0123456789") {
			continue
		}
		changes := 0
		for i := 1; i < len(part); i++ {
			if kindOf(part[i]) != kindOf(part[i-1]) {
				changes++
			}
		}
		lower, upper := strings.ToLower(part), strings.ToUpper(part)
		switch {
		case part != lower && part != upper && !path:
			return true
		// Base64 changes about 62 times in 100 characters, CamelCase less than 33 times.
		case part != lower && part != upper && changes*100 > len(part)*35:
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
