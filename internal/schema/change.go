package schema

import (
	"math/bits"
	"slices"
)

// An Action is what was done to a keyword.
type Action string

// The actions. Only the last three lose something that a model could have used.
const (
	Moved     Action = "moved"     // from a keyword to the description
	Merged    Action = "merged"    // alternatives or conditions into one schema
	Inlined   Action = "inlined"   // a definition in place of a reference to it
	Mended    Action = "mended"    // it was not what JSON Schema says it should be
	Added     Action = "added"     // the provider demands it
	Shortened Action = "shortened" // a part of it is left, or a few words in the description
	Cut       Action = "cut"       // a reference without end, or more nesting than the provider reads
	Dropped   Action = "dropped"   // nothing is left of it
)

// Loses says whether a model sees less than the schema said.
func (a Action) Loses() bool { return a == Shortened || a == Cut || a == Dropped }

// A Change is one thing that was done, however often. Keyword is the keyword it was done to. Path is where something was lost first,
// as "filter.tags[]"; it is empty for the schema itself, and where nothing was lost.
type Change struct {
	Action  Action
	Keyword string
	Path    string
}

// String is the change as a person would say it: "moved pattern", "dropped if at filter".
func (c Change) String() string {
	if c.Path == "" {
		return string(c.Action) + " " + c.Keyword
	}
	return string(c.Action) + " " + c.Keyword + " at " + c.Path
}

// A deed is an Action by its number.
type deed uint8

const (
	moved deed = iota
	merged
	inlined
	mended
	added
	shortened
	cut
	dropped
	deeds
)

var actions = [deeds]Action{Moved, Merged, Inlined, Mended, Added, Shortened, Cut, Dropped}

// changes are gathered as bits, so that noting the same thing ten thousand times costs nothing.
type changes struct {
	words [deeds][2]uint64
	paths map[loss]string // where each loss was first
	other []Change        // dropped names that are no keywords
}

// A loss is a keyword and what was done to it.
type loss struct {
	deed deed
	word word
}

// note keeps what was done to a keyword of the schema that is being written.
func (c *cleaner) note(d deed, w word) {
	bit := uint64(1) << (w % 64)
	set := &c.changes.words[d][w/64]
	if *set&bit == 0 && actions[d].Loses() && len(c.path) > 0 {
		if c.changes.paths == nil {
			c.changes.paths = map[loss]string{}
		}
		c.changes.paths[loss{d, w}] = c.where()
	}
	*set |= bit
}

// where is the path of the schema that is being written.
func (c *cleaner) where() string {
	path := c.scratchPath[:0]
	for i, key := range c.path {
		if len(path) > maxPath {
			break
		}
		switch {
		case key == 0:
			path = append(path, "[]"...)
			continue
		case i > 0:
			path = append(path, '.')
		}
		path = append(path, c.nameOf(key)...)
	}
	c.scratchPath = path
	return string(clip(path, maxPath))
}

// maxOther is how many unknown names are worth repeating, and maxName how much of each.
const (
	maxOther = 16
	maxName  = 60
	maxPath  = 80
)

func (c *cleaner) unknown(name []byte) {
	other := c.changes.other
	if len(other) >= maxOther {
		return
	}
	short := string(clip(name, maxName))
	if !slices.ContainsFunc(other, func(o Change) bool { return o.Keyword == short }) {
		c.changes.other = append(other, Change{Action: Dropped, Keyword: short, Path: c.where()})
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
				w := word(half*64 + bits.TrailingZeros64(set))
				all = append(all, Change{Action: a, Keyword: words[w].name, Path: c.paths[loss{deed(i), w}]})
			}
		}
	}
	return append(all, c.other...)
}
