//go:build !amd64

package rawjson

func markBlock(b *[64]byte, m *marks) { markWords(b, m) }
