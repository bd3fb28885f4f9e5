package schema

import (
	"bytes"
	"strconv"

	"perigee/internal/rawjson"
)

// fits says whether the provider can read the value of a keyword that it has.
func (c *cleaner) fits(w word, i int32) bool {
	kind := c.nodes[i].kind
	switch words[w].takes {
	case aString:
		return kind == rawjson.String
	case aCount:
		return kind == rawjson.Number && isWhole(c.raw(i), 18)
	case aNumber:
		return kind == rawjson.Number && isExact(c.raw(i))
	case aList:
		return kind == rawjson.Array
	case anything:
		return kind != rawjson.Null
	}
	return false
}

// isWhole says whether a number is written as at most so many digits and nothing else.
func isWhole(raw []byte, digits int) bool {
	raw = bytes.TrimPrefix(raw, []byte("-"))
	return len(raw) <= digits && !bytes.ContainsAny(raw, ".eE")
}

// isExact says whether a number survives being read as a 64-bit floating-point one.
func isExact(raw []byte) bool {
	if isWhole(raw, 15) {
		return true
	}
	if len(raw) > 40 || isWhole(raw, len(raw)) {
		return false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return err == nil && (f != 0 || !bytes.ContainsAny(raw, "123456789"))
}

// isSafeInteger says whether a bound is only where JavaScript stops counting: its libraries put it on every integer.
func isSafeInteger(raw []byte) bool {
	return string(bytes.TrimPrefix(raw, []byte("-"))) == "9007199254740991"
}

// formatFits says whether the provider knows the format for the type; it refuses others.
func formatFits(k kind, format []byte) bool {
	switch string(format) {
	case "date-time":
		return k == kindString
	case "int32", "int64":
		return k == kindInteger
	case "float", "double":
		return k == kindNumber
	}
	return false
}

// decideConstraints decides for every gathered keyword whether it is written, and says the others in words.
func (c *cleaner) decideConstraints(f *frame, k kind) {
	written := f.order[:0]
	for _, w := range f.order {
		i := f.val[w]
		switch {
		case i == 0: // it has a part of its own in the frame
			written = append(written, w)
		case c.kept(w) && c.fits(w, i) && (w != wFormat || formatFits(k, c.text(i))) &&
			(w != wPropertyOrdering || k == kindObject && c.orderingFits(f, i)):
			written = append(written, w)
		default:
			c.explain(f, w, i)
			f.val[w] = 0
		}
	}
	f.order = written
}

// orderingFits says whether the order of properties names those that there are.
func (c *cleaner) orderingFits(f *frame, list int32) bool {
	n := &c.nodes[list]
	if n.count == 0 || int(n.count) > len(f.props) {
		return false
	}
	seen := make(map[int]bool, n.count)
	for i := n.first; i != 0; i = c.nodes[i].next {
		at := -1
		if c.nodes[i].kind == rawjson.String {
			at = c.find(f, c.text(i))
		}
		if at < 0 || seen[at] {
			return false
		}
		seen[at] = true
	}
	return true
}

// explain says in words what a keyword said.
func (c *cleaner) explain(f *frame, w word, i int32) {
	n := &c.nodes[i]
	said := false
	switch w {
	case wAdditionalProperties, wUnevaluatedProperties:
		if !c.explainExtra(f, i) {
			c.note(shortened, w)
			return
		}
		said = true
	case wPatternProperties:
		if n.kind == rawjson.Object && !c.explainPatterns(f, i) {
			c.note(shortened, w)
			return
		}
		said = n.kind == rawjson.Object
	case wPropertyNames:
		if c.trivial(i) {
			return
		}
		said = c.hintValue(f, "property names: ", i, maxNested)
	case wDependentRequired:
		for j := n.first; n.kind == rawjson.Object && j != 0 && f.hinted < mostHints; j = c.nodes[j].next {
			if c.nodes[j].kind == rawjson.Array {
				c.dependents(f, j)
			}
		}
		return
	case wExamples, wEnumDescriptions:
		said = c.explainList(f, w, i)
	case wDeprecated, wReadOnly, wWriteOnly:
		if !c.isTrue(i) {
			return
		}
		f.hint(words[w].name)
		said = true
	case wUniqueItems:
		if !c.isTrue(i) {
			return
		}
		said = c.hintValue(f, "uniqueItems: ", i, maxScalar)
	case wMinimum, wMaximum, wExclusiveMinimum, wExclusiveMaximum:
		if isSafeInteger(c.raw(i)) {
			return
		}
		said = c.hintValue(f, words[w].name+": ", i, maxScalar)
	case wPropertyOrdering:
	default:
		limit := maxScalar
		if n.kind == rawjson.Object || n.kind == rawjson.Array {
			limit = maxNested
		}
		said = c.hintValue(f, words[w].name+": ", i, limit)
	}
	if said {
		c.note(moved, w)
	} else {
		c.note(dropped, w)
	}
}

// trivial says whether a schema only repeats that names are strings.
func (c *cleaner) trivial(i int32) bool {
	n := &c.nodes[i]
	switch n.kind {
	case rawjson.Bool:
		return c.isTrue(i)
	case rawjson.Object:
		return n.count == 0 || n.count == 1 && c.nodes[n.first].word == wType
	}
	return false
}

// saysMore says whether a schema says more than its type. A description counts unless it was told.
func (c *cleaner) saysMore(place int32, told bool) bool {
	n := &c.nodes[place]
	for i := n.first; n.kind == rawjson.Object && i != 0; i = c.nodes[i].next {
		m := &c.nodes[i]
		switch {
		case m.kind == rawjson.Null || m.word == wTitle:
		case m.word == wType:
			if m.kind == rawjson.Array && m.count > 1 {
				return true
			}
		case m.word == wDescription:
			if !told {
				return true
			}
		case words[m.word].role != silent:
			return true
		}
	}
	return false
}

// explainExtra says what an object may have beyond its properties, and reports whether that was all.
func (c *cleaner) explainExtra(f *frame, i int32) bool {
	switch n := &c.nodes[i]; {
	case c.isFalse(i):
		f.hint("No extra properties allowed")
	case n.kind != rawjson.Object:
		if len(f.props) > 0 {
			return true // as every object may
		}
		f.hint("Any properties allowed")
	default:
		g := c.glance(source{node: i}, 0)
		if g.kind == kindUnknown {
			if len(f.props) == 0 {
				f.hint("Any properties allowed")
			}
			return !c.saysMore(i, false)
		}
		label := "Extra properties: " + kindNames[g.kind]
		if g.about != 0 && c.hintValue(f, label+", ", g.about, maxScalar) {
			return !c.saysMore(i, true)
		}
		f.hint(label)
		return !c.saysMore(i, false)
	}
	return true
}

// explainPatterns says what properties whose names follow a pattern are, and reports whether that was all.
func (c *cleaner) explainPatterns(f *frame, place int32) bool {
	all := true
	for i := c.nodes[place].first; i != 0; i = c.nodes[i].next {
		if f.hinted >= mostHints {
			return false
		}
		f.hint("Properties matching " + string(clip(c.nameOf(i), maxNested)) + ": " + kindNames[c.glance(source{node: i}, 0).kind])
		all = all && !c.saysMore(i, false)
	}
	return all
}

// explainList says the first values of a list.
func (c *cleaner) explainList(f *frame, w word, place int32) bool {
	n := &c.nodes[place]
	if n.kind != rawjson.Array {
		return c.hintValue(f, words[w].name+": ", place, maxNested)
	}
	most := 3
	if w == wEnumDescriptions {
		most = mostAllowed
	}
	places := make([]int32, 0, most+1)
	for i := n.first; i != 0 && len(places) <= most; i = c.nodes[i].next {
		places = append(places, i)
	}
	if len(places) == 0 {
		return true
	}
	places = places[:min(len(places), most)]
	return c.hintList(f, words[w].name+": ", places, most)
}
