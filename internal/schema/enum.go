package schema

import (
	"bytes"

	"perigee/internal/rawjson"
)

// mostAllowed is how many values of an enumeration a description repeats, when the keyword has them all.
const mostAllowed = 32

const allowed = "Allowed: "

// gatherEnum takes "enum", or "const" as an enumeration of one. Only the first source that has either counts.
func (c *cleaner) gatherEnum(f *frame, enum, constant int32) {
	if f.enumDone || enum == 0 && constant == 0 {
		return
	}
	if constant != 0 {
		c.note(merged, wConst)
		f.enum = append(f.enum, constant)
		f.enumDone = true
		return
	}
	n := &c.nodes[enum]
	if n.kind != rawjson.Array {
		c.note(mended, wEnum)
		return
	}
	for i := n.first; i != 0; i = c.nodes[i].next {
		f.enum = append(f.enum, i)
	}
	f.enumDone = len(f.enum) > 0
}

// kindOfEnum is the type of all values, or string, which is what any value can be written as.
func (c *cleaner) kindOfEnum(f *frame) kind {
	common := kindUnknown
	for _, place := range f.enum {
		switch k := c.kindOfValue(place); {
		case k == kindNull || k == common:
		case common == kindUnknown:
			common = k
		case common == kindInteger && k == kindNumber || common == kindNumber && k == kindInteger:
			common = kindNumber
		default:
			return kindString
		}
	}
	if common == kindUnknown {
		return kindString
	}
	return common
}

// enumFits says whether the provider takes an enumeration of this type. All values are strings to it, so that a type of
// its own would contradict them; in the schema of an answer it knows how to read numbers.
func (r rules) enumFits(k kind) bool {
	return k == kindString || r.response && (k == kindNumber || k == kindInteger)
}

// decideEnum sorts out what can be written as an enumeration, and says the values in words as well: for the arguments
// of functions the provider does not hold the model to the keyword.
func (c *cleaner) decideEnum(f *frame, k kind) {
	values := f.enum[:0]
	for _, place := range f.enum {
		if c.nodes[place].kind == rawjson.Null {
			f.nullable = true
		} else {
			values = append(values, place)
		}
	}
	f.enum = c.distinct(values)
	if len(f.enum) == 0 {
		return
	}
	if !c.enumFits(k) {
		action := moved
		if !c.hintList(f, allowed, f.enum, len(f.enum)) {
			action = dropped
		}
		c.note(action, wEnum)
		f.enum = f.enum[:0]
		return
	}
	written := f.enum[:0]
	for _, place := range f.enum {
		if c.nodes[place].kind != rawjson.String {
			c.note(mended, wEnum)
		}
		if c.nodes[place].end-c.nodes[place].start > 2 || c.nodes[place].kind != rawjson.String {
			written = append(written, place)
		} else { // the provider refuses empty ones
			c.note(moved, wEnum)
			f.hint("may be empty")
		}
	}
	if f.enum = written; len(written) > 0 {
		c.hintList(f, allowed, written, mostAllowed)
	}
}

// distinct drops values that are the same as an earlier one when they are written as strings.
func (c *cleaner) distinct(values []int32) []int32 {
	kept := values[:0]
	var seen map[string]bool
	if len(values) > fewNames {
		seen = make(map[string]bool, len(values))
	}
	for _, place := range values {
		double := false
		if seen != nil {
			text := string(c.written(place))
			double = seen[text]
			seen[text] = true
		} else {
			for _, other := range kept {
				double = double || c.sameValue(place, other)
			}
		}
		if !double {
			kept = append(kept, place)
		}
	}
	return kept
}

// sameValue says whether two values are the same string when they are written.
func (c *cleaner) sameValue(a, b int32) bool {
	return bytes.Equal(c.raw(a), c.raw(b)) || bytes.Equal(c.written(a), c.written(b))
}

// written is a value as it stands in an enumeration, where all are strings.
func (c *cleaner) written(place int32) []byte {
	switch c.nodes[place].kind {
	case rawjson.Object, rawjson.Array:
		text, _ := c.appendCompact(nil, place, len(c.data))
		return text
	}
	return c.text(place)
}

// appendEnum appends the enumeration as strings.
func (c *cleaner) appendEnum(dst []byte, values []int32) []byte {
	dst = append(dst, '[')
	for i, place := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if c.nodes[place].kind == rawjson.String {
			dst = append(dst, c.raw(place)...)
		} else {
			dst = rawjson.AppendString(dst, string(c.written(place)))
		}
	}
	return append(dst, ']')
}
