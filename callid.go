package perigee

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// NewCallID names a call that begins now: ten digits of when it came, in milliseconds, and ten of chance. Names that grow put
// the rows of calls that came together side by side in the store; names by chance alone would change a page of its index for
// each.
func NewCallID(now time.Time) string {
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // never fails
	id := make([]byte, 0, 20)
	id = appendDigits(id, uint64(now.UnixMilli()))
	return string(appendDigits(id, binary.LittleEndian.Uint64(chance[:])))
}

// appendDigits appends the lowest fifty bits of n, five in a digit. The digits sort as their values do, and none of them looks
// like another.
func appendDigits(dst []byte, n uint64) []byte {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	for shift := 45; shift >= 0; shift -= 5 {
		dst = append(dst, digits[n>>shift&31])
	}
	return dst
}
