package langserver

import (
	"crypto/sha256"
	"sync"

	"perigee/internal/lru"
	"perigee/internal/trajectory"
)

// maxKept is how many conversations are kept for the next message.
const maxKept = 64

// A conversation of the language server, and what was reported of it.
type conversation struct {
	cascade string
	cursor  trajectory.Cursor
}

// A historyKey identifies what was said, by which client key and to which model.
type historyKey [sha256.Size]byte

// conversations are those that a client may continue. The zero value is empty.
type conversations[C any] struct {
	mu  sync.Mutex
	lru lru.Map[historyKey, C]
}

// take returns the conversation with this history. It is no longer kept: two calls with the same history get two conversations.
func (k *conversations[C]) take(key historyKey) (C, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.lru.Get(key)
	k.lru.Delete(key)
	return c, ok
}

func (k *conversations[C]) keep(key historyKey, c C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.MaxEntries = maxKept
	k.lru.Put(key, c)
}

func (k *conversations[C]) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.Clear()
}
