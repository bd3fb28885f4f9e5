package schema

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// texts are schemas that are taken as they are, changed, not JSON, and none.
var texts = []string{
	`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`,
	`{"$schema":"x","type":"object","properties":{"n":{"type":"integer","minimum":1,"not":{}}},"additionalProperties":false}`,
	`{"type":"object"}`,
	`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`,
	`{"type":`,
	``,
}

func TestCacheAnswersAsCleaning(t *testing.T) {
	c := NewCache(CacheBytes)
	for round := range 2 {
		for _, text := range texts {
			for _, family := range []Family{Claude, Gemini} {
				for name, pair := range map[string][2]func([]byte, Family) Result{
					"Clean":         {c.Clean, Clean},
					"CleanSparing":  {c.CleanSparing, CleanSparing},
					"CleanResponse": {c.CleanResponse, CleanResponse},
				} {
					if got, want := pair[0]([]byte(text), family), pair[1]([]byte(text), family); !reflect.DeepEqual(got, want) {
						t.Errorf("round %d, %s(%s, %d) = %s %v; want %s %v", round, name, text, family, got.Schema, got.Changes, want.Schema, want.Changes)
					}
				}
			}
		}
	}
	if want := len(texts) * 2 * 3; c.entries.Len() != want {
		t.Errorf("%d entries, want %d", c.entries.Len(), want)
	}
}

// What a request has brought is not kept with what the cache remembers, and later requests may
// write over their own bytes.
func TestCacheKeepsNothingOfTheRequest(t *testing.T) {
	c := NewCache(CacheBytes)
	for _, text := range texts[:2] {
		want := string(Clean([]byte(text), Gemini).Schema)
		first := []byte(text)
		c.Clean(first, Gemini)
		clear(first)
		second := []byte(text)
		if got := c.Clean(second, Gemini); string(got.Schema) != want {
			t.Errorf("%s became %s, want %s", text, got.Schema, want)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache(64 << 10)
	tool := func(i int) []byte {
		return fmt.Appendf(nil, `{"type":"object","properties":{"p%d":{"type":"string","minLength":3,"description":%q}}}`, i, strings.Repeat("long ", 100))
	}
	for i := range 1000 {
		c.Clean(tool(i), Claude)
		c.Clean(tool(0), Claude) // used all the time, so it stays
	}
	if used := c.entries.TotalCost(); used > 64<<10 || c.entries.Len() < 10 {
		t.Errorf("%d entries with %d bytes", c.entries.Len(), used)
	}
	if _, ok := c.find(cacheKey{rules{family: Claude}, string(tool(0))}); !ok {
		t.Error("what is used all the time was dropped")
	}
	if _, ok := c.find(cacheKey{rules{family: Claude}, string(tool(1))}); ok {
		t.Error("what was used longest ago was kept")
	}
	used := c.entries.TotalCost()
	c.Clean([]byte(`{"type":"object","description":"`+strings.Repeat("x", 16<<10)+`"}`), Claude)
	if c.entries.TotalCost() != used {
		t.Error("a schema was kept that takes the place of many")
	}
}

func TestCacheForManyCallsAtOnce(t *testing.T) {
	c := NewCache(4 << 10) // so small that entries come and go
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 200 {
				text := texts[i%len(texts)]
				if got, want := c.Clean([]byte(text), Claude), Clean([]byte(text), Claude); !reflect.DeepEqual(got, want) {
					t.Errorf("%s became %s, want %s", text, got.Schema, want.Schema)
				}
			}
		})
	}
	await.Return(t, group.Wait, "the goroutines")
}

// A short schema can lose much, each time in a place with a long name.
func TestCacheCountsTheTextsOfChanges(t *testing.T) {
	c := NewCache(CacheBytes)
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object","properties":{%q:{"type":"string"`, strings.Repeat("p", maxPath))
	for i := range maxUnknown {
		fmt.Fprintf(&b, `,"unknown%d":1`, i)
	}
	b.WriteString("}}}")
	raw := []byte(b.String())
	result := c.Clean(raw, Claude)
	kept := len(raw) + len(result.Schema)
	for _, change := range result.Changes {
		kept += len(change.Keyword) + len(change.Path)
	}
	if len(result.Changes) < maxUnknown || c.entries.TotalCost() < kept {
		t.Errorf("%d bytes counted, and the texts alone have %d; changes: %v", c.entries.TotalCost(), kept, result.Changes)
	}
}
