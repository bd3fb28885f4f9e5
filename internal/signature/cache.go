package signature

import (
	"container/list"
	"sync"
	"time"

	"perigee"
)

// A cache holds signatures in memory. Beyond its limits it loses what was not used for the longest time.
type cache struct {
	maxBytes int
	maxCount int

	mu      sync.Mutex
	entries map[string]*list.Element
	order   list.List // of *entry, the latest used first
	bytes   int
}

type entry struct {
	perigee.Signature
	absent bool // the store was asked and has nothing under this key
}

// overhead is about what a signature takes beside its strings.
const overhead = 200

func size(s perigee.Signature) int { return len(s.Key) + len(s.Value) + overhead }

func (c *cache) put(s perigee.Signature, absent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	if old, ok := c.entries[s.Key]; ok {
		if absent && !old.Value.(*entry).absent {
			return // it was put here while the store was asked
		}
		c.remove(old)
	}
	e := &entry{s, absent}
	if size(e.Signature) > c.maxBytes {
		return // it would drive out all others and not fit in either
	}
	c.entries[s.Key] = c.order.PushFront(e)
	c.bytes += size(e.Signature)
	for c.bytes > c.maxBytes || c.order.Len() > c.maxCount {
		c.remove(c.order.Back())
	}
}

// get returns what is known under a key: something, that there is nothing, or neither.
func (c *cache) get(key string, now time.Time) (s *perigee.Signature, known, absent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return nil, false, false
	}
	e := at.Value.(*entry)
	if !now.Before(e.Expires) {
		c.remove(at)
		return nil, false, false
	}
	c.order.MoveToFront(at)
	return &e.Signature, !e.absent, e.absent
}

func (c *cache) remove(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.entries, e.Key)
	c.bytes -= size(e.Signature)
}
