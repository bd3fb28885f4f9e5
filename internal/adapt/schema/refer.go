package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// maxChain is the maximum length of a chain of references. It limits the cost of finding a cycle.
const maxChain = 50

// charge counts the nodes that are read because of references. Without them everything is read a
// fixed number of times.
func (c *cleaner) charge(s source, n *node) {
	c.visits += 1 + len(n.children)
	if len(s.chain) > 0 {
		c.work += 1 + len(n.children)
	}
}

// exhausted reports whether references have added so much that no more are followed.
func (c *cleaner) exhausted() bool { return c.work > c.maxWork || len(c.out.Buf) > c.maxOut }

// follow returns the schema that a reference points at, or nil, and whether it is not to be read:
// because there is none, it would close a circle, or references have cost too much.
func (c *cleaner) follow(s source, ref string) (target *node, end bool) {
	target = c.resolve(ref)
	return target, target == nil || target == c.root || slices.Contains(s.chain, target) || len(s.chain) >= maxChain || c.exhausted()
}

// through returns the source that a reference in s leads to.
func (s source) through(target *node) source {
	s.node, s.chain = target, append(slices.Clip(s.chain), target)
	return s
}

// refer adds the target of a reference to the frame, after the keywords beside the reference. A
// cycle is cut where it closes: the name and the type stay.
func (c *cleaner) refer(f *frame, s source, ref string, level int) {
	target, end := c.follow(s, ref)
	switch {
	case target == nil:
		f.hintAt(ref)
		c.note(Dropped, "$ref")
	case end:
		f.hintAt(ref)
		c.outline(f, target)
		c.note(Cut, "$ref")
	default:
		s.quiet = s.quiet || len(f.base()) > 0 // a description beside a reference is the better one
		c.note(Inlined, "$ref")
		c.gather(f, s.through(target), level+1)
	}
}

// hintAt adds a hint with the name of a reference that is not followed.
func (f *frame) hintAt(ref string) {
	f.cut = true
	if i := strings.LastIndexAny(ref, "/#"); i >= 0 && i+1 < len(ref) {
		ref = ref[i+1:]
	}
	if ref == "#" || ref == "" {
		f.hint("See: the whole schema")
		return
	}
	f.hint("See: " + perigee.Clip(ref, 80))
}

// maxOutline is how many members of a node are looked at where it is cut.
const maxOutline = 32

// outline takes the keywords of a schema that need none of the schemas inside it.
func (c *cleaner) outline(f *frame, n *node) {
	members := n.object()
	for _, m := range members[:min(len(members), maxOutline)] {
		switch {
		case m.key.name == "type":
			c.setKinds(f, m)
		case m.key.name == "nullable":
			f.nullable = f.nullable || m.isTrue()
		case m.key.name == "description" && m.kind == rawjson.String && len(f.base()) == 0 && len(m.raw) <= maxScalar:
			c.describe(f, m, true)
		case m.key.name == "items" && m.kind == rawjson.Object && len(f.kinds) == 0:
			f.addKind(kindArray)
		case m.key.name == "properties" && m.kind == rawjson.Object && len(f.kinds) == 0:
			f.addKind(kindObject)
		}
	}
}

// resolve returns the schema that a reference within the document points at, or nil.
func (c *cleaner) resolve(ref string) *node {
	if _, known := c.targets[ref]; !known {
		if c.targets == nil {
			c.targets = map[string]*node{}
		}
		c.targets[ref] = c.lookUp(ref)
	}
	if target := c.targets[ref]; target != nil && (target.kind == rawjson.Object || target.kind == rawjson.Bool) {
		return target
	}
	return nil
}

// lookUp follows a JSON pointer. Schemas that were put together from several documents often point
// at definitions that have moved, so a pointer that leads nowhere is tried by its last name.
func (c *cleaner) lookUp(ref string) *node {
	pointer, local := strings.CutPrefix(ref, "#")
	switch {
	case !local && strings.ContainsAny(ref, ":/#."):
		return nil // another document
	case local && pointer == "":
		return c.root
	case strings.HasPrefix(pointer, "/"):
		n := c.root
		for name := range strings.SplitSeq(pointer[1:], "/") {
			if n = step(n, unescapeStep(name)); n == nil {
				break
			}
		}
		if n != nil {
			return n
		}
		pointer = pointer[strings.LastIndexByte(pointer, '/')+1:]
	}
	return c.definition(unescapeStep(pointer))
}

func unescapeStep(step string) string {
	if plain, err := url.PathUnescape(step); err == nil {
		step = plain
	}
	return strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
}

// step goes from a value to one inside it.
func step(n *node, name string) *node {
	switch n.kind {
	case rawjson.Array:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.children) {
			return n.children[i]
		}
	case rawjson.Object:
		return n.member(name)
	}
	return nil
}

// definition returns the first definition of that name anywhere in the document.
func (c *cleaner) definition(name string) *node {
	if c.definitions == nil {
		c.definitions = map[string]*node{}
		c.collect(c.root)
	}
	return c.definitions[name]
}

// collect takes all members of "$defs" and "definitions", the first of each name.
func (c *cleaner) collect(n *node) {
	if n.key.name == "$defs" || n.key.name == "definitions" {
		for _, m := range n.object() {
			if c.definitions[m.name] == nil {
				c.definitions[m.name] = m
			}
		}
	}
	for _, m := range n.children {
		c.collect(m)
	}
}
