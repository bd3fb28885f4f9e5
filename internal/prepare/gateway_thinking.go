package prepare

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

// think says what the client wants in terms that the gateway takes from the model.
func (g *gateway) think(gen *perigee.Generation) {
	switch asked := gen.Thinking; {
	case !g.repairs(RepairThinkingOff):
		if asked != nil {
			gen.Thinking = g.thinking(*asked)
		}
	case asked == nil && g.spec.Thinking.Zero:
		gen.Thinking = &perigee.Thinking{Budget: new(int64(0))} // then the model thinks unless it is told not to
	default:
		gen.Thinking = nil
	}
}

// thinking returns what the gateway is told of what the client asked for; nil: nothing.
func (g *gateway) thinking(want perigee.Thinking) *perigee.Thinking {
	g.known(want.Extra, "thinkingConfig.", nil)
	want.Extra = nil
	want.Level = g.knownLevel(want.Level)
	g.spellOut(&want)
	limit := g.outputLimit()
	t := fitThinking(want, g.spec.Thinking, limit, &g.notes)
	switch {
	case t == nil:
		return nil
	case t.Budget != nil && *t.Budget > 0 && *t.Budget >= limit && limit > 0:
		// It cannot think so little as would leave room for the answer. How much it thinks is then up to it.
		t.Budget = nil
		if len(g.spec.Thinking.Levels) > 0 {
			t.Level = g.spec.Thinking.Levels[0]
		}
	case g.claude():
		g.thinkAsClaude(t)
	}
	if t.Include == nil && t.Budget == nil && t.Level == "" {
		return nil
	}
	return t
}

// outputLimit is how long the answer may be, thinking included; 0: nobody says. All models go by their own limit where
// the client has none.
func (g *gateway) outputLimit() int64 {
	if limit := g.prompt.Generation.MaxOutputTokens; limit != nil {
		return *limit
	}
	return g.spec.Output
}

// knownLevel returns a level that some model has, or nothing.
func (g *gateway) knownLevel(level string) string {
	switch lower := strings.ToLower(level); lower {
	case "", undefined, "thinking_level_unspecified":
		return ""
	case "none", "off", "auto", "dynamic":
		return lower
	default:
		if !slices.Contains(levels, lower) {
			g.notes.add(perigee.NoteDropped, "thinking level "+clip(level))
			return ""
		}
		return lower
	}
}

// usualBudget is how much Claude thinks when nobody says how much.
const usualBudget = 16384

// spellOut replaces what the gateway does not always take or takes for something else: a budget that is up to the model,
// and thoughts that are to be shown but have no budget, which make Claude write them into its answer.
func (g *gateway) spellOut(want *perigee.Thinking) {
	if want.Budget != nil && *want.Budget < 0 && want.Level != "" {
		want.Budget = nil // the level says more
	}
	open := want.Level == "auto" || want.Level == "dynamic" || want.Level == "" && want.Budget != nil && *want.Budget < 0
	unsaid := want.Level == "" && want.Budget == nil && want.Include != nil && *want.Include
	switch {
	case g.claude() && (open || unsaid):
		budget := int64(usualBudget)
		if limit := g.outputLimit(); budget >= limit {
			budget = limit / 2
		}
		if budget < g.spec.Thinking.Min {
			budget = 0
		}
		want.Level, want.Budget = "", &budget
	case g.spec.Family == models.Gemini && open:
		want.Level, want.Budget = "", nil // it is what these models do anyway
	}
}

// thinkAsClaude completes what Claude wants to be told beside the budget.
func (g *gateway) thinkAsClaude(t *perigee.Thinking) {
	if t.Budget == nil {
		t.Include = nil // there is nothing to show
		return
	}
	if *t.Budget == 0 {
		return
	}
	if t.Include == nil {
		t.Include = new(true)
	}
	if gen := &g.prompt.Generation; gen.MaxOutputTokens == nil {
		gen.MaxOutputTokens = new(g.spec.Output)
	}
}

// interleaved is what Claude has to be told where it may think more than once in a turn.
const interleaved = "Interleaved thinking is on: you may think again after each tool result, before you answer or call the next tool."

// interleave tells Claude so when there is something to think between.
func (g *gateway) interleave() {
	if !g.claude() || !thinks(g.prompt.Generation.Thinking) || !slices.ContainsFunc(g.prompt.Tools, func(t perigee.Tool) bool { return t.Function != nil }) {
		return
	}
	system := perigee.Content{Role: perigee.RoleUser}
	if g.prompt.System != nil {
		system = *g.prompt.System
	}
	if n := len(system.Parts); n > 0 && system.Parts[n-1].Text == interleaved {
		return
	}
	system.Parts = append(slices.Clip(system.Parts), perigee.Part{Kind: perigee.PartText, Text: interleaved})
	g.prompt.System = &system
}

// thinkAloud has Claude show its thoughts when it may search: after a search it wants them back.
func (g *gateway) thinkAloud() {
	t := g.prompt.Generation.Thinking
	if g.search == nil || !g.claude() || !thinks(t) || t.Include == nil || *t.Include {
		return
	}
	shown := *t
	shown.Include = new(true)
	g.prompt.Generation.Thinking = &shown
	g.search.HideThoughts = true
}
