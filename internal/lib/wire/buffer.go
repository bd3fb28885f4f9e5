package wire

import "sync"

// buffers keeps the memory of encoded requests, the largest allocation of a call, for the next
// ones.
var buffers sync.Pool

// maxBuffer is the capacity up to which a buffer is kept.
const maxBuffer = 2 << 20

// Buffer returns an empty slice with a capacity of at least size bytes.
func Buffer(size int) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

// Recycle takes back a slice from Buffer, which may have grown. It must not be used any more.
func Recycle(b []byte) {
	if b != nil && cap(b) <= maxBuffer {
		buffers.Put(&b)
	}
}
