package schema_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"perigee/internal/adapt/schema"
	"perigee/internal/testing/perigeetest/await"
)

func TestWhatNeedsNoChangeIsReturnedAsItIs(t *testing.T) {
	text := []byte("{ \"type\" : \"object\",\n \"properties\" : { \"a\" : {\"type\":\"string\", \"description\":\"<a> \\u00e4\"} } }\n")
	for _, family := range families {
		result := schema.Clean(text, family)
		if &result.Schema[0] != &text[0] || len(result.Schema) != len(text) {
			t.Errorf("it was copied: %s", result.Schema)
		}
		if result.Changes != nil || result.Placeholder {
			t.Errorf("changes: %v", result.Changes)
		}
	}
}

func TestUntouchedPropertiesKeepTheirBytes(t *testing.T) {
	const kept = `{ "description": "2^53 < \u00e4 & \/",  "type":"string" }`
	result := schema.Clean([]byte(`{"type":"object","properties":{"a":`+kept+`,"b":{"const":1}}}`), schema.Claude)
	if !bytes.Contains(result.Schema, []byte(`"a":`+kept+`,`)) {
		t.Errorf("%s", result.Schema)
	}
}

// TestDoublingReferences has thirty definitions that each use the next one twice: written out that
// would be a billion.
func TestDoublingReferences(t *testing.T) {
	for name, use := range map[string]string{
		"properties": `{"type":"object","properties":{"l":{"$ref":"#/$defs/d%[1]d"},"r":{"$ref":"#/$defs/d%[1]d"}},"required":["l"]}`,
		"allOf":      `{"allOf":[{"$ref":"#/$defs/d%[1]d"},{"$ref":"#/$defs/d%[1]d"}]}`,
		"anyOf":      `{"anyOf":[{"$ref":"#/$defs/d%[1]d"},{"$ref":"#/$defs/d%[1]d"},{"type":"null"}]}`,
		"tuple":      `{"type":"array","prefixItems":[{"$ref":"#/$defs/d%[1]d"},{"$ref":"#/$defs/d%[1]d"}]}`,
		"then":       `{"if":{},"then":{"$ref":"#/$defs/d%[1]d"},"else":{"$ref":"#/$defs/d%[1]d"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := doubling(use)
			for _, family := range families {
				result := schema.Clean([]byte(text), family)
				if len(result.Schema) > 400<<10 {
					t.Errorf("%d bytes became %d", len(text), len(result.Schema))
				}
				if problem := problemOf([]byte(text), family, false); problem != "" {
					t.Error(problem[:min(len(problem), 500)])
				}
				if name == "properties" && !bytes.Contains(result.Schema, []byte("See: d")) {
					t.Error("nothing says what was cut")
				}
			}
		})
	}
}

func doubling(use string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"top":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&b, `"d%d":%s,`, i, fmt.Sprintf(use, i+1))
	}
	b.WriteString(`"d30":{"type":"string"}}}`)
	return b.String()
}

func TestDeepNestingIsCut(t *testing.T) {
	for name, level := range map[string][2]string{
		"properties": {`{"type":"object","properties":{"p":`, `},"required":["p"]}`},
		"items":      {`{"type":"array","items":`, `}`},
		"upper case": {`{"type":"ARRAY","items":`, `}`},
		"allOf":      {`{"allOf":[`, `]}`},
		"anyOf":      {`{"anyOf":[{"type":"null"},`, `]}`},
		"then":       {`{"then":`, `}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, depth := range []int{50, 89, 90, 91, 92, 93, 300, 490} {
				inner := strings.Repeat(level[0], depth) + `{"type":"string"}` + strings.Repeat(level[1], depth)
				text := []byte(`{"type":"object","properties":{"p":` + inner + `}}`)
				for _, family := range families {
					if problem := problemOf(text, family, false); problem != "" {
						t.Fatalf("%d levels: %s", depth, problem[:min(len(problem), 300)])
					}
					cut := bytes.Contains(schema.Clean(text, family).Schema, []byte("nested too deep"))
					if grows := strings.HasPrefix(level[0], `{"type":`); cut != (grows && depth > 91) && depth != 90 && depth != 91 {
						t.Errorf("%d levels: cut %v", depth, cut)
					}
				}
			}
		})
	}
}

func TestCleaningIsSafeForConcurrentUse(t *testing.T) {
	inputs := agentTools(8)
	for _, c := range checklist(t) {
		inputs = append(inputs, []byte(c.whole()))
	}
	want := make([]string, len(inputs))
	for i, in := range inputs {
		want[i] = string(schema.Clean(in, schema.Claude).Schema)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range inputs {
				i = (i + worker*7) % len(inputs)
				if got := string(schema.Clean(inputs[i], schema.Claude).Schema); got != want[i] {
					t.Errorf("got %s\nwant %s", got, want[i])
				}
			}
		})
	}
	await.Return(t, wg.Wait, "the goroutines")
}

// Placeholders are known by their place: a tool may have a property of that name elsewhere.
func TestTakeOutPlaceholder(t *testing.T) {
	const (
		none = `{"type":"object"}`
		some = `{"type":"object","properties":{"o":{"type":"object"},"l":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}},` +
			`"own":{"type":"object","properties":{"_placeholder":{"type":"string"}},"required":["_placeholder"]},` +
			`"optional":{"type":"object","properties":{"_placeholder":{"type":"boolean","description":"mine"}}},"_placeholder":{"type":"string"}}}`
	)
	for _, c := range []struct{ name, schema, args, want string }{
		{"alone", none, `{"_placeholder":true}`, `{}`},
		{"first", none, `{"_placeholder":true,"a":1}`, `{"a":1}`},
		{"last", none, `{"a": 12345678901234567890 , "_placeholder" : "true"}`, `{"a":12345678901234567890}`},
		{"nested", some, `{"o":{"_placeholder":true},"l":[{"_placeholder":true,"b":"<é\u00e9>"}]}`, `{"o":{},"l":[{"b":"<é\u00e9>"}]}`},
		{"a property of the tool's", some, `{"_placeholder":"mine","own":{"_placeholder":"mine"},"optional":{"_placeholder":true},"o":{"_placeholder":true}}`,
			`{"_placeholder":"mine","own":{"_placeholder":"mine"},"optional":{"_placeholder":true},"o":{}}`},
		{"where the schema says nothing", some, `{"x":{"_placeholder":true},"o":{"y":{"_placeholder":true}}}`, `{"x":{"_placeholder":true},"o":{"y":{"_placeholder":true}}}`},
		{"not there", none, `{ "a" : 1 }`, `{ "a" : 1 }`},
		{"as a value", none, `{"a":"_placeholder"}`, `{"a":"_placeholder"}`},
		{"inside of a text", none, `{"a":"{\"_placeholder\":true}"}`, `{"a":"{\"_placeholder\":true}"}`},
		{"not an object", none, `["_placeholder"]`, `["_placeholder"]`},
		{"not JSON", none, `{"_placeholder":`, `{"_placeholder":`},
		{"nothing", none, ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			cleaned := schema.Clean([]byte(c.schema), schema.Claude).Schema
			if got := string(schema.TakeOutPlaceholder([]byte(c.args), cleaned)); got != c.want {
				t.Errorf("got %s, want %s after %s", got, c.want, cleaned)
			}
		})
	}
}

// TestPlaceholderIsReported holds the two halves together: what Clean put in is what
// TakeOutPlaceholder takes out.
func TestPlaceholderIsReported(t *testing.T) {
	for _, c := range checklist(t) {
		for _, family := range families {
			result := c.clean(family)
			if has := bytes.Contains(result.Schema, []byte(`"_placeholder":`)); has != result.Placeholder {
				t.Errorf("%s: reported %v, %s", c.name, result.Placeholder, result.Schema)
			}
		}
	}
}
