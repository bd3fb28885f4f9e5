package thoughtsig

import (
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/lru"
)

// A cache holds signatures in memory, and evicts the least recently used beyond its limits. It is
// safe for concurrent use.
type cache struct {
	mu      sync.Mutex
	entries lru.Map[string, entry]
}

type entry struct {
	perigee.Signature
	absent bool // the store was asked and has nothing under this key
}

// overhead is the approximate size of an entry in bytes, without its strings.
const overhead = 200

func size(s perigee.Signature) int { return len(s.Key) + len(s.Value) + overhead }

func newCache(maxBytes, maxCount int) *cache {
	return &cache{entries: lru.Map[string, entry]{MaxEntries: maxCount, MaxCost: maxBytes,
		Cost: func(_ string, e entry) int { return size(e.Signature) }}}
}

func (c *cache) put(s perigee.Signature, absent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if absent {
		if old, ok := c.entries.Get(s.Key); ok && !old.absent {
			return // it was added while the store was asked
		}
	}
	c.entries.Put(s.Key, entry{s, absent})
}

// get returns the entry of a key, and whether the key is known to be absent from the store.
func (c *cache) get(key string, now time.Time) (s *perigee.Signature, known, absent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	if !ok {
		return nil, false, false
	}
	if !now.Before(e.Expires) {
		c.entries.Delete(key)
		return nil, false, false
	}
	return &e.Signature, !e.absent, e.absent
}
