package filetool

import "strings"

// wildmatch reports whether a name matches a pattern by the rules of .gitignore: "*" and "?" do not
// match "/", "**" as a whole component does, "[a-z]", "[!a]" and "[[:alpha:]]" match one character,
// and a backslash takes the next character literally. The pattern begins at the beginning of a
// component.
func wildmatch(pattern, name string) bool {
	m := matcher{pattern: pattern, name: name}
	return m.match(0, 0)
}

type matcher struct {
	pattern, name string
	failed        map[[2]int]struct{} // positions behind a star from which there is no match; keeps the time polynomial
}

func (m *matcher) match(p, n int) bool {
	for p < len(m.pattern) {
		if m.pattern[p] == '*' {
			return m.star(p, n)
		}
		if n == len(m.name) {
			return false
		}
		char, ok := m.name[n], false
		switch m.pattern[p] {
		case '?':
			ok = char != '/'
			p++
		case '[':
			p, ok = class(m.pattern, p+1, char)
		case '\\':
			ok = p+1 < len(m.pattern) && m.pattern[p+1] == char
			p += 2
		default:
			ok = m.pattern[p] == char
			p++
		}
		if !ok {
			return false
		}
		n++
	}
	return n == len(m.name)
}

// star matches from a "*" or "**" on.
func (m *matcher) star(p, n int) bool {
	start := p
	for p < len(m.pattern) && m.pattern[p] == '*' {
		p++
	}
	rest := m.pattern[p:]
	slashes := p-start > 1 && (start == 0 || m.pattern[start-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if slashes && rest != "" && rest[0] == '/' && m.try(p+1, n) { // "**/" also matches nothing
		return true
	}
	if rest == "" {
		return slashes || strings.IndexByte(m.name[n:], '/') < 0
	}
	for ; ; n++ {
		if m.try(p, n) {
			return true
		}
		if n == len(m.name) || !slashes && m.name[n] == '/' {
			return false
		}
	}
}

func (m *matcher) try(p, n int) bool {
	key := [2]int{p, n}
	if _, known := m.failed[key]; known {
		return false
	}
	if m.match(p, n) {
		return true
	}
	if m.failed == nil {
		m.failed = map[[2]int]struct{}{}
	}
	m.failed[key] = struct{}{}
	return false
}

// class matches a character with the bracket expression that has its first character at p. It
// returns the position behind it. A bracket expression without an end matches nothing.
func class(pattern string, p int, char byte) (end int, ok bool) {
	negated := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negated {
		p++
	}
	matched, first, low := false, true, -1 // low is the character that a range may begin with
	for ; ; first = false {
		if p >= len(pattern) {
			return p, false
		}
		c := pattern[p]
		switch {
		case c == ']' && !first:
			return p + 1, matched != negated && char != '/'
		case c == '-' && low >= 0 && p+1 < len(pattern) && pattern[p+1] != ']':
			if p++; pattern[p] == '\\' {
				p++
			}
			if p >= len(pattern) {
				return p, false
			}
			matched = matched || int(char) >= low && char <= pattern[p]
			low = -1
			p++
			continue
		case c == '[' && p+1 < len(pattern) && pattern[p+1] == ':':
			length := strings.IndexByte(pattern[p+2:], ']')
			if length < 0 {
				return len(pattern), false
			}
			if name, ok := strings.CutSuffix(pattern[p+2:p+2+length], ":"); ok {
				test := classes[name]
				if test == nil {
					return len(pattern), false
				}
				matched = matched || test(char)
				low = -1
				p += length + 3
				continue
			}
		case c == '\\':
			if p++; p >= len(pattern) {
				return p, false
			}
			c = pattern[p]
		}
		matched = matched || c == char
		low = int(c)
		p++
	}
}

var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
