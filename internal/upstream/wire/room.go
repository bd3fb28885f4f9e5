package wire

import "sync"

// rooms keeps the memory that requests were written into for the next ones: they are the largest thing that a call allocates.
var rooms sync.Pool

// maxRoom is up to which size it does.
const maxRoom = 2 << 20

// Room returns an empty slice with room for about size bytes.
func Room(size int) []byte {
	if room, ok := rooms.Get().(*[]byte); ok && cap(*room) >= size {
		return (*room)[:0]
	}
	return make([]byte, 0, size)
}

// GiveBack takes memory back that came from Room, possibly grown since. It must not be used any more.
func GiveBack(room []byte) {
	if room != nil && cap(room) <= maxRoom {
		rooms.Put(&room)
	}
}
