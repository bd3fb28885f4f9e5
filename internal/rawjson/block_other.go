//go:build !amd64

package rawjson

func markBlock(b *[64]byte, m *marks) { markWords(b, m) }

// passBlocks passes nothing: only where a loop in assembly does it is it worth the call.
func passBlocks(_ []byte, i int, carry uint64) (end int, next uint64, escaped bool) {
	return i, carry, false
}
