package account

import (
	"math/bits"
	"slices"

	"perigee/internal/models"
)

// A group is a set of models that the provider counts together.
type group string

const (
	groupGemini  group = "gemini"
	groupThird   group = "claude" // and gpt-oss, which the provider counts with it
	groupImage   group = "image"
	groupOther   group = "other"
	groupControl group = "" // calls that ask no model
)

// formerThird is what groupThird was called in stores before.
const formerThird = "claude+gpt-oss"

func groupOf(want Want) group {
	if want.Model == "" && want.Family == models.Other {
		return groupControl
	}
	family := want.Family
	if family == models.Other {
		family = models.Of(want.Model).Family
	}
	switch family {
	case models.Gemini, models.Gemini2:
		return groupGemini
	case models.Claude, models.GPTOSS:
		return groupThird
	case models.Image:
		return groupImage
	}
	return groupOther
}

// A lane is one way for calls: a group of models in a pool of quota. What an account may do in one lane says nothing
// about the others.
type lane struct {
	id    int // place in Pool.lanes and member.slots
	group group
	pool  string

	ready    bitset            // members that are in use and do not rest here
	outlooks []outlook         // of all members
	lacking  map[string]bitset // by model: members that were found not to have it
	spared   map[string]bitset // by model: members with so little left that others go first

	current *member // whom sticky stays with
	turn    int     // whose turn it was last

	strange  sighting // who was last refused without a reason
	served   instant  // when somebody was last answered
	probedAt instant  // when a rest was last cut short to see whether it is still needed
}

// maxLanes is how many lanes newLanes makes at most.
const maxLanes = 6

func newLanes(pools []string) []*lane {
	var lanes []*lane
	add := func(g group, pool string) {
		lanes = append(lanes, &lane{id: len(lanes), group: g, pool: pool, turn: -1, lacking: map[string]bitset{}, spared: map[string]bitset{}})
	}
	for i, pool := range pools {
		if (pool == PoolAntigravity || pool == PoolCLI) && !slices.Contains(pools[:i], pool) {
			add(groupGemini, pool)
		}
	}
	if slices.Contains(pools, PoolAntigravity) {
		add(groupThird, PoolAntigravity)
		add(groupImage, PoolAntigravity)
		add(groupOther, PoolAntigravity)
	}
	add(groupControl, PoolAntigravity) // lists and counts are no matter of quota
	return lanes
}

// A bitset is a set of members by their index. All sets of a pool have the same length, or are nil. Who was removed has
// the index -1 and is in none.
type bitset []uint64

func newBitset(members int) bitset { return make(bitset, (members+63)/64) }

func (s bitset) has(i int) bool { return i >= 0 && i>>6 < len(s) && s[i>>6]&(1<<(i&63)) != 0 }

func (s bitset) set(i int, on bool) {
	if on {
		s[i>>6] |= 1 << (i & 63)
	} else {
		s[i>>6] &^= 1 << (i & 63)
	}
}

func (s bitset) empty() bool {
	return !slices.ContainsFunc(s, func(word uint64) bool { return word != 0 })
}

// A choice is the set of members that may be taken, worked out word by word where somebody looks.
type choice struct {
	from    bitset
	without [4]bitset // nil: nobody
}

func (c *choice) word(i int) uint64 {
	word := c.from[i]
	for _, s := range c.without {
		if s != nil {
			word &^= s[i]
		}
	}
	return word
}

func (c *choice) has(i int) bool {
	return i >= 0 && i>>6 < len(c.from) && c.word(i>>6)&(1<<(i&63)) != 0
}

// next is the first member of the choice behind another, round and round; -1 when there is none.
func (c *choice) next(behind int) int {
	words := len(c.from)
	start := behind + 1
	if words == 0 {
		return -1
	}
	if start>>6 >= words {
		start = 0
	}
	first := start >> 6
	if word := c.word(first) >> (start & 63) << (start & 63); word != 0 {
		return first<<6 + bits.TrailingZeros64(word)
	}
	for step := 1; step <= words; step++ {
		i := (first + step) % words
		if word := c.word(i); word != 0 {
			return i<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// all goes through the members of the choice.
func (c *choice) all(yield func(i int) bool) {
	for i := range c.from {
		for word := c.word(i); word != 0; word &= word - 1 {
			if !yield(i<<6 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// all goes through the members of a set.
func (s bitset) all(yield func(i int) bool) { (&choice{from: s}).all(yield) }

// usable is who can be lent to a call in a lane. With spared it includes those of whom little is left.
func (p *Pool) usable(b *borrowing, l *lane, spared bool) choice {
	c := choice{from: l.ready, without: [4]bitset{p.busy, l.lacking[b.want.Model]}}
	if !spared {
		c.without[2] = l.spared[b.want.Model]
	}
	if len(b.tokenless) > 0 {
		s := newBitset(len(p.members))
		for _, m := range b.tokenless {
			if m.index >= 0 {
				s.set(m.index, true)
			}
		}
		c.without[3] = s
	}
	return c
}
