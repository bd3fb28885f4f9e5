package thoughtsig

import (
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/lru"
)

// A cache holds signatures in memory, and evicts the least recently used beyond its limits. A
// signature without a kind means that the store was asked and has nothing under the key. A cache is
// safe for concurrent use.
type cache struct {
	mu      sync.Mutex
	entries lru.Map[string, perigee.Signature]
}

// overhead is the approximate size of an entry in bytes, without its strings.
const overhead = 200

func size(s perigee.Signature) int { return len(s.Key) + len(s.Value) + overhead }

func newCache(maxBytes, maxCount int) *cache {
	return &cache{entries: lru.Map[string, perigee.Signature]{MaxEntries: maxCount, MaxCost: maxBytes,
		Cost: func(_ string, s perigee.Signature) int { return size(s) }}}
}

func (c *cache) put(s perigee.Signature) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Kind == "" {
		if old, ok := c.entries.Get(s.Key); ok && old.Kind != "" {
			return // it was added while the store was asked
		}
	}
	c.entries.Put(s.Key, s)
}

// get returns the entry of a key unless it has expired.
func (c *cache) get(key string, now time.Time) (s perigee.Signature, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok = c.entries.Get(key); ok && !now.Before(s.Expires) {
		c.entries.Delete(key)
		ok = false
	}
	return s, ok
}
