package rawjson

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2

// markBlock is markWords in a small part of the time. Strings are most of what Check looks at, and checking is most of
// what a request costs that goes on as it came.
func markBlock(b *[64]byte, m *marks) {
	if hasAVX2 {
		markBlockAVX2(b, m)
	} else {
		markBlockSSE2(b, m)
	}
}

// passBlocks passes over the whole blocks from i on in which a string goes on and nothing in it is wrong, with the carry of
// marks.escaped into the first and out of the last of them. It may stop before any block, and does before the one in which
// the string ends; never within a character.
func passBlocks(data []byte, i int, carry uint64) (end int, next uint64, escaped bool) {
	blocks := (len(data) - i) / 64
	if blocks <= 0 || !hasAVX2 {
		return i, carry, false
	}
	passed, next, backslashes := passBlocksAVX2(&data[i], blocks, carry)
	return i + passed - cutOff(data[i:i+passed]), next, backslashes != 0
}

// cutOff is how many bytes at the end of text, which is right so far, belong to a character that goes on behind it.
func cutOff(text []byte) int {
	for n := 1; n <= 3 && n <= len(text); n++ {
		switch c := text[len(text)-n]; {
		case c < 0x80:
			return 0
		case c >= 0xC0: // it says itself how long it is: a one for each byte, in front
			if n < bits.LeadingZeros8(^c) {
				return n
			}
			return 0
		}
	}
	return 0
}

//go:noescape
func markBlockAVX2(b *[64]byte, m *marks)

//go:noescape
func markBlockSSE2(b *[64]byte, m *marks)

//go:noescape
func passBlocksAVX2(first *byte, blocks int, carry uint64) (passed int, next, backslashes uint64)
