package openai

import (
	"strings"

	"perigee/internal/lib/rawjson"
)

// InputPieces makes pieces of the text of a custom tool from pieces of its arguments, which are
// {"input":"…"}. The zero value is ready to use.
type InputPieces struct {
	rest  string // not used yet
	begun bool   // the text has begun
	ended bool   // the text is complete, or the arguments have another form
}

// inputHead are the tokens before the text.
var inputHead = []string{"{", `"input"`, ":", `"`}

// Add returns the text that a piece of the arguments adds. It may be empty: an escape waits for its
// end. If the arguments have another form, it is empty from then on.
func (p *InputPieces) Add(piece string) string {
	if p.ended {
		return ""
	}
	if p.rest += piece; !p.begun {
		rest := p.rest
		for _, token := range inputHead {
			rest = strings.TrimLeft(rest, " \t\r\n")
			after, ok := strings.CutPrefix(rest, token)
			if !ok {
				p.ended = !strings.HasPrefix(token, rest)
				return ""
			}
			rest = after
		}
		p.rest, p.begun = rest, true
	}
	n := 0
	for n < len(p.rest) && !p.ended {
		size := escapeSize(p.rest[n:])
		if p.ended = size < 0; size <= 0 {
			break
		}
		n += size
	}
	text := rawjson.Unescaped(p.rest[:n], true)
	p.rest = p.rest[n:]
	return text
}

// escapeSize returns the size of the character at the beginning of s, in the inside of a JSON
// string: 0 if more of it must follow, and -1 for the end of the string or an unknown escape. Both
// halves of a surrogate pair are one character.
func escapeSize(s string) int {
	switch {
	case s[0] == '"':
		return -1
	case s[0] != '\\':
		return 1
	case len(s) == 1:
		return 0
	case s[1] != 'u' && strings.IndexByte(`"\/bfnrt`, s[1]) < 0:
		return -1
	case s[1] != 'u':
		return 2
	case len(s) < 6:
		return 0
	case s[2] != 'd' && s[2] != 'D' || s[3] < '8':
		return 6
	case len(s) == 6, s[6] == '\\' && (len(s) == 7 || s[7] == 'u' && len(s) < 12):
		return 0
	case s[6] == '\\' && s[7] == 'u':
		return 12
	}
	return 6
}
