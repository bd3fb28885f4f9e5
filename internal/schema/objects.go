package schema

import (
	"bytes"

	"perigee/internal/rawjson"
)

// votes are what the branches of a union say about the object that they become.
type votes struct {
	group, branch int32
	required      [][]byte // by the current branch
	names         [][]byte // the first properties of the current branch

	label     []byte // the branches by the names of their properties
	last      []byte
	different bool
}

const (
	maxNames = 6   // of a branch that are repeated
	maxLabel = 400 // bytes for all branches
)

// gatherProperties lets a source add properties as alternatives, and nothing else. The votes are nil where nothing can
// be required because of it.
func (c *cleaner) gatherProperties(f *frame, s source, v *votes, level int) {
	n := &c.nodes[s.node]
	if n.kind != rawjson.Object || level > maxMerge {
		return
	}
	c.charge(s, n)
	for i := n.first; i != 0; i = c.nodes[i].next {
		m := &c.nodes[i]
		switch {
		case m.word == wProperties && m.kind == rawjson.Object:
			c.properties(f, s, i)
			v.see(c, m.first)
		case m.word == wRequired && v != nil:
			for j := c.firstOf(i); j != 0; j = c.nodes[j].next {
				if c.nodes[j].kind == rawjson.String {
					v.required = append(v.required, c.text(j))
				}
			}
		case m.word == wRef && m.kind == rawjson.String:
			c.referProperties(f, s, i, v, level)
		case m.word == wAllOf || m.word == wAnyOf || m.word == wOneOf:
			inner := v
			if m.word != wAllOf && m.count > 1 {
				inner = nil
			}
			for j := c.firstOf(i); j != 0; j = c.nodes[j].next {
				c.gatherProperties(f, source{node: j, chain: s.chain, alt: s.alt}, inner, level+1)
			}
		case m.word == wThen || m.word == wElse:
			c.gatherProperties(f, source{node: i, chain: s.chain, alt: s.alt}, nil, level+1)
		case m.word == wUnknown && m.kind == rawjson.Object && m.marks&(looksRight|looksBare) != 0:
			c.orphan(f, s, i)
		}
	}
}

func (c *cleaner) referProperties(f *frame, s source, i int32, v *votes, level int) {
	target := c.resolve(c.text(i))
	if target == 0 || target == root || s.chain.has(target) || s.chain.len() >= maxChain || c.exhausted() {
		c.see(f, c.text(i))
		c.note(cut, wRef)
		return
	}
	c.note(inlined, wRef)
	chain := &link{target: target, length: s.chain.len() + 1, up: s.chain}
	c.gatherProperties(f, source{node: target, chain: chain, alt: s.alt}, v, level+1)
}

// see remembers the names of a branch's properties.
func (v *votes) see(c *cleaner, first int32) {
	for i := first; v != nil && i != 0 && len(v.names) < maxNames; i = c.nodes[i].next {
		v.names = append(v.names, c.nameOf(i))
	}
}

// close counts the votes of the current branch, when all its properties are known.
func (v *votes) close(c *cleaner, f *frame) {
	for _, name := range v.required {
		i := c.find(f, name)
		if i < 0 {
			continue
		}
		p := &f.props[i]
		if p.group != v.group {
			p.group, p.votes, p.branch = v.group, 0, 0
		}
		if p.branch != v.branch {
			p.branch = v.branch
			p.votes++
		}
	}
	if len(v.names) == 0 {
		v.names = append(v.names, v.required[:min(len(v.required), maxNames)]...)
	}
	label := append(append([]byte("{"), bytes.Join(v.names, []byte(", "))...), '}')
	v.different = v.different || v.branch > 1 && !bytes.Equal(label, v.last)
	v.last = label
	if len(v.label)+len(label) <= maxLabel {
		if v.branch > 1 {
			v.label = append(v.label, " | "...)
		}
		v.label = append(v.label, label...)
	}
	v.names, v.required = v.names[:0], v.required[:0]
}

// conditions adds the properties that exist only under conditions: the provider has no conditions, so they are optional.
func (c *cleaner) conditions(f *frame, s source, p *parts, level int) {
	s.alt = true
	add := func(place int32, w word) {
		if place != 0 {
			c.note(merged, w)
			c.gatherProperties(f, source{node: place, chain: s.chain, alt: true}, nil, level+1)
		}
	}
	if p[bringsIf] != 0 {
		c.note(dropped, wIf)
	}
	add(p[bringsThen], wThen)
	add(p[bringsElse], wElse)
	for _, place := range []int32{p[bringsDependentSchemas], p[bringsDependencies]} {
		if place == 0 || c.nodes[place].kind != rawjson.Object {
			continue
		}
		for i := c.nodes[place].first; i != 0; i = c.nodes[i].next {
			if c.nodes[i].kind == rawjson.Array {
				c.dependents(f, i)
			} else {
				add(i, c.nodes[place].word)
				c.note(shortened, c.nodes[place].word)
			}
		}
	}
}

// dependents says which properties another one brings along.
func (c *cleaner) dependents(f *frame, place int32) {
	name := clip(c.nameOf(place), maxName)
	places := make([]int32, 0, maxNames)
	for i := c.nodes[place].first; i != 0 && len(places) <= maxNames; i = c.nodes[i].next {
		places = append(places, i)
	}
	if len(places) > 0 {
		c.hintList(f, "With "+string(name)+" also: ", places, maxNames)
		c.note(moved, wDependentRequired)
	}
}
