package anthropic

import (
	"crypto/sha256"
	"io"
	"sync"
	"time"
)

// unit is a part of the prompt that may end with a breakpoint of the cache: a tool, a block of the
// system prompt, or a block of a message.
type unit struct {
	node node
	role string // of a message; "tools" and "system" otherwise
	size int    // bytes that count as tokens
}

// units lists the prompt in the order of the cache.
func (r *Request) units() []unit {
	var out []unit
	for _, t := range r.Tools {
		out = append(out, unit{t.node, "tools", t.size()})
	}
	for _, b := range readBlocks(r.root.get("system")) {
		out = append(out, unit{b.node, "system", b.size()})
	}
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			out = append(out, unit{b.node, m.Role, b.size()})
		}
	}
	return out
}

// write adds the content of the unit to a digest. Its breakpoint is not part of it, and a string is
// the same as one text.
func (u unit) write(h io.Writer) {
	io.WriteString(h, u.role)
	if u.node.kind() == '"' {
		io.WriteString(h, "text")
		h.Write(u.node.raw)
		return
	}
	plain := u.node.get("type").text() == "text"
	for i, key := range u.node.keys {
		if key != "cache_control" && !(plain && key == "type") {
			io.WriteString(h, key)
			h.Write(u.node.kids[i].raw)
		}
	}
}

// Charge is how the tokens of a prompt are charged. Input is the rest that no breakpoint covers.
type Charge struct {
	Input, Read, Write5m, Write1h int
}

// lookBack is the number of units before a breakpoint at which an earlier prefix may end.
const lookBack = 20

// maxPrefixes limits the cache; the oldest are removed first.
const maxPrefixes = 8192

// Cache holds the prefixes that earlier requests marked. All methods may be used concurrently.
type Cache struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
	order [][sha256.Size]byte
}

// Clear forgets all prefixes.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.order = nil, nil
}

// Charge looks the prompt up, stores its marked prefixes, and returns what they cost. Prefixes of
// different owners, models and thinking are different.
func (c *Cache) Charge(r *Request, owner string, now time.Time) Charge {
	charge := Charge{Input: r.Tokens}
	marks := r.markedUnits()
	if len(marks) == 0 {
		return charge
	}
	units := r.units()
	sums, tokens := r.prefixes(units, owner)

	c.mu.Lock()
	defer c.mu.Unlock()
	found := -1
	for at := range marks {
		for i := at; i >= 0 && i > at-lookBack && i > found; i-- {
			if now.Before(c.until[sums[i]]) {
				found = i
			}
		}
	}
	covered := 0
	if found >= 0 {
		charge.Read = tokens[found]
		covered = tokens[found]
	}
	for at := range units {
		ttl := marks[at]
		if ttl == 0 || tokens[at] < r.Model.CacheFloor {
			continue
		}
		if at > found {
			if ttl == time.Hour {
				charge.Write1h += tokens[at] - covered
			} else {
				charge.Write5m += tokens[at] - covered
			}
			covered = tokens[at]
		}
		c.store(sums[at], now.Add(ttl))
	}
	charge.Input -= charge.Read + charge.Write5m + charge.Write1h
	return charge
}

func (c *Cache) store(sum [sha256.Size]byte, until time.Time) {
	if c.until == nil {
		c.until = map[[sha256.Size]byte]time.Time{}
	}
	before, known := c.until[sum]
	if !known {
		c.order = append(c.order, sum)
	}
	if until.After(before) {
		c.until[sum] = until
	}
	if len(c.order) > maxPrefixes {
		delete(c.until, c.order[0])
		c.order = c.order[1:]
	}
}

// prefixes returns for each unit the digest and the tokens of the prompt up to its end.
func (r *Request) prefixes(units []unit, owner string) (sums [][sha256.Size]byte, tokens []int) {
	chain := sha256.Sum256([]byte(owner + "\x00" + r.Model.ID))
	size, mixed := 0, false
	for _, u := range units {
		h := sha256.New()
		h.Write(chain[:])
		if !mixed && u.role != "tools" && u.role != "system" {
			mixed = true
			for _, name := range []string{"thinking", "output_config", "tool_choice"} {
				io.WriteString(h, name)
				h.Write(r.root.get(name).raw)
			}
		}
		u.write(h)
		chain = [sha256.Size]byte(h.Sum(nil))
		size += u.size
		sums, tokens = append(sums, chain), append(tokens, (size+bytesPerToken-1)/bytesPerToken)
	}
	return sums, tokens
}

// markedUnits returns the lifetime of each breakpoint, by the index of its unit. A breakpoint inside
// the result of a tool is at the end of the result.
func (r *Request) markedUnits() map[int]time.Duration {
	lifetime := map[string]time.Duration{"5m": 5 * time.Minute, "1h": time.Hour}
	out := map[int]time.Duration{}
	units := r.units()
	for i, u := range units {
		for _, m := range markOf("", u.node) {
			out[i] = lifetime[m.ttl]
		}
		for _, inner := range u.node.get("content").kids {
			for _, m := range markOf("", inner) {
				out[i] = lifetime[m.ttl]
			}
		}
	}
	if whole := markOf("", r.root); len(whole) > 0 && len(units) > 0 {
		out[len(units)-1] = lifetime[whole[0].ttl]
	}
	return out
}
