package chat

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// thinking is how much the model should think. There are four fields for it; the most specific one
// applies.
type thinking struct {
	value *perigee.Thinking
	field string // the field that it comes from
	rank  int
}

// The ranks of the four ways.
const (
	rankEffort = iota + 1
	rankReasoning
	rankThinking
	rankGoogle
)

func (d *decoder) think(rank int, field string, value *perigee.Thinking) {
	if value == nil {
		return
	}
	t := &d.thinking
	if t.rank > rank {
		d.notes.Dropped(field)
		return
	}
	if t.rank > 0 {
		d.notes.Dropped(t.field)
	}
	*t = thinking{value: value, field: field, rank: rank}
}

// effort turns a word for effort into a level.
func (d *decoder) effort(field, word string) *perigee.Thinking {
	switch {
	case word == "none":
		return &perigee.Thinking{Level: word}
	case slices.Contains(perigee.Levels, word):
		return &perigee.Thinking{Include: new(true), Level: word}
	case word == "auto" || word == "default":
		return &perigee.Thinking{Include: new(true)}
	}
	d.refuse(field, "want none, minimal, low, medium, high, xhigh or max, found %q", openai.Brief(word))
	return nil
}

// reasoningObject reads the object that routers of several vendors' models take in place of
// reasoning_effort.
func (d *decoder) reasoningObject() *perigee.Thinking {
	var t *perigee.Thinking
	var budget *int64
	include := true
	d.c.Read(dialect.RestPresent(d.c, &d.notes, "reasoning."), "max_tokens", &budget,
		"effort", func() { t = d.effort("reasoning.effort", d.c.String()) },
		"exclude", func() { include = !d.c.Bool() },
		"enabled", func() {
			if !d.c.Bool() {
				budget = new(int64(0))
			}
		})
	if budget != nil || t == nil {
		t = &perigee.Thinking{Budget: budget}
	}
	if t.Level != "none" && (t.Budget == nil || *t.Budget != 0) {
		t.Include = &include
	}
	return t
}

// thinkingObject reads {"type": "enabled", "budget_tokens": 1024}.
func (d *decoder) thinkingObject() *perigee.Thinking {
	t := &perigee.Thinking{Include: new(true)}
	for key := range d.c.Object() {
		if d.c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			if d.c.String() == "disabled" {
				return &perigee.Thinking{Budget: new(int64(0))}
			}
		case "budget_tokens":
			t.Budget = new(d.c.Int64())
		default:
			d.notes.Unknown("thinking.", key)
		}
	}
	return t
}

// google reads extra_body.google of the provider's own OpenAI-compatible API.
func (d *decoder) google() {
	config := func() { d.think(rankGoogle, "google.thinking_config", d.thinkingConfig()) }
	cached := func() { d.extra("cachedContent", d.c.Raw()) }
	safety := func() { d.extra("safetySettings", d.c.Raw()) }
	d.c.Read(dialect.RestPresent(d.c, &d.notes, "google."), "thinking_config", config, "thinkingConfig", config,
		"cached_content", cached, "cachedContent", cached, "safety_settings", safety, "safetySettings", safety)
}

func (d *decoder) extra(name string, value json.RawMessage) {
	if d.prompt.Extra.Get(name) == nil {
		d.prompt.Extra = append(d.prompt.Extra, perigee.Field{Name: name, Value: value})
	}
}

func (d *decoder) thinkingConfig() *perigee.Thinking {
	t := &perigee.Thinking{}
	d.c.Read(dialect.RestPresent(d.c, &d.notes, "google.thinking_config."), "include_thoughts", &t.Include, "includeThoughts", &t.Include,
		"thinking_budget", &t.Budget, "thinkingBudget", &t.Budget, "thinking_level", &t.Level, "thinkingLevel", &t.Level)
	return t
}
