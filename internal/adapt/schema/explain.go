package schema

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// explain moves a keyword into the description.
func (c *cleaner) explain(f *frame, m *node) {
	name := m.key.name
	done := Dropped
	switch name {
	case "additionalProperties", "unevaluatedProperties":
		if done = Moved; !c.explainExtra(f, m) {
			done = Shortened
		}
	case "patternProperties":
		if done = movedIf(m.kind == rawjson.Object); !c.explainPatterns(f, m) {
			done = Shortened
		}
	case "propertyNames":
		if n := len(m.object()); m.isTrue() || m.kind == rawjson.Object && (n == 0 || n == 1 && m.children[0].key.name == "type") {
			return // names are strings anyway
		}
		done = movedIf(c.hintValue(f, "property names: ", m, maxNested))
	case "dependentRequired":
		for _, v := range m.object() {
			if len(f.hints) < mostHints {
				c.explainDependents(f, v)
			}
		}
		return
	case "examples":
		done = movedIf(c.explainList(f, m, 3))
	case "enumDescriptions":
		done = movedIf(c.explainList(f, m, mostAllowed))
	case "deprecated", "readOnly", "writeOnly":
		if !m.isTrue() {
			return
		}
		f.hint(name)
		done = Moved
	case "propertyOrdering":
	default:
		if name == "uniqueItems" && !m.isTrue() || name != "multipleOf" && isSafeInteger(m) {
			return
		}
		limit := maxScalar
		if m.kind == rawjson.Object || m.kind == rawjson.Array {
			limit = maxNested
		}
		done = movedIf(c.hintValue(f, name+": ", m, limit))
	}
	c.note(done, name)
}

func movedIf(ok bool) Action {
	if ok {
		return Moved
	}
	return Dropped
}

// hasMore reports whether a schema has more than its type. A description counts unless a hint
// repeats it.
func hasMore(n *node, described bool) bool {
	for _, m := range n.object() {
		switch name := m.key.name; {
		case m.kind == rawjson.Null || name == "title" || m.key.silent:
		case name == "type":
			if len(m.elements()) > 1 {
				return true
			}
		case name == "description" && described:
		default:
			return true
		}
	}
	return false
}

// explainExtra describes the members that an object may have beyond its properties, and reports
// whether the description is complete.
func (c *cleaner) explainExtra(f *frame, m *node) bool {
	if m.isFalse() {
		f.hint("No extra properties allowed")
		return true
	}
	b := branch{}
	if m.kind == rawjson.Object {
		b = c.glance(source{node: m}, 0)
	}
	if b.kind == kindUnknown {
		if len(f.props) == 0 { // else every object may have it
			f.hint("Any properties allowed")
		}
		return !hasMore(m, false)
	}
	label := "Extra properties: " + kindNames[b.kind]
	if b.about != nil && c.hintValue(f, label+", ", b.about, maxScalar) {
		return !hasMore(m, true)
	}
	f.hint(label)
	return !hasMore(m, false)
}

// explainPatterns describes the properties with names that match a pattern, and reports whether the
// description is complete.
func (c *cleaner) explainPatterns(f *frame, m *node) bool {
	all := true
	for _, p := range m.object() {
		if len(f.hints) >= mostHints {
			return false
		}
		f.hint("Properties matching " + perigee.Clip(p.name, maxNested) + ": " + kindNames[c.glance(source{node: p}, 0).kind])
		all = all && !hasMore(p, false)
	}
	return all
}

// explainDependents describes which properties another one requires.
func (c *cleaner) explainDependents(f *frame, m *node) {
	if values := m.elements(); len(values) > 0 {
		f.hintList("With "+perigee.Clip(m.name, maxName)+" also: ", values[:min(len(values), maxNames+1)], maxNames)
		c.note(Moved, "dependentRequired")
	}
}

// explainList lists the first values of a list.
func (c *cleaner) explainList(f *frame, m *node, most int) bool {
	if m.kind != rawjson.Array {
		return c.hintValue(f, m.key.name+": ", m, maxNested)
	}
	if len(m.children) == 0 {
		return true
	}
	return f.hintList(m.key.name+": ", m.children[:min(len(m.children), most)], most)
}

// mostAllowed is how many values of an enumeration a description repeats, when the keyword has them
// all.
const mostAllowed = 32

const allowed = "Allowed: "

// gatherEnum takes "enum", or "const" as an enumeration of one. Only the first source that has
// either counts.
func (c *cleaner) gatherEnum(f *frame, enum, constant *node) {
	switch {
	case f.valuesDone || enum == nil && constant == nil:
	case constant != nil:
		c.note(Merged, "const")
		f.values, f.valuesDone = append(f.values, constant), true
	case enum.kind != rawjson.Array:
		c.note(Repaired, "enum")
	default:
		f.values = append(f.values, enum.children...)
		f.valuesDone = len(f.values) > 0
	}
}

// enumFits reports whether the provider takes an enumeration of this type. All values are strings
// to it, so that a type of its own would contradict them; in the schema of an answer it reads
// numbers from them.
func (r rules) enumFits(k kind) bool {
	return k == kindString || r.response && (k == kindNumber || k == kindInteger)
}

// decideEnum decides which values are written as an enumeration, and repeats them in a hint: for
// the arguments of functions the provider does not hold the model to the keyword.
func (c *cleaner) decideEnum(f *frame, k kind) {
	var values []*node // different as strings
	seen := map[string]bool{}
	for _, v := range f.values {
		switch text := v.written(); {
		case v.kind == rawjson.Null:
			f.nullable = true
		case seen[text]:
		case c.enumFits(k) && text == "": // the provider refuses empty ones
			c.note(Moved, "enum")
			f.hint("may be empty")
		default:
			seen[text] = true
			values = append(values, v)
			f.enum = append(f.enum, text)
		}
	}
	if len(values) == 0 {
		return
	}
	if c.enumFits(k) {
		f.hintList(allowed, values, mostAllowed)
		if slices.ContainsFunc(values, func(v *node) bool { return v.kind != rawjson.String }) {
			c.note(Repaired, "enum")
		}
		return
	}
	f.enum = nil
	c.note(movedIf(f.hintList(allowed, values, len(values))), "enum")
}
