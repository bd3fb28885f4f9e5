package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// marks are the bytes of a block of 64 that matter in a string: bit n stands for the n-th byte. Looking at a whole block
// first and at single bytes only when something is unusual spares the processor the guess, at each byte, of what comes
// next.
type marks struct {
	quotes      uint64
	backslashes uint64
	others      uint64 // control characters and bytes that are not ASCII
	short       uint64 // bytes that make a short escape behind a backslash; only asked there
}

// mark fills m with the block of data that begins at i, and says how many bytes there were: fewer than 64 only at the
// end of data.
func (m *marks) mark(data []byte, i int) int {
	if i+64 <= len(data) {
		markBlock((*[64]byte)(data[i:]), m)
		return 64
	}
	var rest [64]byte
	n := copy(rest[:], data[min(i, len(data)):])
	markBlock(&rest, m)
	m.others &= 1<<n - 1
	return n
}

// escaped marks the bytes that stand behind a backslash which is not itself escaped. carry is 1 when the first byte of
// the block is one of them, and the result's carry says the same of the next block.
//
// A run of backslashes escapes what follows it if its length is odd. Adding the first bits of the runs that begin at odd
// places to all backslashes carries through these runs and leaves a bit behind each; comparing that with even and
// odd places tells the lengths.
func (m *marks) escaped(carry uint64) (escaped, next uint64) {
	const even = 0x5555555555555555
	backslashes := m.backslashes &^ carry
	if backslashes == 0 {
		return carry, 0
	}
	behind := backslashes<<1 | carry
	sum, next := bits.Add64(backslashes&^even&^behind, backslashes, 0)
	return (even ^ sum<<1) & behind, next
}

// before has the bits below the lowest of m; all, when m has none.
func before(m uint64) uint64 { return m&-m - 1 }

// markWords is markBlock for any processor: eight bytes at a time, each in its own lane. Without their top bits, lanes
// cannot carry into each other.
func markWords(b *[64]byte, m *marks) {
	*m = marks{}
	for word := 0; word < 64; word += 8 {
		x := binary.LittleEndian.Uint64(b[word:])
		low := x &^ tops
		notQuote := (low ^ lanes*'"') + lanes*0x7F | x
		notBackslash := (low ^ lanes*'\\') + lanes*0x7F | x
		plain := (low + lanes*(0x80-' ')) &^ x
		m.quotes |= gather(^notQuote) << word
		m.backslashes |= gather(^notBackslash) << word
		m.others |= gather(^plain) << word
	}
	for behind := m.backslashes<<1 | 1; behind != 0; behind &= behind - 1 {
		if simpleEscape[b[bits.TrailingZeros64(behind)]] {
			m.short |= behind & -behind
		}
	}
}

// gather collects the top bits of the lanes in one byte.
func gather(x uint64) uint64 { return x & tops * 0x0002040810204081 >> 56 }
