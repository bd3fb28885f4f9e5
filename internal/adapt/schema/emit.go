package schema

import (
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// emit writes the schema that the sources describe. A source that needs no change is copied
// unchanged.
func (c *cleaner) emit(sources []source, depth int, top bool) {
	first := sources[0]
	if len(sources) == 1 && !first.alt && c.acceptedAt(first.node, depth, top) {
		c.out.Raw(first.node.raw)
		return
	}
	f := &frame{entries: make([]entry, 0, 6)}
	if len(first.chain) > 0 && (c.work > 2*c.maxWork || len(c.out.Buf) > 2*c.maxOut) {
		// References have added so much that even the current schema has to end.
		c.outline(f, first.node)
		f.cut = true
		c.note(Cut, "$ref")
	} else {
		c.gatherAll(f, sources)
	}
	k := c.decide(f, depth, top)
	c.write(f, k, depth)
}

// gatherAll adds all sources to the frame: first the unconditional ones, then the alternatives.
func (c *cleaner) gatherAll(f *frame, sources []source) {
	var alternatives []source
	for _, s := range sources {
		if s.alt {
			s.alt = false
			alternatives = append(alternatives, s)
		} else {
			c.gather(f, s, 0)
		}
	}
	if len(alternatives) > 0 {
		c.union(f, alternatives, 0, "anyOf")
	}
}

// decide turns the gathered keywords into those that are written, and returns the type.
func (c *cleaner) decide(f *frame, depth int, top bool) kind {
	k := c.decideKind(f, top)
	if top {
		if k != kindObject {
			c.note(Repaired, "type")
			k = kindObject
		}
		f.nullable = false
	}
	if f.entry("type") == nil {
		f.entries = slices.Insert(f.entries, 0, entry{name: "type"})
	}
	c.decideEnum(f, k)
	if k == kindObject && len(f.props) == 0 && len(f.items) > 0 { // properties as items of an array
		for _, s := range f.items {
			s.alt = true
			c.gatherProperties(f, s, nil, 0)
		}
		c.note(Repaired, "items")
		f.mention("properties")
	}
	if k == kindArray && f.tuple {
		c.explainTuple(f)
	}
	if depth >= maxDepth && (k == kindObject && len(f.props) > 0 || k == kindArray && len(f.items) > 0) {
		f.hint("nested too deep to describe")
		f.clearProps()
		f.items = nil
		c.note(Cut, "schema")
	}
	c.decideConstraints(f, k)
	c.decideRequired(f, k, top)
	if f.hintLost {
		c.note(Dropped, "description")
	}
	if len(f.hints) > 0 && f.entry("description") == nil {
		after := slices.IndexFunc(f.entries, func(e entry) bool { return e.name == "type" }) + 1
		f.entries = slices.Insert(f.entries, after, entry{name: "description"})
	}
	if f.nullable {
		f.mention("nullable")
	}
	if k == kindArray {
		f.mention("items")
	}
	return k
}

// explainTuple describes each element in a hint.
func (c *cleaner) explainTuple(f *frame) {
	var elements []string
	for i, s := range f.items {
		if i == mostAllowed {
			elements = append(elements, more(len(f.items)-i))
			break
		}
		b := c.glance(s, 0)
		element := kindNames[b.kind]
		if b.about != nil {
			if about, ok := b.about.plain(maxNested); ok {
				element += " " + about
			}
		}
		elements = append(elements, element)
	}
	if len(elements) > 0 {
		f.hint("Items in order: " + strings.Join(elements, ", "))
	}
}

// decideConstraints decides for every plain keyword whether it is written, and moves the other
// keywords into the description.
func (c *cleaner) decideConstraints(f *frame, k kind) {
	exists := func(name string) bool { return f.byName[name] != nil }
	f.entries = slices.DeleteFunc(f.entries, func(e entry) bool {
		if e.value == nil || c.keeps(e.value) && (e.name != "format" || formats[e.value.text()] == k) &&
			(e.name != "propertyOrdering" || k == kindObject && allNames(e.value, exists)) {
			return false
		}
		c.explain(f, e.value)
		return true
	})
}

// decideRequired marks the properties that are required, and adds one if the provider requires one.
func (c *cleaner) decideRequired(f *frame, k kind, top bool) {
	if k != kindObject {
		if len(f.props) > 0 {
			c.note(Dropped, "properties")
		}
		f.clearProps()
		return
	}
	wanted := f.required
	f.required = nil
	for _, name := range wanted {
		switch p := f.byName[name]; {
		case p == nil:
			c.note(Repaired, "required")
		case !p.required:
			p.required = true
			f.required = append(f.required, name)
		}
	}
	if c.wantsPlaceholder(top, len(f.props) > 0, len(f.required) > 0) {
		c.addPlaceholder(f)
	}
	if len(f.props) > 0 {
		f.mention("properties")
	}
	if len(f.required) > 0 {
		f.mention("required")
	}
}

// write writes the frame, its keywords in the order in which they came.
func (c *cleaner) write(f *frame, k kind, depth int) {
	w := &c.out
	w.Object()
	for _, e := range f.entries {
		switch {
		case e.value != nil:
			w.Key(e.name).Raw(e.value.raw)
		case e.name == "type":
			w.Key(e.name).String(kindNames[k])
		case e.name == "description":
			w.Key(e.name).Raw(f.appendDescription(nil))
		case e.name == "nullable" && f.nullable:
			w.Key(e.name).Bool(true)
		case e.name == "enum":
			c.writeStrings(e.name, f.enum)
		case e.name == "required":
			c.writeStrings(e.name, f.required)
		case e.name == "properties" && len(f.props) > 0:
			w.Key(e.name).Object()
			for _, p := range f.props {
				c.writeProperty(p, depth)
			}
			w.EndObject()
		case e.name == "items" && k == kindArray:
			w.Key(e.name)
			c.writeItems(f, depth)
		}
	}
	w.EndObject()
}

// writeStrings writes a keyword with a list of strings as its value, unless that is empty.
func (c *cleaner) writeStrings(name string, list []string) {
	if len(list) == 0 {
		return
	}
	c.out.Key(name).Array()
	for _, s := range list {
		c.out.String(s)
	}
	c.out.EndArray()
}

func (c *cleaner) writeProperty(p *prop, depth int) {
	c.out.AnyKey(p.name)
	if len(p.sources) == 0 {
		c.out.Raw([]byte(placeholderSchema))
		return
	}
	c.emitAt(p.name, p.sources, depth+1)
}

// emitAt writes a schema inside the one that is being written.
func (c *cleaner) emitAt(name string, sources []source, depth int) {
	c.path = append(c.path, name)
	c.emit(sources, depth, false)
	c.path = c.path[:len(c.path)-1]
}

// writeItems writes the one schema that all elements of an array have.
func (c *cleaner) writeItems(f *frame, depth int) {
	sources := f.items
	if f.tuple {
		sources = nil
		for _, s := range f.items {
			if s.alt = true; s.node.kind != rawjson.Bool {
				sources = append(sources, s)
			}
		}
	}
	if len(sources) == 0 {
		c.note(Repaired, "items")
		c.out.Raw([]byte(`{"type":"string"}`))
		return
	}
	c.emitAt(items, sources, depth+1)
}
