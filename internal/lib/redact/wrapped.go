package redact

// Bounds of base64 in lines.
const (
	minLine  = 60 // characters of each line but the last; PEM has 64 of them, MIME 76
	minPiece = 8  // characters of the parts that are searched for
	maxBreak = 16 // bytes of a line break with its escapes and the spaces beside it
)

// lineForms returns the forms of a text that may be broken into lines: two neighboring parts of it,
// of which one at most has a line break. A short text is one form, which must be in one line.
func lineForms(text string) []form {
	n := min(len(text)/2, minLine/2)
	if n < minPiece {
		return []form{{text: text, plain: true, decoded: true}}
	}
	first, second := len(text)-2*n, len(text)-n
	return []form{
		{text: text[first:second], plain: true, decoded: true, whole: text, at: first},
		{text: text[second:], plain: true, decoded: true, whole: text, at: second},
	}
}

// extend returns the position of the whole form around a part of it. ok is false if other text is
// around the part.
func (f *form) extend(text []byte, part span) (whole span, ok bool) {
	if f.whole == "" {
		return part, true
	}
	for i := f.at - 1; i >= 0; i-- {
		// The line break comes first, because the letter of its escape may be the next character,
		// too.
		part.start -= breakBefore(text[:part.start])
		if part.start == 0 || text[part.start-1] != f.whole[i] {
			return span{}, false
		}
		part.start--
	}
	for i := f.at + len(f.text); i < len(f.whole); i++ {
		if part.end < len(text) && text[part.end] != f.whole[i] {
			part.end += breakAfter(text[part.end:])
		}
		if part.end == len(text) || text[part.end] != f.whole[i] {
			return span{}, false
		}
		part.end++
	}
	return part, true
}

// breakAfter returns the size of the line break that a text begins with, plain or escaped, with
// spaces; 0 if there is none.
func breakAfter(text []byte) int {
	size, lines := 0, false
	for size < len(text) {
		rest, n := text[size:], 1
		c := rest[0]
		switch {
		case c == '\\':
			for n < len(rest) && n <= maxBackslashes && rest[n] == '\\' {
				n++
			}
			if n == len(rest) {
				return 0
			}
			c = escapedSpace[rest[n]]
			n++
		case c == '%' && len(rest) > 2:
			c, n = encodedSpace(rest[1:3]), 3
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' || size+n > maxBreak {
			break
		}
		lines = lines || c == '\n'
		size += n
	}
	if !lines {
		return 0
	}
	return size
}

// breakBefore returns the size of the line break that a text ends with.
func breakBefore(text []byte) int {
	n := len(text)
	if n == 0 || text[n-1] > ' ' && (n < 2 || text[n-2] != '\\') && (n < 3 || text[n-3] != '%') {
		return 0
	}
	for size := maxBreak; size > 0; size-- {
		if size <= len(text) && breakAfter(text[len(text)-size:]) == size {
			return size
		}
	}
	return 0
}

// encodedSpace returns the line break or tab that percent-encoding writes as two digits, or 0.
func encodedSpace(digits []byte) byte {
	if c := byte(hexValue(digits)); isHex(digits) && (c == '\n' || c == '\r' || c == '\t') {
		return c
	}
	return 0
}
