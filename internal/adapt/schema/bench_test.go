package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/adapt/schema"
)

// agentTools makes the tools of a coding agent up: as many, as large and with the keywords that
// real ones have.
func agentTools(n int) [][]byte {
	prose := strings.Repeat("The path is absolute, and the file has to be read before it is changed. ", 3)
	tools := make([][]byte, n)
	for i := range tools {
		tools[i] = fmt.Appendf(nil, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
"file_path":{"description":"%[2]s","type":"string"},
"offset_%[1]d":{"description":"%[2]s","type":"integer","minimum":0,"maximum":9007199254740991},
"mode":{"description":"%[2]s","type":"string","enum":["content","files_with_matches","count"]},
"limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null,"title":"Limit"},
"todos":{"type":"array","description":"%[2]s","items":{"type":"object","properties":{
"content":{"type":"string","minLength":1,"description":"%[2]s"},"status":{"type":"string","enum":["pending","in_progress","completed"]},
"tags":{"type":"array","items":{"type":"string"}},"note":{"type":"string","description":"%[2]s"}},"required":["content","status"],"additionalProperties":false}},
"options":{"type":"object","properties":{"recursive":{"type":"boolean","default":false,"description":"%[2]s"},"depth":{"type":"number","exclusiveMinimum":0}},"additionalProperties":false},
"pattern":{"type":"string","format":"regex","description":"%[2]s"}},
"required":["file_path","mode"],"additionalProperties":false}`, i, prose)
	}
	return tools
}

func size(texts [][]byte) (total int64) {
	for _, text := range texts {
		total += int64(len(text))
	}
	return total
}

// BenchmarkFortyToolsCached is what the second request of an agent and those after it cost.
func BenchmarkFortyToolsCached(b *testing.B) {
	tools := agentTools(40)
	cache := schema.NewCache(schema.CacheBytes)
	b.SetBytes(size(tools))
	b.ReportAllocs()
	for b.Loop() {
		for _, tool := range tools {
			cache.Clean(tool, schema.Claude)
		}
	}
}

func BenchmarkFortyTools(b *testing.B) {
	for name, family := range map[string]schema.Family{"claude": schema.Claude, "gemini": schema.Gemini} {
		tools := agentTools(40)
		b.Run(name+"/changed", func(b *testing.B) { benchTools(b, tools, family) })
		accepted := make([][]byte, len(tools))
		for i, tool := range tools {
			accepted[i] = schema.Clean(tool, family).Schema
		}
		b.Run(name+"/accepted", func(b *testing.B) { benchTools(b, accepted, family) })
	}
}

func benchTools(b *testing.B, tools [][]byte, family schema.Family) {
	b.SetBytes(size(tools))
	b.ReportAllocs()
	for b.Loop() {
		for _, tool := range tools {
			schema.Clean(tool, family)
		}
	}
}

// wide is a schema of about size bytes with references, unions and constraints.
func wide(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"$defs":{"leaf":{"type":"object","properties":{"v":{"type":"string","maxLength":9}},"required":["v"]}},"type":"object","properties":{`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"description":"number %d","anyOf":[{"type":"array","items":{"type":"integer","minimum":%d}},{"type":"null"}]},"r%d":{"$ref":"#/$defs/leaf"}`, i, i, i, i)
	}
	b.WriteString(`},"additionalProperties":false}`)
	return []byte(b.String())
}

func BenchmarkGrowth(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20} {
		text := wide(size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				schema.Clean(text, schema.Claude)
			}
		})
	}
}
