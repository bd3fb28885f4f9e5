// Package schema turns the JSON Schema of a tool, or of an answer, into the part of it that the Antigravity gateway
// takes. Clients send whatever their own provider understands; the gateway reads a fixed message and refuses every
// keyword that it does not know. What a keyword said is kept where it can be: references are written out, unions and
// allOf are merged, constraints become words in the description, malformed nodes are mended.
//
// It is pure and never fails. It does not validate values, does not look at conversations, and knows nothing of how a
// tool is declared around its schema: it is given one schema and returns one. What prepares prompts for Antigravity
// calls it, and on the way back takes out of a call's arguments what was only put in to please the provider.
package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"perigee/internal/rawjson"
)

// A Family says whose rules a schema has to follow. Claude's are the narrower ones; what fits them fits everywhere.
type Family int

// The families.
const (
	Claude Family = iota
	Gemini
)

// A Result is a schema that the provider takes, and what was done to get it.
type Result struct {
	Schema  json.RawMessage // the bytes given, when they needed no change
	Changes []Change        // each once, in a fixed order; spelling, $schema and the like are not worth one

	// Placeholder says that objects without properties were given one, so that TakeOutPlaceholder has to see the
	// arguments of every call of this tool.
	Placeholder bool
}

// Clean returns the schema of a tool's parameters as models of the family take it: always an object schema, whatever
// raw is. It does not keep or change raw, but the result may share its bytes.
//
// Equal bytes give equal bytes, and cleaning what was cleaned changes nothing. Time is linear in len(raw), also where
// references would multiply: what they add is limited to a few times the input, and the rest is cut with a hint.
func Clean(raw []byte, family Family) Result {
	return clean(raw, rules{family: family})
}

// CleanSparing is Clean for one of so many schemas that even the small ones must not grow by much.
func CleanSparing(raw []byte, family Family) Result {
	return clean(raw, rules{family: family, sparing: true})
}

// CleanResponse is Clean for the schema of an answer: of any type, without placeholders, and with numbers in
// enumerations, which the provider knows only there.
func CleanResponse(raw []byte, family Family) Result {
	return clean(raw, rules{family: family, response: true})
}

// rules is what differs between the kinds of schemas.
type rules struct {
	family   Family
	response bool
	sparing  bool
}

// A cleaner is one schema on its way. Everything in it is reused for the next one.
type cleaner struct {
	rules
	tape
	out     []byte
	frames  []*frame // one for each level that is being written
	pending []source // branches of the unions that are being merged
	scratch []byte
	values  []int32 // of an enumeration that is looked at

	refs        map[string]int32           // what references point at, as far as they were followed
	indexes     map[int32]map[string]int32 // members of large objects that references go through
	definitions map[string]int32           // by their bare names, when a reference does not say where they are

	visits                int // nodes looked at, each time
	work, maxWork, maxOut int // what references have cost, and when to stop following them

	path        []int32 // the properties that lead to the schema that is being written; 0: the items of an array
	scratchPath []byte
	changes     changes
	placeholder bool
}

var cleaners = sync.Pool{New: func() any { return new(cleaner) }}

func clean(raw []byte, r rules) Result {
	c := cleaners.Get().(*cleaner)
	defer c.release()
	if len(raw) > maxValues && valuesIn(raw) > maxValues {
		result := c.run([]byte("null"), r)
		result.Changes = append(result.Changes, Change{Action: Dropped, Keyword: "everything, because it has too many values"})
		return result
	}
	return c.run(raw, r)
}

func (c *cleaner) run(raw []byte, r rules) Result {
	c.rules = r
	if len(raw) > maxInput || rawjson.Check(raw) != nil {
		raw = []byte("null")
	}
	c.read(raw)
	at := inside
	if !r.response {
		at = top
	}
	if height := c.accepted(root, at); height != dirty && height <= maxDepth+1 {
		return Result{Schema: raw}
	}
	c.maxWork, c.maxOut = 4*len(c.nodes), 4*len(raw)
	if !r.sparing { // references may write out a small schema to a usual size
		c.maxWork += 20_000
		c.maxOut += 64 << 10
	}
	c.out = slices.Grow(c.out, len(raw)+len(raw)/4)
	c.emit(source{node: root}, nil, 0, at)
	result := Result{Schema: c.out, Changes: c.changes.list(), Placeholder: c.placeholder}
	if cap(c.out) > usual {
		c.out = nil // given away
	} else {
		result.Schema = slices.Clone(result.Schema)
	}
	return result
}

// usual is how much memory is worth keeping for the next schema.
const usual = 1 << 20

// maxInput keeps offsets within 32 bits.
const maxInput = 1 << 30

// maxValues is how many values a schema may have. Each takes up to 500 bytes while the schema is cleaned; the largest schemas of real
// tools have a few thousand values.
const maxValues = 1 << 16

// valuesIn is how many values a JSON text has at most: signs in strings count, too.
func valuesIn(raw []byte) int {
	return bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("[")) + 1
}

// release gives the cleaner back, without what only an unusual schema needed.
func (c *cleaner) release() {
	const nodeSize = 36
	c.data, c.nodes, c.out, c.pending = nil, c.nodes[:0], c.out[:0], c.pending[:0]
	if cap(c.nodes)*nodeSize > usual {
		c.nodes = nil
	}
	if len(c.frames) > 16 {
		c.frames = c.frames[:16:16]
	}
	for _, f := range c.frames {
		f.release()
	}
	c.refs, c.indexes, c.definitions = nil, nil, nil
	c.scratch = c.scratch[:0]
	if cap(c.values)+cap(c.pending) > usual/8 {
		c.values, c.pending = nil, nil
	}
	c.visits, c.work, c.changes, c.placeholder = 0, 0, changes{}, false
	c.path, c.scratchPath = c.path[:0], c.scratchPath[:0]
	cleaners.Put(c)
}
