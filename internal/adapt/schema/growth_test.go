package schema

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

// shapes are schemas of about n parts that would cost more than they are worth if something in here
// were not linear.
var shapes = map[string]func(n int) string{
	"properties": func(n int) string {
		return `{"type":"object","properties":{` + many(n, `"p%d":{"type":"string","maxLength":1}`) + `},"required":[` + many(n, `"p%d"`) + `]}`
	},
	"definitions": func(n int) string {
		return `{"$defs":{` + many(n, `"d%d":{"type":"object","properties":{"a":{"type":"string"}}}`) + `},"properties":{` + many(n, `"p%[1]d":{"$ref":"#/$defs/d%[1]d"}`) + `}}`
	},
	"definitions by index": func(n int) string {
		return `{"list":[` + many(n, `{"type":"string","title":"%d"}`) + `],"properties":{` + many(n, `"p%[1]d":{"$ref":"#/list/%[1]d"}`) + `}}`
	},
	"chain of references": func(n int) string {
		return `{"$defs":{` + many(n, `"d%d":{"$ref":"#/$defs/d%d"}`, 1) + `},"$ref":"#/$defs/d0"}`
	},
	"allOf": func(n int) string {
		return `{"allOf":[` + many(n, `{"properties":{"p%[1]d":{"type":"string"}},"required":["p%[1]d"],"description":"d%[1]d","not":{"const":%[1]d}}`) + `]}`
	},
	"same property in allOf": func(n int) string {
		return `{"allOf":[` + many(n, `{"properties":{"p":{"type":"string","description":"d%d"}}}`) + `]}`
	},
	"anyOf objects": func(n int) string {
		return `{"properties":{"u":{"anyOf":[` + many(n, `{"type":"object","properties":{"kind":{"const":"k%[1]d"},"p%[1]d":{}},"required":["kind"]}`) + `]}}}`
	},
	"anyOf values":      func(n int) string { return `{"properties":{"u":{"anyOf":[` + many(n, `{"const":"k%d"}`) + `]}}}` },
	"nested anyOf":      func(n int) string { return nest(min(n, 300), `{"anyOf":[`, `{"type":"string"}`, `,{"type":"null"}]}`) },
	"enum":              func(n int) string { return `{"properties":{"e":{"enum":[` + many(n, `"v%d"`) + `]}}}` },
	"tuple":             func(n int) string { return `{"properties":{"t":{"prefixItems":[` + many(n, `{"const":%d}`) + `]}}}` },
	"dependentRequired": func(n int) string { return `{"dependentRequired":{` + many(n, `"a%d":["b"]`) + `}}` },
	"patternProperties": func(n int) string { return `{"patternProperties":{` + many(n, `"^a%d":{"type":"string"}`) + `}}` },
	"unknown keywords":  func(n int) string { return `{` + many(n, `"k%d":1`) + `}` },
	"bare properties":   func(n int) string { return `{` + many(n, `"k%d":{"type":"string"}`) + `}` },
	"wide definition, many references": func(n int) string {
		return `{"$defs":{"d":{"anyOf":[` + many(n, `{"type":"string","title":"%d"}`) + `]}},"properties":{` + many(n, `"p%d":{"$ref":"#/$defs/d"}`) + `}}`
	},
	"large description, many references": func(n int) string {
		return `{"$defs":{"d":{"type":"string","pattern":"x","description":"` + strings.Repeat("x", 10*n) + `"}},"properties":{` + many(n, `"p%d":{"$ref":"#/$defs/d"}`) + `}}`
	},
	"unions of references": func(n int) string {
		refs := many(n, `{"$ref":"#/$defs/b","title":"%d"}`)
		return `{"$defs":{"a":{"anyOf":[` + refs + `]},"b":{"anyOf":[` + strings.ReplaceAll(refs, "/b", "/c") + `]},"c":{"anyOf":[{"type":"string"}]}},"properties":{"p":{"$ref":"#/$defs/a"}}}`
	},
}

func many(n int, format string, next ...int) string {
	list := make([]string, n)
	for i := range list {
		if len(next) > 0 {
			list[i] = fmt.Sprintf(format, i, (i+next[0])%n)
		} else {
			list[i] = fmt.Sprintf(format, i)
		}
	}
	return strings.Join(list, ",")
}

func nest(n int, open, inner, closing string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// TestCostIsLinear counts instead of timing: ten times the input is at most about ten times the
// work and the output.
func TestCostIsLinear(t *testing.T) {
	perigeetest.Slow(t)
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			for _, r := range []rules{{family: Claude}, {family: Gemini}} {
				cost := func(n int) (visits, out, in int) {
					c := &cleaner{rules: r}
					text := shape(n)
					result := c.run([]byte(text))
					return c.visits, len(result.Schema), len(text)
				}
				visits, out, in := cost(1000)
				manyVisits, manyOut, manyIn := cost(10000)
				growth := manyIn/in + 2
				if manyVisits > growth*(visits+30_000) {
					t.Errorf("%d visits for %d bytes, %d for %d", visits, in, manyVisits, manyIn)
				}
				if manyOut > growth*(out+100<<10) || manyOut > 9*manyIn+300<<10 {
					t.Errorf("%d bytes become %d, %d become %d", in, out, manyIn, manyOut)
				}
			}
		})
	}
}

func TestTenMegabytes(t *testing.T) {
	perigeetest.Slow(t)
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := 0; b.Len() < 10<<20; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"anyOf":[{"type":"object","properties":{"a":{"type":["string","null"],"maxLength":%d}}},{"type":"null"}]}`, i, i)
	}
	b.WriteString(`}}`)
	c := &cleaner{}
	result := c.run([]byte(b.String()))
	if perNode := float64(c.visits) / float64(c.values); perNode > 6 {
		t.Errorf("every node was looked at %.1f times", perNode)
	}
	if len(result.Schema) < 5<<20 || len(result.Schema) > 40<<20 {
		t.Errorf("%d bytes became %d", b.Len(), len(result.Schema))
	}
}
