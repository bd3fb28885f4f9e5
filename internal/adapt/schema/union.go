package schema

import (
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A branch is an alternative of a union, with the properties that are visible before it is merged.
type branch struct {
	source
	kind   kind
	values *node // its "const" or "enum"
	about  *node // its description or title
}

// gatherUnion merges the alternatives of anyOf and oneOf into the frame.
func (c *cleaner) gatherUnion(f *frame, s source, level int) {
	var sources []source
	keyword := ""
	for _, name := range []string{"anyOf", "oneOf"} {
		m := s.node.part(name)
		if m == nil {
			continue
		}
		if keyword == "" {
			keyword = name
		}
		c.note(Merged, name)
		c.charge(s, m)
		if m.kind == rawjson.Object { // one alternative without its list
			sources = append(sources, source{node: m, chain: s.chain})
		}
		for _, v := range m.elements() {
			if !v.isFalse() {
				sources = append(sources, source{node: v, chain: s.chain})
			}
		}
	}
	if keyword != "" {
		c.union(f, sources, level, keyword)
	}
}

// union merges alternatives into the frame, because the provider accepts none. An alternative of
// null makes the schema nullable; values are put together; of different types the richest wins, and
// the rest are named in a hint; several objects become one with the properties of all. That more is
// lost of an alternative is reported of the keyword.
func (c *cleaner) union(f *frame, sources []source, level int, keyword string) {
	parent := f.declared() // the type that alternatives have to fit
	if len(f.kinds) == 0 && len(f.props) > 0 {
		parent = kindObject
	}
	branches := make([]branch, 0, len(sources)) // those that can win
	var kinds []kind                            // different ones, in order
	best, values, null := kindUnknown, 0, false
	for _, s := range sources {
		b := c.glance(s, 0)
		if b.kind != kindUnknown && (parent == kindUnknown || len(f.kinds) > 1) && !slices.Contains(kinds, b.kind) {
			kinds = append(kinds, b.kind)
		}
		if b.kind == kindNull {
			null = true
			continue
		}
		if parent != kindUnknown && b.kind != kindUnknown && b.kind != parent {
			if hasMore(s.node, false) {
				c.note(Shortened, keyword)
			}
			continue
		}
		branches = append(branches, b)
		if b.values != nil && b.kind != kindObject && b.kind != kindArray && !f.valuesDone {
			values++
		}
		if scores[b.kind] > scores[best] {
			best = b.kind
		}
	}
	f.nullable = f.nullable || null
	switch {
	case len(branches) == 0:
	case values == len(branches):
		c.mergeValues(f, branches)
		if len(f.kinds) == 0 {
			// The types that the branches name count: 1 and 2 can be numbers or integers.
			if kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k == kindNull }); len(kinds) > 1 {
				kinds = []kind{kindString}
			}
			f.kinds, kinds = kinds, nil
			f.nullNamed = f.nullNamed || null
		}
	case best == kindUnknown && parent != kindObject: // they only restrict the schema itself
		if parent == kindUnknown || len(branches) == 1 {
			c.gather(f, branches[0].source, level+1)
		} else {
			c.note(Dropped, "anyOf")
		}
	case best == kindObject || parent == kindObject:
		c.mergeObjects(f, branches, level, keyword)
	default:
		c.chooseBranch(f, branches, best, level, keyword)
	}
	if len(kinds) > 1 {
		f.hintKinds(kinds)
	}
}

// scores rank types by the loss when a type is not chosen.
var scores = [...]int{kindUnknown: 0, kindAny: 1, kindNull: 2, kindString: 2, kindNumber: 2, kindInteger: 2, kindBoolean: 2,
	kindArray: 3, kindObject: 4}

// chooseBranch takes the branch of a type that restricts least: an enumeration only if all of that
// type have one. The values that another branch allows are named in a hint.
func (c *cleaner) chooseBranch(f *frame, branches []branch, best kind, level int, keyword string) {
	chosen := slices.IndexFunc(branches, func(b branch) bool { return b.kind == best && b.values == nil })
	if chosen < 0 {
		chosen = slices.IndexFunc(branches, func(b branch) bool { return b.kind == best })
	}
	var values []*node
	for i, b := range branches {
		switch {
		case i == chosen:
		case b.values != nil:
			values = append(values, c.valuesOf(b)...)
		case hasMore(b.node, false):
			c.note(Shortened, keyword)
		}
	}
	c.gather(f, branches[chosen].source, level+1)
	if len(values) > 0 {
		f.hintList("Special values: ", values, mostAllowed)
	}
}

// valuesOf returns the values that a branch consists of.
func (c *cleaner) valuesOf(b branch) []*node {
	if b.values.key.name != "enum" {
		return []*node{b.values}
	}
	c.charge(b.source, b.values)
	return b.values.children
}

// mergeValues makes one enumeration of branches that are values. The description of a value stays
// with it.
func (c *cleaner) mergeValues(f *frame, branches []branch) {
	for _, b := range branches {
		f.values = append(f.values, c.valuesOf(b)...)
		if b.values.key.name == "enum" || b.about == nil {
			continue
		}
		if value, ok := b.values.plain(maxHint); ok {
			c.hintValue(f, value+": ", b.about, maxScalar)
		} else {
			f.hintLost = true
		}
	}
	f.valuesDone = true
	f.mention("enum")
}

const (
	maxNames = 6   // of a branch that are repeated
	maxLabel = 400 // bytes for all branches
)

// A shape is a branch's description of the object that it becomes a part of.
type shape struct {
	names    []string // of the first properties
	required []string
}

// mergeObjects makes one object of the branches that are objects, or that only describe properties.
// Properties that all of them require are required.
func (c *cleaner) mergeObjects(f *frame, all []branch, level int, keyword string) {
	var branches []source
	for _, b := range all {
		if b.kind == kindObject || b.kind == kindUnknown {
			branches = append(branches, b.source)
		} else if hasMore(b.node, false) {
			c.note(Shortened, keyword)
		}
	}
	if len(branches) == 1 {
		c.gather(f, branches[0], level+1)
		return
	}
	if len(f.kinds) == 0 {
		f.addKind(kindObject)
	}
	votes := map[string]int{} // how many branches require a property
	label, last, different := "", "", false
	for i, b := range branches {
		if slices.ContainsFunc(b.node.object(), func(m *node) bool { return m.key.name == "description" }) {
			c.note(Shortened, keyword) // there is no place for it
		}
		b.alt = true
		var sh shape
		c.gatherProperties(f, b, &sh, level)
		for _, name := range sh.required {
			if votes[name] == i && f.byName[name] != nil { // and not twice by this branch
				votes[name]++
			}
		}
		if len(sh.names) == 0 {
			sh.names = sh.required[:min(len(sh.required), maxNames)]
		}
		this := "{" + strings.Join(sh.names, ", ") + "}"
		different = different || i > 0 && this != last
		if last = this; len(label)+len(this) <= maxLabel {
			if i > 0 {
				label += " | "
			}
			label += this
		}
	}
	for _, p := range f.props {
		if votes[p.name] == len(branches) {
			f.required = append(f.required, p.name)
			f.mention("required")
		}
	}
	if different {
		f.hint("One of: " + label)
	}
}

// gatherProperties adds the properties of a source as alternatives, and nothing else of it. The
// shape is nil where nothing can be required because of the source.
func (c *cleaner) gatherProperties(f *frame, s source, sh *shape, level int) {
	if s.node.kind != rawjson.Object || level > maxMerge {
		return
	}
	c.charge(s, s.node)
	for _, m := range s.node.children {
		switch name := m.key.name; {
		case name == "properties" && m.kind == rawjson.Object:
			c.properties(f, s, m)
			for _, p := range m.children {
				if sh == nil || len(sh.names) >= maxNames {
					break
				}
				sh.names = append(sh.names, p.name)
			}
		case name == "required" && sh != nil:
			for _, v := range m.elements() {
				if v.kind == rawjson.String {
					sh.required = append(sh.required, v.text())
				}
			}
		case name == "$ref" && m.kind == rawjson.String:
			target, end := c.follow(s, m.text())
			if end {
				f.hintAt(m.text())
				c.note(Cut, "$ref")
				continue
			}
			c.note(Inlined, "$ref")
			c.gatherProperties(f, s.through(target), sh, level+1)
		case name == "allOf" || name == "anyOf" || name == "oneOf":
			inner := sh
			if name != "allOf" && len(m.children) > 1 {
				inner = nil
			}
			for _, v := range m.elements() {
				c.gatherProperties(f, s.at(v), inner, level+1)
			}
		case name == "then" || name == "else":
			c.gatherProperties(f, s.at(m), nil, level+1)
		case m.key == noKeyword && m.misplaced():
			c.misplaced(f, s, m)
		}
	}
}

// maxGlances is how many references a glance follows.
const maxGlances = 4

// glance looks at a branch of a union without merging it.
func (c *cleaner) glance(s source, hops int) branch {
	n := s.node
	b := branch{source: s, kind: kindNamed(n)}
	switch n.kind {
	case rawjson.Null:
		b.kind = kindNull
	case rawjson.Bool:
		b.kind = kindAny
	}
	if n.kind != rawjson.Object {
		return b
	}
	if c.charge(s, n); hops > maxGlances || len(s.chain) > 0 && c.exhausted() {
		b.kind = kindObject
		return b
	}
	var inner branch // the richest of those that n points on to
	for _, m := range n.children {
		c.glanceMember(&b, &inner, m, hops)
	}
	if b.kind == kindUnknown {
		b.kind = inner.kind
	}
	if b.values == nil {
		b.values = inner.values
	}
	if b.values != nil && b.kind == kindUnknown {
		value := b.values
		if value.key.name == "enum" {
			value = value.children[0]
		}
		b.kind = kindOf(value)
	}
	if b.about == nil {
		b.about = inner.about
	}
	return b
}

func (c *cleaner) glanceMember(b, inner *branch, m *node, hops int) {
	deeper := func(s source) {
		if in := c.glance(s, hops+1); scores[in.kind] > scores[inner.kind] {
			*inner = in
		}
	}
	implied := kindUnknown
	switch m.key.name {
	case "type":
		b.kind = firstKind(m)
	case "const":
		b.values = m
	case "enum":
		if len(m.elements()) > 0 && b.values == nil {
			b.values = m
		}
	case "description", "title":
		if m.kind == rawjson.String && (b.about == nil || m.key.name == "description") {
			b.about = m
		}
	case "properties", "additionalProperties", "patternProperties":
		implied = kindObject
	case "items", "prefixItems":
		implied = kindArray
	case "$ref":
		if m.kind != rawjson.String {
			return
		}
		if target, end := c.follow(b.source, m.text()); !end {
			deeper(b.source.through(target))
		} else {
			inner.kind = kindObject
		}
	case "allOf", "anyOf", "oneOf":
		for _, v := range m.elements() {
			deeper(b.source.at(v))
		}
	}
	if inner.kind == kindUnknown {
		inner.kind = implied
	}
}

// firstKind returns the first type that "type" names and that is not null.
func firstKind(m *node) kind {
	found := kindNamed(m)
	for _, v := range m.elements() {
		if found != kindUnknown && found != kindNull {
			break
		}
		if v.kind == rawjson.String {
			found = kindNamed(v)
		}
	}
	return found
}
