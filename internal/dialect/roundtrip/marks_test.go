package roundtrip

import (
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/openai/chat"
)

// marksOf lists the places of a prompt that have a cache mark, with the time to live.
func marksOf(p *perigee.Prompt) string {
	var list []string
	add := func(place string, mark *perigee.CacheMark) {
		if mark != nil {
			list = append(list, strings.TrimSpace(place+" "+mark.TTL))
		}
	}
	add("prompt", p.Cache)
	for i := range p.Tools {
		add("tool", p.Tools[i].Cache)
	}
	contents := p.Contents
	if p.System != nil {
		contents = append([]perigee.Content{*p.System}, contents...)
	}
	for _, c := range contents {
		for _, part := range c.Parts {
			role := c.Role
			if role == "" {
				role = "instruction"
			}
			if part.Kind == perigee.PartResponse {
				role = "result"
			}
			add(role, part.Cache)
		}
	}
	return strings.Join(list, ", ")
}

// Cache marks stay on the part that the client has marked: they decide what a conversation costs at
// a provider that caches by them.
func TestCacheMarksStay(t *testing.T) {
	req, _, err := anthropic.DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","max_tokens":5,"cache_control":{"type":"ephemeral"},
		"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}}],
		"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral","ttl":"5m"}}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{},"cache_control":{"type":"ephemeral"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"d","cache_control":{"type":"ephemeral"}}]}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := marksOf(prompt), "prompt, tool 1h, instruction, user 5m, model, result"; got != want {
		t.Errorf("Messages: got %s, want %s", got, want)
	}
	chatted, err := chat.DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m",
		"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"system","content":"a","cache_control":{"type":"ephemeral"}},
		{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
		{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if prompt, err = chatted.Prompt(); err != nil {
		t.Fatal(err)
	}
	if got, want := marksOf(prompt), "tool, instruction, user 1h, result"; got != want {
		t.Errorf("Chat: got %s, want %s", got, want)
	}
}
