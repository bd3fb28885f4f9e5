package rawjson

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// AppendString appends s as a JSON string. It escapes only quotes, backslashes and control
// characters, which JSON requires. Invalid UTF-8 becomes \ufffd.
func AppendString(dst []byte, s string) []byte {
	dst = append(slices.Grow(dst, len(s)+2), '"')
	return append(appendInner(dst, s), '"')
}

// AppendInner appends s as AppendString does, without the quotes.
func AppendInner(dst []byte, s string) []byte { return appendInner(slices.Grow(dst, len(s)), s) }

// appendInner copies eight bytes before it determines how many of them count: code has something to
// escape in every line, and then that is quicker than to look for the end of each run first.
func appendInner(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		// A buffer of the exact size must not be moved for a few bytes more.
		if i+8 <= len(s) && len(dst)+8 <= cap(dst) {
			word := wordAt(s, i)
			binary.LittleEndian.PutUint64(dst[len(dst):len(dst)+8], word)
			m := stops(word)
			if m == 0 {
				dst = dst[:len(dst)+8]
				i += 8
				continue
			}
			plain := lowestLane(m)
			dst = dst[:len(dst)+plain]
			i += plain
		}
		switch c := s[i]; {
		case !isStop(c):
			dst = append(dst, c)
			i++
		case c < utf8.RuneSelf:
			dst = appendEscape(dst, c)
			i++
		default:
			dst, i = appendRunes(dst, s, i)
		}
	}
	return dst
}

// isPlain reports whether a text is valid UTF-8 and needs no escapes.
func isPlain(s string) bool {
	data := unsafe.Slice(unsafe.StringData(s), len(s))
	i, escaped := passBlocks(data, 0)
	for !escaped && i < len(data) && !(data[i] < utf8.RuneSelf && isStop(data[i])) {
		if data[i] < utf8.RuneSelf {
			i++
		} else if i = skipUTF8(data, i); i < 0 {
			return false
		}
	}
	return !escaped && i == len(data)
}

// QuotedSize returns how many bytes AppendString appends for a text in valid UTF-8.
func QuotedSize(s string) int {
	size := len(s) + 2
	for i := range len(s) {
		size += int(escapeGrowth[s[i]])
	}
	return size
}

// escapeGrowth is how many bytes longer a byte is when it is escaped.
var escapeGrowth = func() (sizes [256]uint8) {
	for c := range sizes {
		if c < utf8.RuneSelf && isStop(byte(c)) {
			sizes[c] = uint8(len(appendEscape(nil, byte(c))) - 1)
		}
	}
	return sizes
}()

// appendRunes appends the characters from i on that are not ASCII, and returns where they end.
func appendRunes(dst []byte, s string, i int) (_ []byte, end int) {
	start := i
	for i < len(s) && s[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + 1
		}
		i += size
	}
	return append(dst, s[start:i]...), i
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendUnescaped appends the unescaped text of a checked string without its quotes, which is never
// longer than with its escapes. Escapes that Check would refuse are copied unchanged. It copies as
// AppendString does.
func appendUnescaped(dst, raw []byte) []byte {
	dst = slices.Grow(dst, len(raw)+8)
	for i := 0; i < len(raw); {
		if i+8 <= len(raw) {
			word := binary.LittleEndian.Uint64(raw[i:])
			binary.LittleEndian.PutUint64(dst[len(dst):len(dst)+8], word)
			m := ((word ^ lanes*'\\') - lanes) &^ (word ^ lanes*'\\') & tops
			if m == 0 {
				dst = dst[:len(dst)+8]
				i += 8
				continue
			}
			plain := lowestLane(m)
			dst = dst[:len(dst)+plain]
			i += plain
		}
		c := raw[i]
		if c != '\\' || i+1 == len(raw) {
			dst = append(dst, c)
			i++
			continue
		}
		if c = raw[i+1]; c == 'u' {
			var size int
			dst, size = appendUnicodeEscape(dst, raw[i:])
			i += size
			continue
		}
		if plain := unescaped[c]; plain != 0 {
			dst = append(dst, plain)
		} else {
			dst = append(dst, '\\', c)
		}
		i += 2
	}
	return dst
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendUnicodeEscape appends the character of the \u escape, or pair of them, that raw starts
// with.
func appendUnicodeEscape(dst, raw []byte) (_ []byte, size int) {
	r, ok := hex4(raw, 2)
	if !ok {
		return append(dst, `\u`...), 2
	}
	if utf16.IsSurrogate(r) && hasPrefixAt(raw, 6, `\u`) {
		low, _ := hex4(raw, 8)
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return utf8.AppendRune(dst, pair), 12
		}
	}
	return utf8.AppendRune(dst, r), 6
}
