package schema

import (
	"bytes"
	"strconv"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A keyword is from any draft of JSON Schema or from the provider's own schema message. With
// nothing but a name it is a keyword that the provider does not have and that is moved into the
// description.
type keyword struct {
	name  string // in the table: the names of all keywords that have the rest in common
	alias string // other spellings: of protocol buffers, of other drafts

	fits    func(*node) bool // the provider has the keyword, and can read the value
	claude  bool             // it has it also for Claude
	implies kind             // the type of a schema that has the keyword and no type

	proves rawjson.Kind // only schemas have the keyword with a value of this kind
	// noObject means that its value is not an object: with a schema as its value, it is a property
	// outside of "properties".
	noObject bool
	silent   bool // it does not restrict values, so leaving it out is not reported

	position int // in the table, which is the order of changes; from 1
}

// noKeyword represents every other name.
var noKeyword = &keyword{noObject: true}

var keywords = []keyword{
	// In the provider's schema message.
	{name: "type", proves: rawjson.Array, noObject: true},
	{name: "description", noObject: true},
	{name: "title", noObject: true, fits: isString, claude: true},
	{name: "nullable", noObject: true},
	{name: "enum", proves: rawjson.Array, noObject: true},
	{name: "properties", proves: rawjson.Object},
	{name: "required", noObject: true},
	{name: "items"},
	{name: "format", noObject: true, fits: isString, implies: kindString},
	{name: "minItems", alias: "min_items", noObject: true, fits: isCount, implies: kindArray},
	{name: "maxItems", alias: "max_items", noObject: true, fits: isCount, implies: kindArray},
	{name: "minProperties", alias: "min_properties", noObject: true, fits: isCount, implies: kindObject},
	{name: "maxProperties", alias: "max_properties", noObject: true, fits: isCount, implies: kindObject},
	{name: "minimum maximum", noObject: true, fits: isExact, implies: kindNumber},
	{name: "minLength", alias: "min_length", noObject: true, fits: isCount, implies: kindString},
	{name: "maxLength", alias: "max_length", noObject: true, fits: isCount, implies: kindString},
	{name: "pattern", noObject: true, fits: isString, implies: kindString},
	{name: "example", fits: isPresent},
	{name: "default"}, // the model sees it only in the description
	{name: "anyOf", alias: "any_of", proves: rawjson.Array},
	{name: "propertyOrdering", alias: "property_ordering", fits: isList},

	// Expressed in another way.
	{name: "oneOf allOf", proves: rawjson.Array},
	{name: "const"},
	{name: "$ref", alias: "$dynamicRef $recursiveRef", proves: rawjson.String, noObject: true},
	{name: "prefixItems if then else not"},
	{name: "contains", implies: kindArray},
	{name: "additionalProperties", implies: kindObject},
	{name: "unevaluatedProperties"},
	{name: "patternProperties propertyNames", implies: kindObject},
	{name: "dependentRequired dependentSchemas dependencies"},
	{name: "exclusiveMinimum exclusiveMaximum multipleOf", implies: kindNumber},
	{name: "uniqueItems", implies: kindArray},
	{name: "minContains maxContains"},
	{name: "contentEncoding contentMediaType", implies: kindString},
	{name: "examples enumDescriptions"},
	{name: "deprecated readOnly", noObject: true},
	{name: "writeOnly"},

	// Without a statement about values.
	{name: "$schema $id $anchor $dynamicAnchor $vocabulary $defs definitions", silent: true},
	{name: "additionalItems unevaluatedItems contentSchema", silent: true},
	{name: "$comment", silent: true, noObject: true},
}

// byName has the keywords by all their names.
var byName = func() map[string]*keyword {
	all := map[string]*keyword{}
	for _, row := range keywords {
		for _, name := range strings.Fields(row.name) {
			k := row
			k.name, k.position = name, len(all)+1
			all[name] = &k
			for _, alias := range strings.Fields(row.alias) {
				all[alias] = &k
			}
		}
	}
	return all
}()

// keeps reports whether the provider accepts the value of a member unchanged.
func (r rules) keeps(m *node) bool {
	return m.key.fits != nil && (r.family == Gemini || m.key.claude) && m.key.fits(m)
}

func isString(n *node) bool  { return n.kind == rawjson.String }
func isList(n *node) bool    { return n.kind == rawjson.Array }
func isPresent(n *node) bool { return n.kind != rawjson.Null }
func isCount(n *node) bool   { return n.kind == rawjson.Number && isWhole(n.raw, 18) }

// isWhole reports whether a number is written as at most so many digits and nothing else.
func isWhole(raw []byte, digits int) bool {
	raw = bytes.TrimPrefix(raw, []byte("-"))
	return len(raw) <= digits && !bytes.ContainsAny(raw, ".eE")
}

// isExact reports whether a number survives being read as a 64-bit floating-point one.
func isExact(n *node) bool {
	switch raw := n.raw; {
	case n.kind != rawjson.Number:
		return false
	case isWhole(raw, 15):
		return true
	case len(raw) > 40 || isWhole(raw, len(raw)):
		return false
	default:
		f, err := strconv.ParseFloat(string(raw), 64)
		return err == nil && (f != 0 || !bytes.ContainsAny(raw, "123456789"))
	}
}

// isSafeInteger reports whether a bound is only the largest exact integer of JavaScript. JavaScript
// libraries put it on every integer.
func isSafeInteger(m *node) bool {
	return m.key.implies == kindNumber && string(bytes.TrimPrefix(m.raw, []byte("-"))) == "9007199254740991"
}

// formats are those that the provider accepts, each for one type.
var formats = map[string]kind{
	"date-time": kindString, "int32": kindInteger, "int64": kindInteger, "float": kindNumber, "double": kindNumber,
}
