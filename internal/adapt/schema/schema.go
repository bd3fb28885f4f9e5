// Package schema turns the JSON Schema of a tool, or of an answer, into the subset that the
// Antigravity gateway accepts. Clients send schemas for their own provider; the gateway reads
// a fixed message and refuses every keyword that is not part of it. As much of a keyword's
// meaning as possible is kept: references are written out, unions and allOf are merged, constraints
// are moved into the description, malformed schemas are repaired.
//
// The schema is read into a tree of nodes. For each schema of the result, a frame gathers
// everything in the input about it (a node, the definition it refers to, the alternatives merged
// with it), and emit writes the frame.
//
// The package is pure and never fails. It does not validate values and is independent of the
// declaration around a schema: it is given one schema and returns one.
package schema

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee/internal/lib/rawjson"
)

// A Family selects the rules that a schema has to follow. Claude's are narrower; a schema that fits
// them fits Gemini, too.
type Family int

// The families.
const (
	Claude Family = iota
	Gemini
)

// A Result is a schema that the provider accepts, and the changes that were made.
type Result struct {
	Schema  json.RawMessage // the bytes given, when they needed no change
	Changes []Change        // each once, in a fixed order, without changes of spelling

	// Placeholder reports whether objects without properties were given one, so that the arguments
	// of every call of this tool have to go through TakeOutPlaceholder.
	Placeholder bool
}

// rules are the differences between the kinds of schemas, see the methods of Cache.
type rules struct {
	family   Family
	response bool
	sparing  bool
	json     bool // a JSON Schema is wanted, and nothing else counts
}

// A cleaner is the state of cleaning one schema.
type cleaner struct {
	rules
	root   *node
	values int // in the whole input
	out    rawjson.Writer

	targets     map[string]*node // of the references followed so far
	definitions map[string]*node // by name; nil until a reference needs them

	visits                int // nodes looked at, each time
	work, maxWork, maxOut int // the cost of references, and its limits

	path        []string // names of the properties that lead to the schema being written, and items
	changes     []Change
	unknown     int // changes that are names dropped because they are not keywords
	placeholder bool
}

// maxValues is how many values a schema may have. Each takes up to about 1 KB while the schema is
// cleaned; the largest schemas of real tools have a few thousand values.
const maxValues = 1 << 16

func clean(raw []byte, r rules) Result {
	if r.json {
		return Result{Schema: toJSON(raw)}
	}
	c := cleaner{rules: r}
	if len(raw) <= maxValues || valuesIn(raw) <= maxValues {
		return c.run(raw)
	}
	result := c.run([]byte("null"))
	result.Changes = append(result.Changes, Change{Action: Dropped, Keyword: "everything, because it has too many values"})
	return result
}

// valuesIn returns how many values a JSON text has at most: commas and brackets in strings count,
// too.
func valuesIn(raw []byte) int {
	return bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("[")) + 1
}

func (c *cleaner) run(raw []byte) Result {
	if rawjson.Check(raw) != nil {
		raw = []byte("null")
	}
	c.root, c.values = parse(raw, c.rules)
	top := !c.response
	if c.acceptedAt(c.root, 0, top) {
		return Result{Schema: raw}
	}
	c.maxWork, c.maxOut = 4*c.values, 4*len(raw)
	if !c.sparing { // references may write out a small schema to a usual size
		c.maxWork += 20_000
		c.maxOut += 64 << 10
	}
	c.out.Buf = make([]byte, 0, len(raw)+len(raw)/4)
	c.emit([]source{{node: c.root}}, 0, top)
	return Result{Schema: slices.Clip(c.out.Buf), Changes: c.listChanges(), Placeholder: c.placeholder}
}
