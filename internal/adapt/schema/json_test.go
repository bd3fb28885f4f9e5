package schema

import "testing"

// Schemas of the Gemini API become JSON Schemas, and JSON Schemas stay unchanged.
func TestJSON(t *testing.T) {
	cache := NewCache(CacheBytes)
	for _, c := range []struct{ name, in, want string }{
		{"types", `{"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"ARRAY","items":{"type":"INTEGER"}}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"integer"}}},"required":["a"]}`},
		{"nullable", `{"type":"STRING","nullable":true}`, `{"type":["string","null"]}`},
		{"nullable values", `{"type":"STRING","nullable":true,"enum":["a"]}`, `{"type":["string","null"],"enum":["a",null]}`},
		{"nullable union", `{"nullable":true,"anyOf":[{"type":"STRING"}]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`},
		{"not nullable", `{"type":"STRING","nullable":false}`, `{"type":"string"}`},
		{"no type", `{"type":"TYPE_UNSPECIFIED","description":"d"}`, `{"description":"d"}`},
		{"order of properties", `{"type":"OBJECT","propertyOrdering":["a"],"properties":{"a":{"type":"STRING"}}}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`},
		{"limits as text", `{"type":"ARRAY","minItems":"1","maxItems":"9"}`, `{"type":"array","minItems":1,"maxItems":9}`},
		{"a property named type", `{"type":"OBJECT","properties":{"type":{"type":"STRING"},"nullable":{"type":"BOOLEAN"}}}`,
			`{"type":"object","properties":{"type":{"type":"string"},"nullable":{"type":"boolean"}}}`},
		{"a JSON Schema", `{"type":"object","additionalProperties":false,"$defs":{"x":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
			`{"type":"object","additionalProperties":false,"$defs":{"x":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/x"}}}`},
		{"several types", `{"type":["string","null"]}`, `{"type":["string","null"]}`},
		{"true", `true`, `true`},
	} {
		for _, cache := range []*Cache{nil, cache, cache} {
			if got := string(cache.JSON([]byte(c.in))); got != c.want {
				t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
			}
		}
	}
}
