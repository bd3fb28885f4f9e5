package rawjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Strings are searched eight bytes at a time. Each byte of such a word is tested in its own lane:
// subtracting n sets the top bit of every lane below n, and subtracting one sets it in lanes that
// are zero. A borrow may spoil lanes above, never below, and only the lowest marked lane counts.
const (
	lanes = 0x0101010101010101
	tops  = 0x8080808080808080
)

// stops marks the bytes that end a plain run in a string: quote, backslash, control characters and
// non-ASCII.
func stops(x uint64) uint64 {
	quote := (x ^ lanes*'"') - lanes
	backslash := (x ^ lanes*'\\') - lanes
	control := x - lanes*' '
	return (quote | backslash | control | x) & tops
}

// shortText returns the offset behind the closing quote of a string that begins at i, if it is plain
// and short, as most keys and many values are. Otherwise it returns 0.
func shortText(data []byte, i int) int {
	for word := i; word+8 <= len(data) && word < i+24; word += 8 {
		if m := stops(binary.LittleEndian.Uint64(data[word:])); m != 0 {
			if first := word + lowestLane(m); data[first] == '"' {
				return first + 1
			}
			break
		}
	}
	return 0
}

func lowestLane(m uint64) int { return bits.TrailingZeros64(m) >> 3 }

// skipUTF8 returns the offset after the run of non-ASCII characters that starts at i. When the run
// is not valid UTF-8 it returns the complement (^) of the offset of the first bad sequence.
func skipUTF8(data []byte, i int) int {
	for i < len(data) && data[i] >= 0x80 {
		// Most are letters with accents, or Chinese, and not at the end of the text.
		if c := data[i]; 0xC2 <= c && c < 0xE0 && i+1 < len(data) && data[i+1]&0xC0 == 0x80 {
			i += 2
			continue
		} else if 0xE0 < c && c < 0xED && i+2 < len(data) && data[i+1]&0xC0 == 0x80 && data[i+2]&0xC0 == 0x80 {
			i += 3
			continue
		}
		_, size := utf8.DecodeRune(data[i:])
		if size == 1 {
			return ^i
		}
		i += size
	}
	return i
}

func skipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// scanNumber returns where the number that starts at i ends, or the position of the first invalid
// byte if it is malformed.
func scanNumber(data []byte, i int) (end int, ok bool) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(data, i); i == start {
		return i, false
	}
	if data[start] == '0' && i > start+1 {
		return start + 1, false
	}
	if i < len(data) && data[i] == '.' {
		start = i + 1
		if i = skipDigits(data, start); i == start {
			return i, false
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(data, start); i == start {
			return i, false
		}
	}
	return i, true
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}

var simpleEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// hex4 reads the four hexadecimal digits of a \u escape.
func hex4(data []byte, i int) (r rune, ok bool) {
	if i+4 > len(data) {
		return 0, false
	}
	for _, c := range data[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func hasPrefixAt(data []byte, i int, prefix string) bool {
	return i+len(prefix) <= len(data) && string(data[i:i+len(prefix)]) == prefix
}

// wordAt is eight bytes of s as a little-endian number; the compiler makes one load of it.
func wordAt(s string, i int) uint64 {
	w := s[i : i+8]
	return uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
		uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
}

// isStop is stops for one byte.
func isStop(c byte) bool { return c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf }
