package adapt

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/testing/perigeetest"
)

// Whatever a client repeats ten thousand times, preparing it takes memory in proportion.
func TestPreparingGrowsLinearly(t *testing.T) {
	perigeetest.Slow(t)
	call := func(id, name string) perigee.Part {
		return perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: id, Name: name}}
	}
	result := func(id, name string) perigee.Part {
		return perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Name: name}}
	}
	say := func(role string, parts ...perigee.Part) perigee.Content {
		return perigee.Content{Role: role, Parts: parts}
	}
	thought := perigee.Part{Text: perigee.Plain("hm"), Thought: true, Signature: claudeTwice}
	for name, add := range map[string]func(p *perigee.Prompt, i int){
		"system turns": func(p *perigee.Prompt, _ int) {
			p.Contents = append(p.Contents, say("system", perigee.Part{Text: perigee.Plain("a")}))
		},
		"assistant turns": func(p *perigee.Prompt, _ int) { p.Contents = append(p.Contents, say("assistant", thought)) },
		"calls in a row":  func(p *perigee.Prompt, i int) { p.Contents = append(p.Contents, say("model", thought, call("", "f"))) },
		"the same id": func(p *perigee.Prompt, i int) {
			p.Contents = append(p.Contents, say("model", call("a", "f")), say("user", result("a", "f")))
		},
		"orphans": func(p *perigee.Prompt, i int) {
			p.Contents = append(p.Contents, say("user", result(fmt.Sprint(i), "f")))
		},
		"illegal names": func(p *perigee.Prompt, i int) {
			p.Contents = append(p.Contents, say("model", call("", fmt.Sprintf("%d/x", i))))
		},
		"names by case": func(p *perigee.Prompt, i int) {
			p.Tools = append(p.Tools, perigee.Tool{Function: &perigee.Function{Name: caseOf(i)}})
		},
		"unknown members": func(p *perigee.Prompt, i int) {
			p.Extra = append(p.Extra, perigee.Field{Name: fmt.Sprint("x", i), Value: json.RawMessage("null")})
		},
		"unknown tools": func(p *perigee.Prompt, i int) { p.Tools = append(p.Tools, perigee.Tool{Builtin: fmt.Sprint("x", i)}) },
		"taken searches": func(p *perigee.Prompt, i int) {
			p.Tools = append(p.Tools, perigee.Tool{Builtin: "googleSearch"}, perigee.Tool{Function: &perigee.Function{Name: fmt.Sprint("google_search_", i)}})
		},
		"allowed names": func(p *perigee.Prompt, i int) {
			p.ToolConfig.Allowed = append(p.ToolConfig.Allowed, fmt.Sprint("f", i))
		},
		"pieces of thought": func(p *perigee.Prompt, _ int) {
			last := &p.Contents[len(p.Contents)-1]
			last.Role, last.Parts = "model", append(last.Parts, perigee.Part{Text: perigee.Plain("hm"), Thought: true}, perigee.Part{Thought: true, Signature: claudeTwice})
		},
	} {
		for _, model := range []string{claude, flash} {
			spent := func(n int) uint64 {
				p := &perigee.Prompt{Contents: []perigee.Content{say("user", perigee.Part{Text: perigee.Plain("hi")}), say("user")}, ToolConfig: &perigee.ToolConfig{}}
				p.Generation.Thinking = &perigee.Thinking{Budget: new(int64(2048))}
				for i := range n {
					add(p, i)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				ForAntigravity(p, models.Of(model), AntigravityOptions{KeepThinking: true})
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			spent(100)
			if little, much := spent(2_000), spent(16_000); much > 16*little+1<<20 {
				t.Errorf("%s to %s: %d bytes for 2000, %d for 16000", name, model, little, much)
			}
		}
	}
}

// caseOf spells the same letters in ever other ways.
func caseOf(i int) string {
	name := []byte("abcdefghijklmnopqrst")
	for bit := range name {
		if i&(1<<bit) != 0 {
			name[bit] -= 'a' - 'A'
		}
	}
	return string(name)
}
