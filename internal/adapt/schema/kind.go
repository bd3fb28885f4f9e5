package schema

import (
	"bytes"
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A kind is one of the types that a schema can ask for.
type kind uint8

const (
	kindUnknown kind = iota
	kindAny          // declared to be anything
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

// otherNames are names of types that come from programming languages and databases.
var otherNames = map[kind]string{
	kindNull:    "none nil undefined void",
	kindAny:     "unknown mixed json type_unspecified",
	kindString:  "str text char date datetime date-time time uuid uri url email file binary bytes",
	kindInteger: "int int32 int64 long short uint",
	kindNumber:  "float double decimal float32 float64",
	kindBoolean: "bool",
	kindArray:   "list tuple set",
	kindObject:  "dict map record struct hash",
}

var kindsByName = func() map[string]kind {
	all := map[string]kind{}
	for k, names := range otherNames {
		all[kindNames[k]] = k
		for _, name := range strings.Fields(names) {
			all[name] = k
		}
	}
	return all
}()

// kindNamed returns the type that a string names, in any case, or unknown.
func kindNamed(value *node) kind {
	k := exactKind(value)
	if k == kindUnknown && value.kind == rawjson.String && len(value.raw) < 32 {
		k = kindsByName[strings.ToLower(value.text())]
	}
	return k
}

// exactKind is kindNamed for the types that the provider has, spelled as it spells them.
func exactKind(value *node) kind {
	for k := kindString; k <= kindObject && value.kind == rawjson.String; k++ {
		if string(value.inner()) == kindNames[k] {
			return k
		}
	}
	return kindUnknown
}

// kindOf returns the type of a value.
func kindOf(value *node) kind {
	if value.kind == rawjson.Number && bytes.ContainsAny(value.raw, ".eE") {
		return kindNumber
	}
	return [...]kind{rawjson.Null: kindNull, rawjson.Bool: kindBoolean, rawjson.Number: kindInteger,
		rawjson.String: kindString, rawjson.Array: kindArray, rawjson.Object: kindObject}[value.kind]
}

// setKinds takes the value of "type", or of a schema that is nothing but a type. The first one
// given stays.
func (c *cleaner) setKinds(f *frame, value *node) {
	if len(f.kinds) > 0 {
		return
	}
	if value.kind == rawjson.String {
		f.addKind(c.typeName(f, value))
	}
	for _, m := range value.elements() {
		switch m.kind {
		case rawjson.String:
			f.addKind(c.typeName(f, m))
		case rawjson.Null:
			f.addKind(kindNull)
		}
	}
	if len(f.kinds) == 0 {
		c.note(Repaired, "type")
	}
}

// typeName reads one name of a type. A name that is more specific than its type is kept as a hint.
func (c *cleaner) typeName(f *frame, value *node) kind {
	k := kindNamed(value)
	isString := func(name string) bool { return strings.EqualFold(value.text(), name) }
	if k == kindUnknown || k == kindString && !isString("string") && !isString("str") {
		c.hintValue(f, "type: ", value, maxScalar)
		c.note(Repaired, "type")
	}
	return k
}

func (f *frame) addKind(k kind) {
	if k == kindNull {
		f.nullable, f.nullNamed = true, true
	} else if k == kindUnknown || slices.Contains(f.kinds, k) {
		return
	}
	f.kinds = append(f.kinds, k)
}

// declared returns the first type that was asked for so far, or unknown.
func (f *frame) declared() kind {
	for _, k := range f.kinds {
		if k != kindNull && k != kindAny {
			return k
		}
	}
	return kindUnknown
}

// decideKind decides which one type the schema gets.
func (c *cleaner) decideKind(f *frame, top bool) kind {
	several := 0
	for _, k := range f.kinds {
		if k != kindNull {
			several++
		}
	}
	if several > 1 {
		f.hintKinds(f.kinds)
		c.note(Moved, "type")
	} else if f.nullNamed {
		f.hint("nullable")
		c.note(Merged, "type")
	}
	for _, k := range f.kinds {
		if k == kindObject && len(f.props) > 0 || k == kindArray && len(f.items) > 0 {
			return k
		}
	}
	if k := f.declared(); k != kindUnknown {
		return k
	}
	c.note(Repaired, "type")
	if top {
		return kindObject
	}
	return f.inferKind()
}

// inferKind guesses a type from the other keywords.
func (f *frame) inferKind() kind {
	var implied [len(kindNames)]bool
	for _, e := range f.entries {
		if e.value != nil {
			implied[e.value.key.implies] = true
		}
	}
	switch {
	case len(f.props) > 0 || len(f.required) > 0 || implied[kindObject]:
		return kindObject
	case len(f.items) > 0 || implied[kindArray]:
		return kindArray
	case len(f.values) > 0:
		return kindOfAll(f.values)
	case implied[kindString]:
		return kindString
	case implied[kindNumber]:
		return kindNumber
	case f.cut:
		return kindObject
	}
	if e := f.entry("default"); e != nil && e.value.kind != rawjson.Null {
		return kindOf(e.value)
	}
	if !f.nullable || len(f.kinds) > 0 && f.kinds[0] == kindAny {
		f.hint("any JSON value")
	}
	return kindString
}

// kindOfAll returns the type of all values, or string, as which any value can be written.
func kindOfAll(values []*node) kind {
	var kinds []kind // different ones
	for _, v := range values {
		if k := kindOf(v); k != kindNull && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	switch {
	case len(kinds) == 1:
		return kinds[0]
	case len(kinds) == 2 && slices.Contains(kinds, kindInteger) && slices.Contains(kinds, kindNumber):
		return kindNumber
	}
	return kindString
}
