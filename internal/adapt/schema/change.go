package schema

import (
	"cmp"
	"slices"

	"perigee"
)

// An Action is a change of a keyword.
type Action string

// The actions. Only the last three lose something that a model could have used.
const (
	Moved     Action = "moved"     // from a keyword to the description
	Merged    Action = "merged"    // alternatives or conditions into one schema
	Inlined   Action = "inlined"   // a definition in place of a reference to it
	Repaired  Action = "repaired"  // it was not valid JSON Schema
	Added     Action = "added"     // the provider demands it
	Shortened Action = "shortened" // a part of it is left, or a few words in the description
	Cut       Action = "cut"       // an endless reference, or too much nesting
	Dropped   Action = "dropped"   // nothing is left of it
)

// actions is the order of changes.
var actions = []Action{Moved, Merged, Inlined, Repaired, Added, Shortened, Cut, Dropped}

// Loses reports whether a model sees less than the original schema.
func (a Action) Loses() bool { return a == Shortened || a == Cut || a == Dropped }

// A Change is an action on a keyword, or on the "schema", reported once for all its occurrences.
// Path is where something was lost first, as "filter.tags[]"; it is empty for the schema itself,
// and if nothing was lost.
type Change struct {
	Action  Action
	Keyword string
	Path    string
}

// String returns the change as a note shows it: "moved pattern", "dropped if at filter".
func (c Change) String() string {
	if c.Path == "" {
		return string(c.Action) + " " + c.Keyword
	}
	return string(c.Action) + " " + c.Keyword + " at " + c.Path
}

const (
	maxUnknown = 16 // names that are not keywords are reported
	maxName    = 60 // bytes of each
	maxPath    = 80 // bytes of a path
)

// note records an action on a keyword of the schema that is being written, once.
func (c *cleaner) note(a Action, keyword string) {
	if slices.ContainsFunc(c.changes, func(o Change) bool { return o.Action == a && o.Keyword == keyword }) {
		return
	}
	change := Change{Action: a, Keyword: keyword}
	if a.Loses() {
		change.Path = c.where()
	}
	c.changes = append(c.changes, change)
}

// noteUnknown records that a name was dropped because it is not a keyword.
func (c *cleaner) noteUnknown(name string) {
	if c.unknown < maxUnknown {
		before := len(c.changes)
		c.note(Dropped, perigee.Clip(name, maxName))
		c.unknown += len(c.changes) - before
	}
}

// items represents the elements of an array in a path; a property of this name looks the same.
const items = "[]"

// where returns the path of the schema that is being written.
func (c *cleaner) where() string {
	path := ""
	for i, name := range c.path {
		if len(path) > maxPath {
			break
		}
		if i > 0 && name != items {
			path += "."
		}
		path += name
	}
	return perigee.Clip(path, maxPath)
}

// listChanges returns all changes: by action and keyword, unknown names last.
func (c *cleaner) listChanges() []Change {
	position := func(keyword string) int {
		switch k := byName[keyword]; {
		case k != nil:
			return k.position
		case keyword == "schema":
			return 0
		}
		return len(byName) + 1
	}
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(actions, a.Action), slices.Index(actions, b.Action)),
			cmp.Compare(position(a.Keyword), position(b.Keyword)))
	})
	return c.changes
}
