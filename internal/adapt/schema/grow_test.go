package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/adapt/schema"
	"perigee/internal/lib/rawjson"
)

// A grower makes schemas up, sound ones and broken ones, from numbers that choose supplies.
type grower struct {
	choose func(n int) int // 0 to n-1
	left   int             // nodes that may still be made
}

func (g *grower) one(of ...string) string { return of[g.choose(len(of))] }

func (g *grower) name() string {
	return g.one(`"a"`, `"b"`, `"c"`, `"type"`, `"properties"`, `"required"`, `"$ref"`, `"enum"`, `"description"`, `"items"`,
		`"title"`, `"_placeholder"`, `"x-y"`, `"\u0061"`, `"schema"`, `"d.e"`, `"é \"q\""`, `""`)
}

func (g *grower) list(most int, item func() string) string {
	items := make([]string, g.choose(most+1))
	for i := range items {
		items[i] = item()
	}
	return "[" + strings.Join(items, ",") + "]"
}

// object never has a name twice: such a text is no JSON to us.
func (g *grower) object(most int, member func() (name, value string)) string {
	var items []string
	seen := map[string]bool{}
	for range g.choose(most + 1) {
		name, value := member()
		if name == `"\u0061"` && seen[`"a"`] || name == `"a"` && seen[`"\u0061"`] || seen[name] {
			continue
		}
		seen[name] = true
		items = append(items, name+g.one(":", " : ")+value)
	}
	return "{" + strings.Join(items, g.one(",", ", ")) + "}"
}

func (g *grower) value() string {
	return g.one(`"x"`, `"y"`, `""`, `"1"`, `1`, `0`, `-3`, `2.5`, `1e3`, `9007199254740993`, `9007199254740991`, `true`, `false`, `null`, `{}`, `[]`, `{"k": [1, 2]}`,
		`"<a> & \"b\""`, `"Allowed: x"`, `"(nullable)"`, `"Größe\n"`)
}

func (g *grower) typeName() string {
	return g.one(`"string"`, `"object"`, `"array"`, `"integer"`, `"number"`, `"boolean"`, `"null"`, `"STRING"`, `"Object"`, `"any"`, `"int"`, `"date"`, `"nonsense"`)
}

func (g *grower) ref() string {
	return g.one(`"#"`, `"#/$defs/a"`, `"#/$defs/b"`, `"#/$defs/c"`, `"#/definitions/a"`, `"#/properties/a"`, `"#/properties/b/items"`, `"#/anyOf/0"`, `"#/allOf/1"`,
		`"#/$defs/missing"`, `"https://example.com/s.json#/x"`, `"a"`, `"#/$defs/~1x"`, `7`)
}

// schema makes one node.
func (g *grower) schema() string {
	if g.left--; g.left <= 0 || g.choose(20) == 0 {
		return g.one(`{}`, `true`, `false`, `null`, `"string"`, `[]`, `{"type":"string"}`, `{"type":"object"}`)
	}
	return g.object(5, g.member)
}

func (g *grower) member() (name, value string) {
	if g.choose(25) == 0 {
		return `"` + g.one("type", "enum", "properties", "items", "required", "anyOf", "allOf", "description", "minLength", "format", "nullable", "const") + `"`, g.value()
	}
	type keyword struct {
		name string
		make func() string
	}
	schemas := func() string { return g.list(3, g.schema) }
	named := func() string { return g.object(3, func() (string, string) { return g.name(), g.schema() }) }
	names := func() string { return g.list(4, g.name) }
	number := func() string { return g.one(`1`, `0`, `10`, `-1`, `1.5`, `1e400`, `"3"`, `9223372036854775808`) }
	keywords := []keyword{
		{"type", g.typeName}, {"type", g.typeName}, {"type", g.typeName}, {"type", func() string { return g.list(3, g.typeName) }},
		{"description", g.value}, {"title", g.value}, {"nullable", g.value},
		{"properties", named}, {"properties", named}, {"required", names}, {"items", g.schema}, {"items", schemas}, {"prefixItems", schemas},
		{"enum", func() string { return g.list(4, g.value) }}, {"const", g.value},
		{"anyOf", schemas}, {"oneOf", schemas}, {"allOf", schemas}, {"any_of", schemas}, {"not", g.schema}, {"if", g.schema}, {"then", g.schema}, {"else", g.schema},
		{"$ref", g.ref}, {"$ref", g.ref}, {"$defs", named}, {"definitions", named}, {"dependentSchemas", named}, {"dependencies", named},
		{"additionalProperties", g.schema}, {"patternProperties", named}, {"propertyNames", g.schema},
		{"minLength", number}, {"maxItems", number}, {"minimum", number}, {"maximum", number}, {"exclusiveMinimum", number}, {"multipleOf", number},
		{"format", func() string { return g.one(`"date-time"`, `"uri"`, `"int32"`, `"double"`, `"enum"`, `7`) }}, {"pattern", g.value},
		{"default", g.value}, {"example", g.value}, {"examples", func() string { return g.list(4, g.value) }}, {"uniqueItems", g.value}, {"deprecated", g.value},
		{"propertyOrdering", names}, {"$schema", g.value}, {"x-vendor", g.schema}, {"schema", g.schema}, {"other", g.schema},
		{"dependentRequired", func() string { return g.object(2, func() (string, string) { return g.name(), names() }) }},
	}
	k := keywords[g.choose(len(keywords))]
	return `"` + k.name + `"`, k.make()
}

// grown makes a schema from bytes; when they are used up the rest of it is as small as possible.
func grown(seed []byte) string {
	g := grower{left: 40, choose: func(n int) int {
		if len(seed) == 0 {
			return 0
		}
		b := seed[0]
		seed = seed[1:]
		return int(b) % n
	}}
	return g.schema()
}

func TestWhateverGrowsIsCleaned(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := grower{left: 40, choose: func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") }}
		text := g.schema()
		for _, family := range families {
			for _, response := range []bool{false, true} {
				if problem := problemOf([]byte(text), family, response); problem != "" {
					rt.Fatal(problem)
				}
			}
		}
	})
}

// problemOf checks one cleaning, in words.
func problemOf(raw []byte, family schema.Family, response bool) string {
	clean := schema.Clean
	if response {
		clean = schema.CleanResponse
	}
	once := clean(raw, family)
	describe := func(what string) string { return fmt.Sprintf("%s\nin  %s\nout %s", what, raw, once.Schema) }
	if err := rawjson.Check(once.Schema); err != nil {
		return describe(err.Error())
	}
	if refusal := refusalOf(once.Schema, family, response); refusal != nil {
		return describe("refused: " + refusal.Message)
	}
	kept := string(once.Schema)
	if twice := clean(once.Schema, family); string(twice.Schema) != kept || len(twice.Changes) > 0 || twice.Placeholder {
		return describe(fmt.Sprintf("cleaned again it is %s with %v", twice.Schema, twice.Changes))
	}
	if again := clean(raw, family); string(again.Schema) != kept || fmt.Sprint(again.Changes) != fmt.Sprint(once.Changes) {
		return describe("the same input gave something else: " + string(again.Schema))
	}
	return ""
}
