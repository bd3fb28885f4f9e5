package rawjson

// markBlock is markWords in a tenth of the time. Strings are most of what Check looks at, and checking is most of what
// a request costs that goes on as it came.
//
//go:noescape
func markBlock(b *[64]byte, m *marks)
