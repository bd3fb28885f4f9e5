package schema

import (
	"bytes"
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A frame is one schema of the result while it is put together from its sources. Where two sources
// set the same keyword, the first one counts.
type frame struct {
	entries []entry // the keywords to be written, in the order in which they came

	kinds     []kind
	nullable  bool
	nullNamed bool // null was one of the types
	cut       bool // it has a reference or an inside that was not read

	description *node
	hints       []string // added to the description, as JSON writes them
	hintSize    int
	hintLost    bool // there was no room for a hint

	values     []*node // of an enumeration
	valuesDone bool
	enum       []string // the values that are written

	props    []*prop
	byName   map[string]*prop
	required []string

	items []source
	tuple bool // items has one source for each place
}

// An entry is a keyword of a frame. Its value is nil where the frame has a field for it.
type entry struct {
	name  string
	value *node
}

// A prop is a property of the object that a frame is.
type prop struct {
	name     string
	sources  []source // empty for the placeholder
	required bool
}

// A source is a place in the input that describes a schema, and the targets of the references that
// led to it.
type source struct {
	node  *node
	chain []*node
	alt   bool // one of several alternatives, not something that holds anyway
	quiet bool // a second description or keyword does not become a hint
}

// at returns another place that the same references led to.
func (s source) at(n *node) source { return source{node: n, chain: s.chain, alt: s.alt} }

// base returns the description so far, escaped, without its quotes.
func (f *frame) base() []byte {
	if f.description == nil {
		return nil
	}
	return f.description.inner()
}

// entry returns the entry of a keyword, or nil.
func (f *frame) entry(name string) *entry {
	i := slices.IndexFunc(f.entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return &f.entries[i]
}

// mention gives a keyword its place in the result.
func (f *frame) mention(name string) {
	if f.entry(name) == nil {
		f.entries = append(f.entries, entry{name: name})
	}
}

// addProp adds a property that the frame does not have.
func (f *frame) addProp(p *prop) {
	if f.byName == nil {
		f.byName = map[string]*prop{}
	}
	f.props, f.byName[p.name] = append(f.props, p), p
}

// clearProps drops all properties.
func (f *frame) clearProps() { f.props, f.byName, f.required = nil, nil, nil }

// maxMerge is how many schemas may be nested without adding a level to the result.
const maxMerge = 100

// gather adds a source to the frame: its own keywords first, then the schemas that they refer to.
func (c *cleaner) gather(f *frame, s source, level int) {
	n := s.node
	c.charge(s, n)
	switch {
	case n.kind != rawjson.Object: // the name of a type, a list of them, a boolean
		c.note(Repaired, "schema")
		if n.kind == rawjson.String || n.kind == rawjson.Array {
			c.setKinds(f, n)
		}
		return
	case level > maxMerge:
		c.note(Cut, "schema")
		f.cut = true
		return
	case len(n.children) == 1 && n.children[0].name == "schema" && n.children[0].isSchema:
		c.note(Repaired, "schema")
		c.gather(f, source{node: n.children[0], chain: s.chain, quiet: s.quiet}, level+1)
		return
	}
	brings := false
	for _, m := range n.children {
		brings = c.member(f, s, m) || brings
	}
	if !brings {
		return
	}
	if ref := n.part("$ref"); ref != nil && ref.kind == rawjson.String {
		c.refer(f, s, ref.text(), level)
	}
	c.gatherEnum(f, n.part("enum"), n.part("const"))
	for _, m := range n.part("allOf").elements() {
		c.note(Merged, "allOf")
		c.gather(f, source{node: m, chain: s.chain}, level+1)
	}
	c.gatherUnion(f, s, level)
	c.gatherConditions(f, s, level)
}

// member takes one member of a node, unless it refers to other nodes or values, which it reports.
func (c *cleaner) member(f *frame, s source, m *node) (brings bool) {
	if m.kind == rawjson.Null && m.key.name != "const" {
		return false // the same as absent; nullable already expresses a default of null
	}
	if m.misplaced() {
		c.misplaced(f, s, m)
		return false
	}
	switch m.key.name {
	case "":
		c.noteUnknown(m.name)
	case "type":
		f.mention("type")
		c.setKinds(f, m)
	case "description":
		c.describe(f, m, s.quiet)
	case "nullable":
		f.mention("nullable")
		f.nullable = f.nullable || m.text() == "true"
	case "properties":
		c.properties(f, s, m)
	case "required":
		c.requiredNames(f, m)
	case "items", "prefixItems":
		c.itemsOf(f, s, m)
	case "enum", "const":
		f.mention("enum")
		return true
	case "$ref", "allOf", "anyOf", "oneOf",
		"if", "then", "else", "dependentSchemas", "dependencies":
		return true
	default:
		if !m.key.silent {
			c.constrain(f, m, s.quiet)
		}
	}
	return false
}

// constrain takes a plain keyword. A value from another source stays; a hint states that both hold.
func (c *cleaner) constrain(f *frame, m *node, quiet bool) {
	name := m.key.name
	e := f.entry(name)
	switch {
	case e == nil:
		f.entries = append(f.entries, entry{name, m})
	case quiet || name == "title" || name == "default" || bytes.Equal(e.value.raw, m.raw):
	case len(f.hints) < mostHints:
		c.explain(f, m)
	default:
		c.note(Dropped, name)
	}
}

// misplaced takes a property outside of "properties".
func (c *cleaner) misplaced(f *frame, s source, m *node) {
	if strings.HasPrefix(m.name, "x-") {
		c.noteUnknown(m.name)
		return
	}
	f.mention("properties")
	c.note(Repaired, "properties")
	c.property(f, s, m)
}

// describe takes a description. A second one becomes a hint.
func (c *cleaner) describe(f *frame, m *node, quiet bool) {
	switch {
	case m.kind != rawjson.String:
		c.note(Repaired, "description")
	case len(f.base()) == 0:
		f.mention("description")
		f.description = m
	case bytes.Equal(f.description.raw, m.raw):
	case !quiet && f.hintSize+len(m.raw) <= maxHints && len(f.hints) < mostHints:
		f.addHint(string(m.inner()))
	default:
		c.note(Dropped, "description")
	}
}

// properties takes the members of "properties".
func (c *cleaner) properties(f *frame, s source, m *node) {
	if m.kind != rawjson.Object {
		c.note(Repaired, "properties")
		return
	}
	c.charge(s, m)
	f.mention("properties")
	for _, p := range m.children {
		c.property(f, s, p)
	}
}

func (c *cleaner) property(f *frame, s source, m *node) {
	if m.isFalse() { // it may not be there at all
		c.note(Repaired, "properties")
		return
	}
	if p := f.byName[m.name]; p == nil {
		f.addProp(&prop{name: m.name, sources: []source{s.at(m)}})
	} else if p.sources[0].node != m {
		p.sources = append(p.sources, s.at(m))
	}
	if m.required == nil {
		return
	}
	c.note(Repaired, "required")
	if m.required.isTrue() && !s.alt {
		f.required = append(f.required, m.name)
		f.mention("required")
	}
}

// requiredNames takes the value of "required": a list of names, or one name. A boolean belongs to
// the object around.
func (c *cleaner) requiredNames(f *frame, m *node) {
	names := m.elements()
	if m.kind == rawjson.String {
		c.note(Repaired, "required")
		names = []*node{m}
	} else if m.kind != rawjson.Array {
		return
	}
	f.mention("required")
	for _, name := range names {
		if name.kind == rawjson.String {
			f.required = append(f.required, name.text())
		} else {
			c.note(Repaired, "required")
		}
	}
}

// itemsOf takes the elements of an array: one schema for all, or one for each place. A schema for
// those after the named places is one more alternative.
func (c *cleaner) itemsOf(f *frame, s source, m *node) {
	if m.isFalse() {
		return
	}
	f.mention("items")
	if m.kind != rawjson.Array {
		f.items = append(f.items, source{node: m, chain: s.chain, alt: f.tuple})
		return
	}
	f.tuple = true
	c.charge(s, m)
	c.note(Merged, "prefixItems")
	for _, v := range m.children {
		if !v.isFalse() {
			f.items = append(f.items, source{node: v, chain: s.chain, alt: true})
		}
	}
}

// gatherConditions adds the properties that exist only under conditions. The provider has no
// conditions, so they are optional.
func (c *cleaner) gatherConditions(f *frame, s source, level int) {
	add := func(n *node, keyword string) {
		c.note(Merged, keyword)
		c.gatherProperties(f, source{node: n, chain: s.chain, alt: true}, nil, level+1)
	}
	if s.node.part("if") != nil {
		c.note(Dropped, "if")
	}
	for _, keyword := range []string{"then", "else"} {
		if m := s.node.part(keyword); m != nil {
			add(m, keyword)
		}
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		for _, m := range s.node.part(keyword).object() {
			if m.kind == rawjson.Array {
				c.explainDependents(f, m)
			} else {
				add(m, keyword)
				c.note(Shortened, keyword)
			}
		}
	}
}
