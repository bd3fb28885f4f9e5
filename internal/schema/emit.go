package schema

import (
	"slices"

	"perigee/internal/rawjson"
)

// emit writes the schema that its sources speak about. What needs no change is copied as it stands.
func (c *cleaner) emit(first source, more []source, depth int, at place) {
	if len(more) == 0 && !first.alt {
		if height := c.accepted(first.node, at); height != dirty && depth+height <= maxDepth+1 {
			c.out = append(c.out, c.raw(first.node)...)
			return
		}
	}
	f := c.frame(depth)
	if first.chain != nil && (c.work > 2*c.maxWork || len(c.out) > 2*c.maxOut) {
		// So much was brought in by references that even what is under way has to end.
		c.outline(f, first.node)
		f.sees = true
		c.note(cut, wRef)
	} else {
		c.gatherAll(f, first, more)
	}
	k := c.decide(f, depth, at)
	c.write(f, k, depth)
}

// gatherAll lets all sources speak: first what holds anyway, then the alternatives.
func (c *cleaner) gatherAll(f *frame, first source, more []source) {
	if len(more) == 0 && !first.alt {
		c.gather(f, first, 0, appended)
		return
	}
	start := len(c.pending)
	speak := func(s source) {
		if !s.alt {
			c.gather(f, s, 0, appended)
			return
		}
		s.alt = false
		c.pending = append(c.pending, s)
	}
	speak(first)
	for _, s := range more {
		speak(s)
	}
	if len(c.pending) > start {
		c.union(f, start, 0, wAnyOf)
		c.pending = c.pending[:start]
	}
}

// decide turns what was gathered into what is written, and returns the type.
func (c *cleaner) decide(f *frame, depth int, at place) kind {
	k := c.decideKind(f, at)
	if at == top && k != kindObject {
		c.note(mended, wType)
		k = kindObject
	}
	if at == top {
		f.nullable = false
	}
	if !slices.Contains(f.order, wType) {
		f.order = slices.Insert(f.order, 0, wType)
	}
	c.decideEnum(f, k)
	if k == kindObject && len(f.props) == 0 && len(f.items) > 0 {
		c.itemsAsProperties(f)
	}
	if k == kindArray && f.tuple {
		c.explainTuple(f)
	}
	if depth >= maxDepth && (k == kindObject && len(f.props) > 0 || k == kindArray && len(f.items) > 0) {
		f.hint("nested too deep to describe")
		f.props, f.required, f.items = f.props[:0], f.required[:0], f.items[:0]
		f.byName = nil
		c.note(cut, wUnknown)
	}
	c.decideConstraints(f, k)
	c.decideRequired(f, k, at)
	if f.unsaid {
		c.note(dropped, wDescription)
	}
	if len(f.hints) > 0 && !slices.Contains(f.order, wDescription) {
		f.order = slices.Insert(f.order, slices.Index(f.order, wType)+1, wDescription)
	}
	if f.nullable {
		f.mention(wNullable)
	}
	if k == kindArray {
		f.mention(wItems)
	}
	return k
}

// itemsAsProperties is for objects whose properties were written as the items of an array.
func (c *cleaner) itemsAsProperties(f *frame) {
	for _, s := range f.items {
		s.alt = true
		c.gatherProperties(f, s, nil, 0)
	}
	c.note(mended, wItems)
	f.mention(wProperties)
}

// explainTuple says which element is what.
func (c *cleaner) explainTuple(f *frame) {
	c.scratch = append(c.scratch[:0], "Items in order: "...)
	for i, s := range f.items {
		if i > 0 {
			c.scratch = append(c.scratch, ", "...)
		}
		if i == mostAllowed {
			c.scratch = append(appendInt(c.scratch, len(f.items)-i), " more"...)
			break
		}
		mark := len(c.scratch)
		g := c.glance(s, 0)
		if c.scratch = append(c.scratch, kindNames[g.kind]...); g.about != 0 {
			c.scratch = append(c.scratch, ' ')
			var whole bool
			if c.scratch, whole = c.appendPlain(c.scratch, g.about, maxNested); !whole {
				c.scratch = append(c.scratch[:mark], kindNames[g.kind]...)
			}
		}
	}
	if len(f.items) > 0 {
		f.hintBytes(c.scratch)
	}
}

// decideRequired marks the properties that are required, and puts one in where the provider wants one.
func (c *cleaner) decideRequired(f *frame, k kind, at place) {
	if k != kindObject {
		if len(f.props) > 0 {
			c.note(dropped, wProperties)
		}
		f.props, f.required = f.props[:0], f.required[:0]
		return
	}
	named := f.required[:0]
	for _, n := range f.required {
		i := c.find(f, c.named(n))
		if i < 0 {
			c.note(mended, wRequired)
			continue
		}
		if f.props[i].required {
			continue
		}
		f.props[i].required = true
		named = append(named, n)
	}
	f.required = named
	if c.wantsPlaceholder(at, len(f.props) > 0, len(named) > 0) {
		c.addPlaceholder(f)
	}
	if len(f.props) > 0 {
		f.mention(wProperties)
	}
	if len(f.required) > 0 {
		f.mention(wRequired)
	}
}

// write writes the frame, its keywords in the order in which they came.
func (c *cleaner) write(f *frame, k kind, depth int) {
	c.out = append(c.out, '{')
	opened := len(c.out)
	for _, w := range f.order {
		mark := len(c.out)
		if mark > opened {
			c.out = append(c.out, ',')
		}
		c.out = append(append(append(c.out, '"'), words[w].name...), `":`...)
		if !c.writeValue(f, w, k, depth) {
			c.out = c.out[:mark]
		}
	}
	c.out = append(c.out, '}')
}

// writeValue writes the value of one keyword, and reports whether there is one.
func (c *cleaner) writeValue(f *frame, w word, k kind, depth int) bool {
	switch w {
	case wType:
		c.out = append(append(append(c.out, '"'), kindNames[k]...), '"')
	case wDescription:
		c.out = c.appendDescription(c.out, f)
	case wNullable:
		c.out = append(c.out, "true"...)
		return f.nullable
	case wEnum:
		c.out = c.appendEnum(c.out, f.enum)
		return len(f.enum) > 0
	case wProperties:
		c.writeProperties(f, depth)
		return len(f.props) > 0
	case wRequired:
		c.writeRequired(f)
		return len(f.required) > 0
	case wItems:
		if k != kindArray {
			return false
		}
		c.writeItems(f, depth)
	default:
		c.out = append(c.out, c.raw(f.val[w])...)
	}
	return true
}

func (c *cleaner) writeProperties(f *frame, depth int) {
	c.out = append(c.out, '{')
	for i := range f.props {
		p := &f.props[i]
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if p.key == 0 {
			c.out = append(c.out, `"`+placeholder+`":`+placeholderSchema...)
			continue
		}
		c.out = append(append(c.out, c.rawName(p.key)...), ':')
		c.path = append(c.path, p.key)
		c.emit(p.src, p.more, depth+1, inside)
		c.path = c.path[:len(c.path)-1]
	}
	c.out = append(c.out, '}')
}

func (c *cleaner) writeRequired(f *frame) {
	c.out = append(c.out, '[')
	for i, n := range f.required {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		switch {
		case n > 0:
			c.out = append(c.out, c.raw(int32(n))...)
		case n < 0:
			c.out = append(c.out, c.rawName(int32(-n))...)
		default:
			c.out = append(c.out, `"`+placeholder+`"`...)
		}
	}
	c.out = append(c.out, ']')
}

// writeItems writes the one schema that all elements of an array have.
func (c *cleaner) writeItems(f *frame, depth int) {
	items := f.items
	if f.tuple {
		kept := items[:0]
		for _, s := range items {
			if s.alt = true; c.nodes[s.node].kind != rawjson.Bool {
				kept = append(kept, s)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		c.note(mended, wItems)
		c.out = append(c.out, `{"type":"string"}`...)
		return
	}
	c.path = append(c.path, 0)
	c.emit(items[0], items[1:], depth+1, inside)
	c.path = c.path[:len(c.path)-1]
}
