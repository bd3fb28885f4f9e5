package schema

import (
	"bytes"

	"perigee/internal/rawjson"
)

// parts are the members of a node that bring others in, by their role. They have their turn when the node has spoken
// itself.
type parts [roleCount]int32

// maxMerge is how many nodes may stand inside each other without adding a level to the result.
const maxMerge = 100

// A telling says what becomes of a node's description when there is one already.
type telling bool

const (
	ignored  telling = false
	appended telling = true
)

// gather lets a source speak about the frame.
func (c *cleaner) gather(f *frame, s source, level int, tell telling) {
	n := &c.nodes[s.node]
	c.charge(s, n)
	switch {
	case n.kind != rawjson.Object:
		c.shorthand(f, s.node)
		return
	case level > maxMerge:
		c.note(cut, wUnknown)
		f.sees = true
		return
	}
	if inner := c.wrapped(n); inner != 0 {
		c.note(mended, wUnknown)
		c.gather(f, source{node: inner, chain: s.chain}, level+1, tell)
		return
	}
	var p parts
	for i := n.first; i != 0; i = c.nodes[i].next {
		c.member(f, s, i, &p, tell)
	}
	if p[bringsRef] != 0 {
		c.refer(f, s, p[bringsRef], level, tell)
	}
	c.gatherEnum(f, p[bringsEnum], p[bringsConst])
	for i := c.firstOf(p[bringsAllOf]); i != 0; i = c.nodes[i].next {
		c.note(merged, wAllOf)
		c.gather(f, source{node: i, chain: s.chain}, level+1, appended)
	}
	if p[bringsAnyOf] != 0 || p[bringsOneOf] != 0 {
		start := len(c.pending)
		c.branches(s, p[bringsAnyOf], wAnyOf)
		c.branches(s, p[bringsOneOf], wOneOf)
		keyword := wAnyOf
		if p[bringsAnyOf] == 0 {
			keyword = wOneOf
		}
		c.union(f, start, level, keyword)
		c.pending = c.pending[:start]
	}
	c.conditions(f, s, &p, level)
}

// shorthand reads what stands where a schema should be and is none: a type's name, a list of them, a boolean.
func (c *cleaner) shorthand(f *frame, place int32) {
	c.note(mended, wUnknown)
	switch c.nodes[place].kind {
	case rawjson.String, rawjson.Array:
		c.setKinds(f, place)
	}
}

// wrapped returns the schema inside an object that has nothing but a member "schema".
func (c *cleaner) wrapped(n *node) int32 {
	if n.count != 1 || c.nodes[n.first].marks&looksRight == 0 || string(c.nameOf(n.first)) != "schema" {
		return 0
	}
	return n.first
}

// firstOf returns the first element of a list, if it is one.
func (c *cleaner) firstOf(place int32) int32 {
	if place == 0 || c.nodes[place].kind != rawjson.Array {
		return 0
	}
	return c.nodes[place].first
}

// member takes one member of a node.
func (c *cleaner) member(f *frame, s source, i int32, p *parts, tell telling) {
	n := &c.nodes[i]
	if n.kind == rawjson.Null && n.word != wConst {
		return // the same as absent; a default of null says nothing that nullable does not
	}
	if c.isOrphan(n) {
		c.orphan(f, s, i)
		return
	}
	switch role := words[n.word].role; role {
	case constrains:
		c.constrain(f, n.word, i, tell)
	case framed:
		c.frameMember(f, s, i, tell)
	case silent:
	case foreign:
		c.unknown(c.nameOf(i))
	case bringsEnum, bringsConst:
		p[role] = i
		f.mention(wEnum)
	case bringsRef:
		if n.kind == rawjson.String {
			p[role] = i
		}
	default:
		p[role] = i
	}
}

// frameMember takes a member that the frame has a part for.
func (c *cleaner) frameMember(f *frame, s source, i int32, tell telling) {
	switch c.nodes[i].word {
	case wType:
		f.mention(wType)
		c.setKinds(f, i)
	case wDescription:
		c.describe(f, i, tell)
	case wNullable:
		f.mention(wNullable)
		f.nullable = f.nullable || string(c.text(i)) == "true"
	case wProperties:
		c.properties(f, s, i)
	case wRequired:
		c.requiredNames(f, i)
	case wItems, wPrefixItems:
		c.itemsOf(f, s, i)
	}
}

// constrain takes a plain keyword. What another source said about the same stays; that both hold can be said in words.
func (c *cleaner) constrain(f *frame, w word, i int32, tell telling) {
	if f.val[w] == 0 {
		f.val[w] = i
		f.mention(w)
		return
	}
	if tell == ignored || w == wTitle || w == wDefault || bytes.Equal(c.raw(f.val[w]), c.raw(i)) {
		return
	}
	if f.hinted < mostHints {
		c.explain(f, w, i)
	} else {
		c.note(dropped, w)
	}
}

// isOrphan says whether a member with a schema in it can only be a property that lost its "properties".
func (c *cleaner) isOrphan(n *node) bool {
	if n.kind != rawjson.Object {
		return false
	}
	return n.marks&looksRight != 0 && words[n.word].noObject || n.marks&looksBare != 0 && n.word == wUnknown
}

// orphan takes a property that stands beside "properties", or where no "properties" is.
func (c *cleaner) orphan(f *frame, s source, i int32) {
	name := c.nameOf(i)
	if bytes.HasPrefix(name, []byte("x-")) {
		c.unknown(name)
		return
	}
	f.mention(wProperties)
	c.note(mended, wProperties)
	c.property(f, s, i, false)
}

// describe takes a description. A second one goes behind the first.
func (c *cleaner) describe(f *frame, i int32, tell telling) {
	if c.nodes[i].kind != rawjson.String {
		c.note(mended, wDescription)
		return
	}
	raw := c.raw(i)
	switch {
	case len(c.base(f)) == 0:
		f.mention(wDescription)
		f.base = i
	case tell == appended && !bytes.Equal(c.raw(f.base), raw):
		if start := len(f.hints); start+len(raw) <= maxTold && f.hinted < mostHints {
			f.hints = append(f.hints, raw...)
			f.closeHint(start)
		} else {
			c.note(dropped, wDescription)
		}
	case tell == ignored && !bytes.Equal(c.raw(f.base), raw):
		c.note(dropped, wDescription)
	}
}

// base is the description so far, as it stands between its quotes.
func (c *cleaner) base(f *frame) []byte {
	if f.base == 0 {
		return nil
	}
	raw := c.raw(f.base)
	return raw[1 : len(raw)-1]
}

// properties takes the members of "properties".
func (c *cleaner) properties(f *frame, s source, place int32) {
	n := &c.nodes[place]
	if n.kind != rawjson.Object {
		c.note(mended, wProperties)
		return
	}
	c.charge(s, n)
	f.mention(wProperties)
	fresh := len(f.props) == 0 // names within one object differ
	for i := n.first; i != 0; i = c.nodes[i].next {
		c.property(f, s, i, fresh)
	}
}

func (c *cleaner) property(f *frame, s source, i int32, fresh bool) {
	if c.isFalse(i) {
		c.note(mended, wProperties) // it may not be there at all
		return
	}
	c.add(f, source{node: i, chain: s.chain, alt: s.alt}, fresh)
	if c.nodes[i].marks&(requiredTrue|requiredFalse) != 0 {
		c.note(mended, wRequired)
	}
	if c.nodes[i].marks&requiredTrue != 0 && !s.alt {
		f.required = append(f.required, name(-i))
		f.mention(wRequired)
	}
}

// requiredNames takes the value of "required", which some write as one name or, belonging to the object around, as a
// boolean.
func (c *cleaner) requiredNames(f *frame, place int32) {
	n := &c.nodes[place]
	switch n.kind {
	case rawjson.Array:
		f.mention(wRequired)
		for i := n.first; i != 0; i = c.nodes[i].next {
			if c.nodes[i].kind == rawjson.String {
				f.required = append(f.required, name(i))
			} else {
				c.note(mended, wRequired)
			}
		}
	case rawjson.String:
		f.mention(wRequired)
		f.required = append(f.required, name(place))
		c.note(mended, wRequired)
	}
}

// itemsOf takes the elements of an array: one schema for all, or one for each place.
func (c *cleaner) itemsOf(f *frame, s source, place int32) {
	n := &c.nodes[place]
	switch {
	case n.kind == rawjson.Array:
		// What comes behind the named places is one more alternative.
		f.tuple = true
		c.charge(s, n)
		c.note(merged, wPrefixItems)
		for i := n.first; i != 0; i = c.nodes[i].next {
			if !c.isFalse(i) {
				f.items = append(f.items, source{node: i, chain: s.chain, alt: true})
			}
		}
	case c.isFalse(place):
		return
	case len(f.items) > 0 && !f.tuple:
		f.items = append(f.items, source{node: place, chain: s.chain})
	default:
		f.items = append(f.items, source{node: place, chain: s.chain, alt: f.tuple})
	}
	f.mention(wItems)
}
