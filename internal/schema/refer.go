package schema

import (
	"bytes"
	"net/url"

	"perigee/internal/rawjson"
)

// A link is a reference that is being followed, and the one that led there.
type link struct {
	target int32
	length int
	up     *link
}

func (l *link) has(target int32) bool {
	for ; l != nil; l = l.up {
		if l.target == target {
			return true
		}
	}
	return false
}

func (l *link) len() int {
	if l == nil {
		return 0
	}
	return l.length
}

// maxChain is how many references may lead to each other. It bounds what looking for a circle costs.
const maxChain = 50

// charge counts what is read because of references. Without them everything is read a fixed number of times.
func (c *cleaner) charge(s source, n *node) {
	c.visits += 1 + int(n.count)
	if s.chain != nil {
		c.work += 1 + int(n.count)
	}
}

// exhausted says that references have brought in so much that no more are followed.
func (c *cleaner) exhausted() bool { return c.work > c.maxWork || len(c.out) > c.maxOut }

// refer lets what a reference points at speak about the frame, behind what stands beside the reference. A circle is cut
// where it closes: the name and the type stay.
func (c *cleaner) refer(f *frame, s source, place int32, level int, tell telling) {
	name := c.text(place)
	target := c.resolve(name)
	switch {
	case target == 0:
		c.see(f, name)
		c.note(dropped, wRef)
	case target == root || s.chain.has(target) || s.chain.len() >= maxChain || c.exhausted():
		c.see(f, name)
		c.outline(f, target)
		c.note(cut, wRef)
	default:
		if len(c.base(f)) > 0 {
			tell = ignored // what stands beside a reference is the better description
		}
		c.note(inlined, wRef)
		chain := &link{target: target, length: s.chain.len() + 1, up: s.chain}
		c.gather(f, source{node: target, chain: chain, alt: s.alt}, level+1, tell)
	}
}

// see names what a reference would have brought.
func (c *cleaner) see(f *frame, name []byte) {
	f.sees = true
	if i := bytes.LastIndexAny(name, "/#"); i >= 0 && i+1 < len(name) {
		name = name[i+1:]
	}
	if string(name) == "#" || len(name) == 0 {
		f.hint("See: the whole schema")
		return
	}
	f.hint("See: " + string(clip(name, 80)))
}

// maxOutline is how many members of a node are looked at where it is cut.
const maxOutline = 32

// outline takes of a node what says something without its inside.
func (c *cleaner) outline(f *frame, place int32) {
	if c.nodes[place].kind != rawjson.Object {
		return
	}
	looked := 0
	for i := c.nodes[place].first; i != 0 && looked < maxOutline; i = c.nodes[i].next {
		looked++
		switch n := &c.nodes[i]; {
		case n.word == wType:
			c.setKinds(f, i)
		case n.word == wNullable:
			f.nullable = f.nullable || c.isTrue(i)
		case n.word == wDescription && n.kind == rawjson.String && len(c.base(f)) == 0 && n.end-n.start <= maxScalar:
			c.describe(f, i, ignored)
		case n.word == wItems && n.kind == rawjson.Object && len(f.kinds) == 0:
			f.addKind(kindArray)
		case n.word == wProperties && n.kind == rawjson.Object && len(f.kinds) == 0:
			f.addKind(kindObject)
		}
	}
}

// resolve returns the schema that a reference within the document points at, or 0.
func (c *cleaner) resolve(ref []byte) int32 {
	if target, ok := c.refs[string(ref)]; ok {
		return target
	}
	target := c.follow(ref)
	if target != 0 && c.nodes[target].kind != rawjson.Object && c.nodes[target].kind != rawjson.Bool {
		target = 0
	}
	if c.refs == nil {
		c.refs = map[string]int32{}
	}
	c.refs[string(ref)] = target
	return target
}

// follow walks a JSON pointer. Schemas that were put together from others often point at definitions that have moved,
// so a pointer that leads nowhere is tried by its last name.
func (c *cleaner) follow(ref []byte) int32 {
	pointer, local := bytes.CutPrefix(ref, []byte("#"))
	switch {
	case !local && bytes.ContainsAny(ref, ":/#."):
		return 0 // another document
	case local && len(pointer) == 0:
		return root
	case bytes.HasPrefix(pointer, []byte("/")):
		at := int32(root)
		for step := range bytes.SplitSeq(pointer[1:], []byte("/")) {
			if at = c.step(at, unescapeStep(step)); at == 0 {
				break
			}
		}
		if at != 0 {
			return at
		}
		pointer = pointer[bytes.LastIndexByte(pointer, '/')+1:]
	}
	return c.definition(unescapeStep(pointer))
}

func unescapeStep(step []byte) []byte {
	if bytes.IndexByte(step, '%') >= 0 {
		if plain, err := url.PathUnescape(string(step)); err == nil {
			step = []byte(plain)
		}
	}
	if bytes.IndexByte(step, '~') < 0 {
		return step
	}
	step = bytes.ReplaceAll(step, []byte("~1"), []byte("/"))
	return bytes.ReplaceAll(step, []byte("~0"), []byte("~"))
}

// step goes from a value to one inside it.
func (c *cleaner) step(at int32, name []byte) int32 {
	n := &c.nodes[at]
	switch {
	case n.kind == rawjson.Array:
		if c.work += int(n.count); c.exhausted() {
			return 0
		}
		return c.element(at, name)
	case n.kind != rawjson.Object:
		return 0
	case n.count <= fewNames:
		for i := n.first; i != 0; i = c.nodes[i].next {
			if string(c.nameOf(i)) == string(name) {
				return i
			}
		}
		return 0
	}
	index := c.indexes[at]
	if index == nil {
		index = make(map[string]int32, n.count)
		for i := n.first; i != 0; i = c.nodes[i].next {
			index[string(c.nameOf(i))] = i
		}
		if c.indexes == nil {
			c.indexes = map[int32]map[string]int32{}
		}
		c.indexes[at] = index
	}
	return index[string(name)]
}

// definition returns the first definition of that name, wherever in the document it stands.
func (c *cleaner) definition(name []byte) int32 {
	if c.definitions == nil {
		c.definitions = map[string]int32{}
		for place := range c.nodes {
			n := &c.nodes[place]
			if n.kind != rawjson.Object || n.word != wDefs && n.word != wDefinitions {
				continue
			}
			for i := n.first; i != 0; i = c.nodes[i].next {
				if _, taken := c.definitions[string(c.nameOf(i))]; !taken {
					c.definitions[string(c.nameOf(i))] = i
				}
			}
		}
	}
	return c.definitions[string(name)]
}
