package schema_test

import (
	"runtime"
	"strings"
	"testing"

	"perigee/internal/adapt/schema"
)

// A schema of very many small values is left out, and the result says so: cleaning would take up to
// sixty times its size.
func TestManyValuesAreLeftOut(t *testing.T) {
	for _, value := range []string{`1`, `""`, `{}`, `[]`, `{"a":1}`} {
		raw := []byte(`{"type":"object","properties":{"a":{"enum":[` + strings.Repeat(value+",", 500_000) + value + `]}}}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		result := schema.Clean(raw, schema.Claude)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes allocated for a schema of %d", value, used, len(raw))
		}
		if n := len(result.Changes); n == 0 || !result.Changes[n-1].Action.Loses() || !strings.Contains(string(result.Schema), `"type":"object"`) {
			t.Errorf("%s: %s, %v", value, result.Schema, result.Changes)
		}
	}
	kept := []byte(`{"type":"object","properties":{"a":{"type":"string","enum":["` + strings.Repeat(`a`, 100_000) + `"` + strings.Repeat(`,"b"`, 1000) + `]}}}`)
	if got := schema.Clean(kept, schema.Gemini); len(got.Schema) < 100_000 {
		t.Errorf("%d bytes became %d", len(kept), len(got.Schema))
	}
}
