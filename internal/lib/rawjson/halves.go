package rawjson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// ReplaceHalves returns a copy of a JSON text in which \ufffd is in place of each \u escape of half a
// surrogate pair, or nil if it has none. A text that was cut between the halves of a character has
// them, and Check refuses it.
func ReplaceHalves(data []byte) []byte {
	var out []byte
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\\')
		if n < 0 {
			return out
		}
		i += n
		r, ok := hex4(data, i+2)
		switch low, paired := hex4(data, i+8); {
		case !ok || data[i+1] != 'u':
			i = min(i+2, len(data))
		case !utf16.IsSurrogate(r):
			i += 6
		case paired && hasPrefixAt(data, i+6, `\u`) && utf16.DecodeRune(r, low) != utf8.RuneError:
			i += 12
		default:
			if out == nil {
				out = bytes.Clone(data)
			}
			i += copy(out[i:], `\ufffd`)
		}
	}
}
