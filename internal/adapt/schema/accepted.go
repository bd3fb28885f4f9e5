package schema

import "perigee/internal/lib/rawjson"

// maxDepth is the level below which schemas are cut; a schema cut there may still have a
// placeholder one level further down. The provider reads a hundred messages deep, and the tool
// around the schema takes some of them.
const maxDepth = 90

// dirty is the height of a schema that has to be changed.
const dirty = -1

// acceptedAt reports whether the provider accepts a schema unchanged, at a level of the result.
// Every output of emit is accepted, so that cleaning is idempotent.
func (c *cleaner) acceptedAt(n *node, depth int, top bool) bool {
	height := n.height
	if top {
		height = c.heightOf(n, true)
	}
	return height != dirty && depth+height <= maxDepth+1
}

// heightOf returns how many schemas are nested in a schema that the provider accepts unchanged, or
// dirty.
func (r rules) heightOf(n *node, top bool) int {
	if n.kind != rawjson.Object {
		return dirty
	}
	var description, enum, properties, required, items *node
	k, height := kindUnknown, 0
	inside := func(n *node) bool {
		height = max(height, n.height+1)
		return n.height != dirty
	}
	for _, m := range n.children {
		ok := !m.alias
		switch m.key.name {
		case "type":
			k = exactKind(m)
		case "description":
			description = m
			ok = m.kind == rawjson.String
		case "nullable":
			ok = m.kind == rawjson.Bool
		case "enum":
			enum = m
		case "properties":
			properties = m
			for _, p := range m.object() {
				ok = ok && inside(p)
			}
		case "required":
			required = m
		case "items":
			items = m
			ok = inside(m)
		default:
			ok = ok && r.keeps(m)
		}
		if !ok {
			return dirty
		}
	}
	ordering, format := n.part("propertyOrdering"), n.part("format")
	switch {
	case k == kindUnknown, top && k != kindObject, (items != nil) != (k == kindArray),
		format != nil && formats[format.text()] != k,
		enum != nil && !r.acceptedEnum(k, enum, description),
		k != kindObject && (properties != nil || required != nil || ordering != nil),
		k == kindObject && !r.acceptedObject(properties, required, ordering, top):
		return dirty
	}
	return height
}

// acceptedEnum reports whether an enumeration has nothing but different strings, and a description
// that repeats them.
func (r rules) acceptedEnum(k kind, enum, description *node) bool {
	if description == nil || !r.enumFits(k) || !allNames(enum, func(value string) bool { return value != "" }) {
		return false
	}
	hint, _ := listed(allowed, enum.children, mostAllowed)
	return hasHint(description.inner(), escape(hint))
}

// acceptedObject reports whether an object has the properties that the provider demands, and no
// names of any that it lacks.
func (r rules) acceptedObject(properties, required, ordering *node, top bool) bool {
	if properties != nil && len(properties.object()) == 0 || r.wantsPlaceholder(top, properties != nil, required != nil) {
		return false
	}
	exists := func(name string) bool { return properties != nil && properties.member(name) != nil }
	return (required == nil || allNames(required, exists)) && (ordering == nil || allNames(ordering, exists))
}
