package schema

import (
	"math/bits"
	"slices"
)

// An Action is what was done to a keyword.
type Action string

// The actions. Only Cut and Dropped lose something that a model could have used.
const (
	Moved   Action = "moved"   // from a keyword to the description
	Merged  Action = "merged"  // alternatives or conditions into one schema
	Inlined Action = "inlined" // a definition in place of a reference to it
	Mended  Action = "mended"  // it was not what JSON Schema says it should be
	Added   Action = "added"   // the provider demands it
	Cut     Action = "cut"     // a reference without end, or more nesting than the provider reads
	Dropped Action = "dropped" // nothing is left of it
)

// A Change is one thing that was done, however often. Keyword is the keyword it was done to.
type Change struct {
	Action  Action
	Keyword string
}

// String is the change as a person would say it: "moved pattern".
func (c Change) String() string { return string(c.Action) + " " + c.Keyword }

// A deed is an Action by its number.
type deed uint8

const (
	moved deed = iota
	merged
	inlined
	mended
	added
	cut
	dropped
	deeds
)

var actions = [deeds]Action{Moved, Merged, Inlined, Mended, Added, Cut, Dropped}

// changes are gathered as bits, so that noting the same thing ten thousand times costs nothing.
type changes struct {
	words [deeds][2]uint64
	other []string // dropped names that are no keywords
}

func (c *changes) note(d deed, w word) { c.words[d][w/64] |= 1 << (w % 64) }

// maxOther is how many unknown names are worth repeating, and maxName how much of each.
const (
	maxOther = 16
	maxName  = 60
)

func (c *changes) unknown(name []byte) {
	if len(c.other) >= maxOther {
		return
	}
	if short := string(clip(name, maxName)); !slices.Contains(c.other, short) {
		c.other = append(c.other, short)
	}
}

func (c *changes) list() []Change {
	count := len(c.other)
	for _, set := range c.words {
		count += bits.OnesCount64(set[0]) + bits.OnesCount64(set[1])
	}
	if count == 0 {
		return nil
	}
	all := make([]Change, 0, count)
	for i, a := range actions {
		for half, set := range c.words[i] {
			for ; set != 0; set &= set - 1 {
				all = append(all, Change{Action: a, Keyword: words[half*64+bits.TrailingZeros64(set)].name})
			}
		}
	}
	for _, name := range c.other {
		all = append(all, Change{Action: Dropped, Keyword: name})
	}
	return all
}
