package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// These functions find the ends of values in a checked text. In other texts they may end anywhere
// up to len(data).

// skipValue returns the offset after the value that starts at i.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return len(data)
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipOut(data, i+1, 1)
	}
	return skipScalar(data, i)
}

// skipString returns the offset after the string with its opening quote at i.
func skipString(data []byte, i int) int {
	start := i + 1
	for from := start; ; {
		n := bytes.IndexByte(data[from:], '"')
		if n < 0 {
			return len(data)
		}
		quote := from + n
		backslashes := quote
		for backslashes > start && data[backslashes-1] == '\\' {
			backslashes--
		}
		if (quote-backslashes)%2 == 0 {
			return quote + 1
		}
		from = quote + 1
		start = from // a later quote has to look back only to an escaped quote
	}
}

// skipScalar returns the offset after the number or literal that starts at i.
func skipScalar(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ',', ']', '}', ' ', '\n', '\t', '\r', ':', '"', '{', '[':
			return i
		}
		i++
	}
	return i
}

// skipOut returns the offset after the bracket that closes the depth-th container around i; i is
// not in a string.
func skipOut(data []byte, i, depth int) int {
	for {
		if i = skipToBracket(data, i); i >= len(data) {
			return len(data)
		}
		switch data[i] {
		case '"':
			i = skipString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// skipToBracket returns the offset of the next quote or bracket. Setting bit 0x20 maps [ to { and ]
// to }.
func skipToBracket(data []byte, i int) int {
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		y := x | lanes*0x20
		quote := (x ^ lanes*'"') - lanes
		opening := (y ^ lanes*'{') - lanes
		closing := (y ^ lanes*'}') - lanes
		m := (quote | opening | closing | x) & tops
		if m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			if data[i] < 0x80 {
				return i
			}
			i++
			continue
		}
		i += 8
	}
	for i < len(data) {
		switch data[i] {
		case '"', '{', '[', '}', ']':
			return i
		}
		i++
	}
	return i
}
