package conversation

import (
	"context"
	"crypto/sha256"
	"sync"

	"perigee/internal/langserver/trajectory"
	"perigee/internal/lib/lru"
)

// maxKept is the maximum number of conversations kept for the next message.
const maxKept = 64

// A conversation is a conversation of the language server, and the events reported of it.
type conversation struct {
	cascade string
	cursor  trajectory.Cursor
}

// ends waits for the end of a turn, successful or not.
func (c *conversation) ends(ctx context.Context, client Client) {
	for event, err := range client.Follow(ctx, c.cascade, &c.cursor) {
		if err != nil || event.Kind == trajectory.KindDone {
			return
		}
	}
}

// A historyKey identifies the turns of a chat together with the client key and the model.
type historyKey [sha256.Size]byte

// conversations holds the conversations that a client may continue. The zero value is empty.
type conversations[C comparable] struct {
	mu  sync.Mutex
	lru lru.Map[historyKey, C]
}

// take removes and returns the conversation with this history: two calls with the same history get
// two conversations.
func (k *conversations[C]) take(key historyKey) (C, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.lru.Get(key)
	k.lru.Delete(key)
	return c, ok
}

// keep adds a conversation, and returns the ones that it displaces.
func (k *conversations[C]) keep(key historyKey, c C) (dropped []C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, ok := k.lru.Get(key); ok {
		dropped = append(dropped, before)
	}
	k.lru.Put(key, c)
	for k.lru.Len() > maxKept {
		keys := k.lru.Keys()
		last := keys[len(keys)-1]
		oldest, _ := k.lru.Get(last)
		k.lru.Delete(last)
		dropped = append(dropped, oldest)
	}
	return dropped
}

// drop removes a conversation, and reports whether it was kept.
func (k *conversations[C]) drop(key historyKey, c C) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.lru.Get(key)
	if ok = ok && kept == c; ok {
		k.lru.Delete(key)
	}
	return ok
}

// clear removes all conversations, and returns them.
func (k *conversations[C]) clear() (dropped []C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.lru.Keys() {
		c, _ := k.lru.Get(key)
		dropped = append(dropped, c)
	}
	k.lru.Clear()
	return dropped
}
