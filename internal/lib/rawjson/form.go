package rawjson

import (
	"strings"
	"unsafe"
)

// A text that is copied from one JSON text to another need not be unescaped and escaped again. The
// functions in this file accept a text in one of two forms: plain, or escaped, which is the inside
// of a JSON string that passed Check.

// Inside reads a string and returns it with its escapes. The result aliases the text.
func (c *Cursor) Inside() string {
	if !c.next(String) {
		return ""
	}
	raw := c.rawText()
	return unsafe.String(unsafe.SliceData(raw), len(raw))
}

// Inside returns what is between the quotes of a JSON string. The result aliases quoted.
func Inside(quoted []byte) string {
	if len(quoted) < 2 {
		return ""
	}
	return unsafe.String(&quoted[1], len(quoted)-2)
}

// Unescaped returns the plain form of a text. The result does not alias an escaped text.
func Unescaped(text string, escaped bool) string {
	if !escaped {
		return text
	}
	if strings.IndexByte(text, '\\') < 0 {
		return strings.Clone(text)
	}
	raw := unsafe.Slice(unsafe.StringData(text), len(text))
	var short [256]byte
	if len(raw)+8 <= len(short) {
		return string(appendUnescaped(short[:0], raw))
	}
	out := appendUnescaped(make([]byte, 0, len(raw)+8), raw)
	return unsafe.String(unsafe.SliceData(out), len(out))
}

// IsBlank reports whether a text consists of white space.
func IsBlank(text string, escaped bool) bool {
	if escaped {
		text = strings.TrimLeft(text, " ")
		for len(text) >= 2 && text[0] == '\\' && strings.IndexByte("ntrf", text[1]) >= 0 {
			text = strings.TrimLeft(text[2:], " ")
		}
		if text != "" && text[0] != '\\' && text[0] < 0x80 {
			return false
		}
	}
	return strings.TrimSpace(Unescaped(text, escaped)) == ""
}

// Form appends a string.
func (w *Writer) Form(text string, escaped bool) *Writer {
	if !escaped {
		return w.String(text)
	}
	return w.Quoted(unsafe.Slice(unsafe.StringData(text), len(text)))
}
