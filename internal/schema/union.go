package schema

import (
	"slices"

	"perigee/internal/rawjson"
)

// branches puts the alternatives of anyOf or oneOf behind those that are pending.
func (c *cleaner) branches(s source, place int32, w word) {
	if place == 0 {
		return
	}
	c.note(merged, w)
	switch n := &c.nodes[place]; n.kind {
	case rawjson.Object: // one alternative without its list
		c.pending = append(c.pending, source{node: place, chain: s.chain})
	case rawjson.Array:
		c.charge(s, n)
		for i := n.first; i != 0; i = c.nodes[i].next {
			if !c.isFalse(i) {
				c.pending = append(c.pending, source{node: i, chain: s.chain})
			}
		}
	}
}

// union merges the alternatives from c.pending[start:] into the frame, because the provider knows none. An alternative
// of null makes the schema nullable; values are put together; of different types the richest wins, and the others are
// named in a hint; several objects become one with the properties of all. What else an alternative said is lost, which is noted of
// the keyword.
func (c *cleaner) union(f *frame, start, level int, keyword word) {
	var u alternatives
	if u.sort(c, f, start) {
		c.note(shortened, keyword)
	}
	if u.null {
		f.nullable = true
	}
	branches := c.pending[start:]
	switch parent := f.parentKind(); {
	case len(branches) == 0:
	case u.values == len(branches):
		c.mergeValues(f, start, &u)
	case u.best == kindUnknown && parent != kindObject:
		// They only restrict what the schema itself declares.
		if parent == kindUnknown || len(branches) == 1 {
			c.gather(f, branches[0], level+1, appended)
		} else {
			c.note(dropped, wAnyOf)
		}
	case u.best == kindObject || parent == kindObject:
		c.mergeObjects(f, start, level, keyword)
	default:
		chosen := c.pick(branches, u.best)
		if slices.ContainsFunc(branches, func(b source) bool { return b != chosen && c.glance(b, 0).values == 0 && c.saysMore(b.node, false) }) {
			c.note(shortened, keyword)
		}
		c.gather(f, chosen, level+1, appended)
		c.otherValues(f, branches, chosen)
	}
	if len(u.kinds) > 1 {
		c.hintKinds(f, u.kinds)
	}
}

// parentKind is the type that alternatives have to fit.
func (f *frame) parentKind() kind {
	if len(f.kinds) == 0 && len(f.props) > 0 {
		return kindObject
	}
	return f.declared()
}

// alternatives is what is known about the branches of a union before they are merged.
type alternatives struct {
	kinds  []kind // different ones, in order
	best   kind
	values int // how many branches are nothing but values
	null   bool
}

// sort looks at the branches and keeps, from c.pending[start:], those that can win. It says whether another said more than its type.
func (a *alternatives) sort(c *cleaner, f *frame, start int) (lost bool) {
	parent := f.parentKind()
	kept := c.pending[:start]
	for _, b := range c.pending[start:] {
		g := c.glance(b, 0)
		if g.kind == kindNull {
			a.null = true
		}
		if g.kind != kindUnknown && (parent == kindUnknown || len(f.kinds) > 1) {
			a.name(g.kind)
		}
		if g.kind == kindNull || parent != kindUnknown && g.kind != kindUnknown && g.kind != parent {
			lost = lost || g.kind != kindNull && c.saysMore(b.node, false)
			continue
		}
		kept = append(kept, b)
		if g.values != 0 && g.kind != kindObject && g.kind != kindArray && !f.enumDone {
			a.values++
		}
		if score(g.kind) > score(a.best) {
			a.best = g.kind
		}
	}
	c.pending = kept
	return lost
}

func (a *alternatives) name(k kind) {
	for _, other := range a.kinds {
		if other == k {
			return
		}
	}
	a.kinds = append(a.kinds, k)
}

// score says how much is lost when a type is not chosen.
func score(k kind) int {
	switch k {
	case kindObject:
		return 4
	case kindArray:
		return 3
	case kindUnknown:
		return 0
	case kindAny:
		return 1
	}
	return 2
}

// pick returns the branch of that type that restricts least: an enumeration only if all have one.
func (c *cleaner) pick(branches []source, k kind) source {
	found := source{}
	for _, b := range branches {
		g := c.glance(b, 0)
		if g.kind != k {
			continue
		}
		if g.values == 0 {
			return b
		}
		if found.node == 0 {
			found = b
		}
	}
	return found
}

// otherValues names the values that a branch would have allowed that was not chosen.
func (c *cleaner) otherValues(f *frame, branches []source, chosen source) {
	values := c.values[:0]
	for _, b := range branches {
		g := c.glance(b, 0)
		switch {
		case b == chosen || g.values == 0:
		case c.nodes[g.values].word != wEnum:
			values = append(values, g.values)
		default:
			c.charge(b, &c.nodes[g.values])
			for i := c.nodes[g.values].first; i != 0; i = c.nodes[i].next {
				values = append(values, i)
			}
		}
	}
	if c.values = values[:0]; len(values) > 0 {
		c.hintList(f, "Special values: ", values, mostAllowed)
	}
}

// mergeValues makes one enumeration of branches that are values. What is said about a value stays with it.
func (c *cleaner) mergeValues(f *frame, start int, u *alternatives) {
	for _, b := range c.pending[start:] {
		g := c.glance(b, 0)
		values := c.nodes[g.values]
		if values.word != wEnum {
			f.enum = append(f.enum, g.values)
			if g.about != 0 {
				c.scratch, _ = c.appendPlain(c.scratch[:0], g.values, maxNested)
				label := string(c.scratch) + ": "
				c.hintValue(f, label, g.about, maxScalar)
			}
			continue
		}
		c.charge(b, &values)
		for i := values.first; i != 0; i = c.nodes[i].next {
			f.enum = append(f.enum, i)
		}
	}
	f.enumDone = true
	f.mention(wEnum)
	if len(f.kinds) > 0 {
		return
	}
	// The branches may have named their types: [1, 2] as numbers is not the same as [1, 2] as integers.
	common := kindUnknown
	for _, k := range u.kinds {
		if k != kindNull && common == kindUnknown {
			common = k
		} else if k != kindNull && k != common {
			common = kindString
		}
	}
	f.addKind(common)
	u.kinds = u.kinds[:0]
	if u.null {
		f.nullNamed = true
	}
}

// mergeObjects makes one object of the branches that are objects, or that only say something about properties. What
// all of them require is required.
func (c *cleaner) mergeObjects(f *frame, start, level int, keyword word) {
	kept := c.pending[:start]
	for _, b := range c.pending[start:] {
		if k := c.glance(b, 0).kind; k == kindObject || k == kindUnknown {
			kept = append(kept, b)
		} else if c.saysMore(b.node, false) {
			c.note(shortened, keyword)
		}
	}
	c.pending = kept
	if len(c.pending)-start == 1 {
		c.gather(f, c.pending[start], level+1, appended)
		return
	}
	if len(f.kinds) == 0 {
		f.addKind(kindObject)
	}
	f.group++
	v := votes{group: f.group}
	for i := start; i < len(c.pending); i++ {
		v.branch++
		b := c.pending[i]
		b.alt = true
		if c.describes(b.node) {
			c.note(shortened, keyword)
		}
		c.gatherProperties(f, b, &v, level)
		v.close(c, f)
	}
	for i := range f.props {
		if p := &f.props[i]; p.group == v.group && p.votes == v.branch {
			f.required = append(f.required, name(-p.key))
			f.mention(wRequired)
		}
	}
	if v.different {
		f.hint("One of: " + string(v.label))
	}
}

// describes says whether an alternative has a description of its own, for which there is no place when it is merged with others.
func (c *cleaner) describes(place int32) bool {
	n := &c.nodes[place]
	for i := n.first; n.kind == rawjson.Object && i != 0; i = c.nodes[i].next {
		if c.nodes[i].word == wDescription {
			return true
		}
	}
	return false
}

// A glance is what can be seen of a schema without merging it.
type glance struct {
	kind   kind
	values int32 // the value of const, or the list of enum
	about  int32 // the description or title
}

// maxGlances is how far a glance follows what only points on.
const maxGlances = 4

// glance looks at a branch of a union.
func (c *cleaner) glance(s source, hops int) (g glance) {
	n := &c.nodes[s.node]
	switch n.kind {
	case rawjson.String:
		return glance{kind: kindNamed(c.text(s.node))}
	case rawjson.Null:
		return glance{kind: kindNull}
	case rawjson.Bool:
		return glance{kind: kindAny}
	case rawjson.Object:
	default:
		return glance{}
	}
	if c.charge(s, n); hops > maxGlances || s.chain != nil && c.exhausted() {
		return glance{kind: kindObject}
	}
	var inner glance
	for i := n.first; i != 0; i = c.nodes[i].next {
		c.glanceMember(&g, &inner, s, i, hops)
	}
	if g.kind == kindUnknown {
		g.kind = inner.kind
	}
	if g.values == 0 {
		g.values = inner.values
	}
	if g.values != 0 && g.kind == kindUnknown {
		g.kind = c.kindOfValues(g.values)
	}
	if g.about == 0 {
		g.about = inner.about
	}
	return g
}

func (c *cleaner) glanceMember(g, inner *glance, s source, i int32, hops int) {
	n := &c.nodes[i]
	deeper := func(place int32, chain *link) {
		if in := c.glance(source{node: place, chain: chain}, hops+1); score(in.kind) > score(inner.kind) {
			*inner = in
		}
	}
	switch n.word {
	case wType:
		g.kind = c.firstKind(i)
	case wConst:
		g.values = i
	case wEnum:
		if n.kind == rawjson.Array && n.count > 0 && g.values == 0 {
			g.values = i
		}
	case wDescription, wTitle:
		if n.kind == rawjson.String && (g.about == 0 || n.word == wDescription) {
			g.about = i
		}
	case wProperties, wAdditionalProperties, wPatternProperties:
		if inner.kind == kindUnknown {
			inner.kind = kindObject
		}
	case wItems, wPrefixItems:
		if inner.kind == kindUnknown {
			inner.kind = kindArray
		}
	case wRef, wDynamicRef, wRecursiveRef:
		if n.kind != rawjson.String {
			return
		}
		target := c.resolve(c.text(i))
		if target == 0 || target == root || s.chain.has(target) || c.exhausted() {
			inner.kind = kindObject
			return
		}
		deeper(target, &link{target: target, length: s.chain.len() + 1, up: s.chain})
	case wAllOf, wAnyOf, wOneOf:
		for j := c.firstOf(i); j != 0; j = c.nodes[j].next {
			deeper(j, s.chain)
		}
	}
}

// firstKind is the first type that "type" names and that is not null.
func (c *cleaner) firstKind(place int32) kind {
	n := &c.nodes[place]
	if n.kind == rawjson.String {
		return kindNamed(c.text(place))
	}
	found := kindUnknown
	for i := c.firstOf(place); i != 0 && (found == kindUnknown || found == kindNull); i = c.nodes[i].next {
		if c.nodes[i].kind == rawjson.String {
			found = kindNamed(c.text(i))
		}
	}
	return found
}

// kindOfValues is the type of a constant, or of the first value of an enumeration.
func (c *cleaner) kindOfValues(place int32) kind {
	if c.nodes[place].word == wEnum {
		place = c.nodes[place].first
	}
	return c.kindOfValue(place)
}
