package perigee

import "sync/atomic"

// A Buffer counts the users of memory that holds a body. It is recycled when the last user has
// released it. A nil Buffer recycles nothing.
type Buffer struct {
	users atomic.Int32
	free  func()
}

// NewBuffer returns a Buffer with one user. free recycles the memory; it may run in any goroutine.
func NewBuffer(free func()) *Buffer {
	b := &Buffer{free: free}
	b.users.Store(1)
	return b
}

// Retain adds a user, which has to call Release. It returns false if the memory was recycled already.
func (b *Buffer) Retain() bool {
	for {
		n := b.users.Load()
		if n <= 0 {
			return false
		}
		if b.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release removes a user, which must not read the memory any more. After the last one, the Buffer
// no longer refers to the memory.
func (b *Buffer) Release() {
	if b != nil && b.users.Add(-1) == 0 {
		b.free()
		b.free = nil
	}
}
