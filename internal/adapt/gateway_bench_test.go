package adapt

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
)

// agentSchema is about what the tools of coding agents have: most are small, some have lists of
// objects.
func agentSchema(i int) json.RawMessage {
	says := strings.Repeat("What this is for, and when to leave it out. ", 1+i%4)
	small := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"file_path":{"type":"string","description":"` + says + `"},` +
		`"limit":{"type":"number","minimum":1,"description":"` + says + `"},"mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"` + says + `"},` +
		`"background":{"type":"boolean","default":false}},"required":["file_path"],"additionalProperties":false}`
	if i%4 != 0 {
		return json.RawMessage(small)
	}
	return json.RawMessage(`{"type":"object","properties":{"todos":{"type":"array","minItems":1,"items":` + strings.Replace(small, `"$schema":"http://json-schema.org/draft-07/schema#",`, "", 1) +
		`,"description":"` + says + `"},"value":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["todos"]}`)
}

// agentPrompt is what an agent sends late in its work: the history is of the size given, the tools
// come on top.
func agentPrompt(size int, signature string) *perigee.Prompt {
	p := longPrompt(size)
	for i := range p.Tools {
		p.Tools[i].Function = &perigee.Function{Name: fmt.Sprintf("mcp__server__tool_%d", i), Description: strings.Repeat("Does something useful. ", 20), Parameters: agentSchema(i), JSONSchema: true}
	}
	for i := range p.Contents {
		for j := range p.Contents[i].Parts {
			switch part := &p.Contents[i].Parts[j]; {
			case part.Thought:
				part.Signature = signature
			case part.Call != nil:
				if signature == geminiSignature {
					part.Signature = signature
				}
				part.Call.Name = strings.Replace(part.Call.Name, "tool/", "mcp__server__tool_", 1)
			case part.Response != nil:
				part.Response.Name = strings.Replace(part.Response.Name, "tool/", "mcp__server__tool_", 1)
			}
		}
	}
	p.Generation.Thinking = &perigee.Thinking{Include: new(true), Budget: new(int64(8192))}
	p.Generation.MaxOutputTokens = new(int64(32000))
	return p
}

// What cleaning the schemas of all tools takes, which is part of every preparation.
func BenchmarkSchemas(b *testing.B) {
	p, size := agentPrompt(0, ""), 0
	for _, t := range p.Tools {
		size += len(t.Function.Parameters)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range p.Tools {
			(*schema.Cache)(nil).Clean(t.Function.Parameters, schema.Claude)
		}
	}
}

func BenchmarkForAntigravity(b *testing.B) {
	for _, model := range []struct{ id, signature string }{{"claude-opus-4-6-thinking", claudeTwice}, {"gemini-3-flash", geminiSignature}} {
		for _, c := range []struct {
			name string
			size int
		}{{"10KB", 10 << 10}, {"200KB", 200 << 10}, {"1MB", 1 << 20}, {"10MB", 10 << 20}} {
			b.Run(model.id+"/"+c.name, func(b *testing.B) {
				p, spec := agentPrompt(c.size, model.signature), models.Of(model.id)
				b.ReportAllocs()
				b.SetBytes(int64(c.size))
				for b.Loop() {
					ForAntigravity(p, spec, AntigravityOptions{})
				}
			})
		}
	}
}
