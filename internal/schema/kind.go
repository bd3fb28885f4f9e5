package schema

import (
	"bytes"
	"strings"

	"perigee/internal/rawjson"
)

// A kind is one of the types that a schema can ask for.
type kind uint8

const (
	kindUnknown kind = iota
	kindAny          // said to be anything
	kindNull
	kindString
	kindNumber
	kindInteger
	kindBoolean
	kindArray
	kindObject
)

var kindNames = [...]string{kindUnknown: "any", kindAny: "any", kindNull: "null", kindString: "string", kindNumber: "number",
	kindInteger: "integer", kindBoolean: "boolean", kindArray: "array", kindObject: "object"}

// plainKind is kindNamed for the names that JSON Schema has, spelled as it spells them.
func plainKind(name []byte) kind {
	switch string(name) {
	case "string":
		return kindString
	case "object":
		return kindObject
	case "number":
		return kindNumber
	case "integer":
		return kindInteger
	case "boolean":
		return kindBoolean
	case "array":
		return kindArray
	}
	return kindUnknown
}

// kindNamed knows the names of types in any case, and those that people carry over from their programming language.
func kindNamed(name []byte) kind {
	if k := plainKind(name); k != kindUnknown {
		return k
	}
	if len(name) > 24 {
		return kindUnknown
	}
	lower := bytes.ToLower(name)
	if k := plainKind(lower); k != kindUnknown {
		return k
	}
	switch string(lower) {
	case "null", "none", "nil", "undefined", "void":
		return kindNull
	case "any", "unknown", "mixed", "json", "type_unspecified":
		return kindAny
	case "str", "text", "char", "date", "datetime", "date-time", "time", "uuid", "uri", "url", "email", "file", "binary", "bytes":
		return kindString
	case "int", "int32", "int64", "long", "short", "uint":
		return kindInteger
	case "float", "double", "decimal", "float32", "float64":
		return kindNumber
	case "bool":
		return kindBoolean
	case "list", "tuple", "set":
		return kindArray
	case "dict", "map", "record", "struct", "hash":
		return kindObject
	}
	return kindUnknown
}

// kindOfValue is the kind of schema that a value fits.
func (t *tape) kindOfValue(place int32) kind {
	switch t.nodes[place].kind {
	case rawjson.String:
		return kindString
	case rawjson.Bool:
		return kindBoolean
	case rawjson.Number:
		if bytes.ContainsAny(t.raw(place), ".eE") {
			return kindNumber
		}
		return kindInteger
	case rawjson.Array:
		return kindArray
	case rawjson.Object:
		return kindObject
	}
	return kindNull
}

// setKinds takes the value of "type", or of a schema that is written as nothing but a type. The first one given stays.
func (c *cleaner) setKinds(f *frame, place int32) {
	if len(f.kinds) > 0 {
		return
	}
	n := &c.nodes[place]
	switch n.kind {
	case rawjson.String:
		f.addKind(c.typeName(f, place))
	case rawjson.Array:
		for i := n.first; i != 0; i = c.nodes[i].next {
			if c.nodes[i].kind == rawjson.String {
				f.addKind(c.typeName(f, i))
			} else if c.nodes[i].kind == rawjson.Null {
				f.addKind(kindNull)
			}
		}
	}
	if len(f.kinds) == 0 {
		c.note(mended, wType)
	}
}

// typeName reads one name of a type. A name that says more than the type it stands for is kept as a hint.
func (c *cleaner) typeName(f *frame, place int32) kind {
	if n := &c.nodes[place]; n.marks&exact != 0 {
		return n.named
	}
	name := c.text(place)
	k := kindNamed(name)
	if plain := strings.ToLower(string(name)); k == kindUnknown || k == kindString && plain != "string" && plain != "str" {
		c.hintValue(f, "type: ", place, maxScalar)
		c.note(mended, wType)
	}
	return k
}

func (f *frame) addKind(k kind) {
	switch k {
	case kindUnknown:
		return
	case kindNull:
		f.nullable, f.nullNamed = true, true
		f.kinds = append(f.kinds, kindNull)
		return
	}
	for _, other := range f.kinds {
		if other == k {
			return
		}
	}
	f.kinds = append(f.kinds, k)
}

// declared is the one type that was asked for so far, or unknown.
func (f *frame) declared() kind {
	for _, k := range f.kinds {
		if k != kindNull && k != kindAny {
			return k
		}
	}
	return kindUnknown
}

// decideKind decides which one type the schema gets.
func (c *cleaner) decideKind(f *frame, at place) kind {
	var several int
	for _, k := range f.kinds {
		if k != kindNull {
			several++
		}
	}
	if several > 1 {
		c.hintKinds(f, f.kinds)
		c.note(moved, wType)
	} else if f.nullNamed {
		f.hint("nullable")
		c.note(merged, wType)
	}
	for _, k := range f.kinds {
		if k == kindObject && len(f.props) > 0 || k == kindArray && len(f.items) > 0 {
			return k
		}
	}
	if k := f.declared(); k != kindUnknown {
		return k
	}
	if at == top {
		c.note(mended, wType)
		return kindObject
	}
	return c.inferKind(f)
}

// inferKind guesses a type from the other keywords.
func (c *cleaner) inferKind(f *frame) kind {
	c.note(mended, wType)
	var implied [len(kindNames)]bool
	for _, w := range f.order {
		if f.val[w] != 0 {
			implied[words[w].implies] = true
		}
	}
	switch {
	case len(f.props) > 0 || len(f.required) > 0 || implied[kindObject]:
		return kindObject
	case len(f.items) > 0 || implied[kindArray]:
		return kindArray
	case len(f.enum) > 0:
		return c.kindOfEnum(f)
	case implied[kindString]:
		return kindString
	case implied[kindNumber]:
		return kindNumber
	case f.sees:
		return kindObject
	}
	if f.val[wDefault] != 0 {
		if k := c.kindOfValue(f.val[wDefault]); k != kindNull {
			return k
		}
	}
	if !f.nullable || len(f.kinds) > 0 && f.kinds[0] == kindAny {
		f.hint("any JSON value")
	}
	return kindString
}
