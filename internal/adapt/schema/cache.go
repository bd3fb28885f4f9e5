package schema

import (
	"slices"
	"sync"

	"perigee/internal/lib/lru"
)

// CacheBytes is how much a Cache for all clients of a gateway needs: some twenty agents with forty
// tools each.
const CacheBytes = 4 << 20

// A Cache cleans schemas and caches the results, least recently used first out: an agent declares
// the same tools in every request. Results are shared: callers must not change them. It is safe for
// concurrent use. A nil Cache cleans, too, without caching.
type Cache struct {
	mu      sync.Mutex
	entries lru.Map[cacheKey, cacheEntry]
}

type cacheKey struct {
	rules
	raw string
}

type cacheEntry struct {
	result    Result
	unchanged bool // the result equals the input; result.Schema is not kept then
}

// NewCache returns a Cache that keeps at most so many bytes of schemas and results.
func NewCache(bytes int) *Cache {
	return &Cache{entries: lru.Map[cacheKey, cacheEntry]{MaxCost: bytes, Cost: cost}}
}

// Clean returns the schema of a tool's parameters as models of the family accept it: always an
// object schema, also if raw is not one. It does not keep or change raw, but the result may share
// its bytes.
//
// Equal bytes give equal bytes, and cleaning is idempotent. Time is linear in len(raw), also where
// references would multiply: they add at most a few times the input, and the rest is cut with a
// hint.
func (c *Cache) Clean(raw []byte, family Family) Result {
	return c.clean(raw, rules{family: family})
}

// CleanSparing is Clean for one of so many schemas that even the small ones must not grow by much.
func (c *Cache) CleanSparing(raw []byte, family Family) Result {
	return c.clean(raw, rules{family: family, sparing: true})
}

// CleanResponse is Clean for the schema of an answer: of any type, without placeholders, and with
// numbers in enumerations, which the provider accepts only there.
func (c *Cache) CleanResponse(raw []byte, family Family) Result {
	return c.clean(raw, rules{family: family, response: true})
}

func (c *Cache) clean(raw []byte, r rules) Result {
	if c == nil || len(raw) > c.entries.MaxCost/8 {
		return clean(raw, r) // one large schema would push out all that is remembered
	}
	key := cacheKey{r, string(raw)}
	if e, ok := c.find(key); ok {
		if e.unchanged {
			e.result.Schema = raw
		}
		return e.result
	}
	result := clean(raw, r)
	result.Changes = slices.Clip(result.Changes) // appending must not write into the shared array
	e := cacheEntry{result: result}
	if len(raw) > 0 && &raw[0] == &result.Schema[0] {
		e.unchanged, e.result.Schema = true, nil // the request owns it
	} else {
		e.result.Schema = slices.Clip(slices.Clone(result.Schema)) // without the space for growth
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Put(key, e)
	return result
}

func (c *Cache) find(key cacheKey) (cacheEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries.Get(key)
}

// cost returns about how many bytes an entry takes.
func cost(key cacheKey, e cacheEntry) int {
	// The sizes of an entry in the map and the list, and of a change without its texts.
	const entry, change = 300, 48
	n := entry + len(key.raw) + len(e.result.Schema)
	for _, c := range e.result.Changes {
		n += change + len(c.Keyword) + len(c.Path)
	}
	return n
}
