package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Only what JSON demands is escaped: quotes, backslashes and control
// characters. Invalid UTF-8 becomes \ufffd.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		i = skipPlainString(s, i)
		if i == len(s) {
			break
		}
		if s[i] >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, s[i])
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
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

// appendUnescaped appends what stands between the quotes of a checked string. Escapes that Check would not have let
// through are copied as they are.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		if c == 'u' {
			var size int
			dst, size = appendUnicodeEscape(dst, raw[i:])
			raw = raw[i+size:]
			continue
		}
		if plain := unescaped[c]; plain != 0 {
			dst = append(dst, plain)
		} else {
			dst = append(dst, '\\', c)
		}
		raw = raw[i+2:]
	}
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendUnicodeEscape appends the character of the \u escape, or pair of them, that raw starts with.
func appendUnicodeEscape(dst, raw []byte) (_ []byte, size int) {
	r, ok := hex4(raw, 2)
	if !ok {
		return append(dst, `\u`...), 2
	}
	if isHighSurrogate(r) && hasPrefixAt(raw, 6, `\u`) {
		if low, ok := hex4(raw, 8); ok && isLowSurrogate(low) {
			return utf8.AppendRune(dst, 0x10000+(r-0xD800)<<10|(low-0xDC00)), 12
		}
	}
	return utf8.AppendRune(dst, r), 6
}
