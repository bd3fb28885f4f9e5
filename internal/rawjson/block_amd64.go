package rawjson

import "golang.org/x/sys/cpu"

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

//go:noescape
func markBlockAVX2(b *[64]byte, m *marks)

//go:noescape
func markBlockSSE2(b *[64]byte, m *marks)
