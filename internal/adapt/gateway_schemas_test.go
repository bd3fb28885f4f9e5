package adapt

import (
	"reflect"
	"testing"

	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
)

// Schemas from a cache give the same prompt, notes and fillers, for each family that shares it.
func TestSchemasFromACache(t *testing.T) {
	p := agentPrompt(0, "")
	p.Tools[0].Function.Parameters = []byte(`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}},"not":{}}`)
	p.Tools[1].Function.Parameters = []byte(`{"type":"object"}`)
	p.Generation.ResponseSchema = []byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}`)
	cache := schema.NewCache(schema.CacheBytes)
	for range 2 {
		for _, model := range []string{"claude-opus-4-6-thinking", "gemini-3-flash"} {
			got := ForAntigravity(p, models.Of(model), AntigravityOptions{Schemas: cache})
			want := ForAntigravity(p, models.Of(model), AntigravityOptions{})
			if !reflect.DeepEqual(got, want) || len(got.Notes) == 0 {
				t.Errorf("%s: with a cache %+v, notes %v; without %+v, notes %v", model, got.Prompt, got.Notes, want.Prompt, want.Notes)
			}
		}
	}
}
