package prepare

import (
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

const jsonMIME = "application/json"

// generation keeps the knobs within what the model has.
func (g *gemini) generation() {
	gen := &g.prompt.Generation
	if gen.MaxOutputTokens != nil && g.spec.Output > 0 && *gen.MaxOutputTokens > g.spec.Output {
		g.notes.add(perigee.NoteMapped, fmt.Sprintf("max output tokens %d to %d", *gen.MaxOutputTokens, g.spec.Output))
		gen.MaxOutputTokens = new(g.spec.Output)
	}
	if (gen.ResponseSchema != nil || gen.ResponseJSON != nil) && gen.ResponseMIME == "" {
		gen.ResponseMIME = jsonMIME // a schema means nothing without it
	}
	if g.spec.Family == models.Image && gen.Candidates != nil && *gen.Candidates > 1 {
		g.notes.add(perigee.NoteDropped, "further candidates for an image model")
		gen.Candidates = nil
	}
	if gen.Thinking != nil {
		gen.Thinking = g.thinking(*gen.Thinking)
	}
}

// A model takes a level or a budget, never both. The levels beyond a model's own words come from other APIs.
var (
	levels  = []string{"minimal", "low", "medium", "high", "xhigh", "max"}
	budgets = []int64{512, 1024, 8192, 24576, 32768, 128000}
)

// thinking says what the client wants in the model's own terms.
func (g *gemini) thinking(want perigee.Thinking) *perigee.Thinking {
	want.Level = strings.ToLower(want.Level)
	switch want.Level {
	case "none", "off":
		want.Level, want.Budget = "", new(int64(0))
	case "auto", "dynamic":
		want.Level, want.Budget = "", new(int64(-1))
	case "thinking_level_unspecified":
		want.Level = ""
	}
	can := g.spec.Thinking
	if !can.Possible() {
		if want.Level != "" || want.Budget != nil && *want.Budget != 0 || want.Include != nil && *want.Include {
			g.notes.add(perigee.NoteDropped, "thinking")
		}
		return nil
	}
	if want.Level != "" && want.Budget != nil {
		if len(can.Levels) > 0 {
			want.Budget = nil
		} else {
			want.Level = ""
		}
	}
	switch {
	case want.Level != "" && len(can.Levels) > 0:
		want.Level = g.nearestLevel(want.Level)
	case want.Level != "":
		g.levelToBudget(&want)
	}
	if want.Budget != nil {
		g.fitBudget(&want)
	}
	if want.Budget != nil && *want.Budget == 0 {
		want.Include = nil // there is nothing to show
	}
	if want.Include == nil && want.Budget == nil && want.Level == "" && len(want.Extra) == 0 {
		return nil
	}
	return &want
}

// nearestLevel is the level itself, else the next higher one that the model has, else its highest. A word that
// nobody knows is the provider's to judge.
func (g *gemini) nearestLevel(level string) string {
	have := g.spec.Thinking.Levels
	rank := slices.Index(levels, level)
	if rank < 0 || slices.Contains(have, level) {
		return level
	}
	nearest := have[len(have)-1]
	for _, l := range have {
		if slices.Index(levels, l) > rank {
			nearest = l
			break
		}
	}
	g.notes.add(perigee.NoteMapped, "thinking level "+level+" to "+nearest)
	return nearest
}

// levelToBudget spells a level in tokens for models that only know budgets. For the levels that the provider has
// itself this is its own table, so nothing is lost that a note would have to mention.
func (g *gemini) levelToBudget(want *perigee.Thinking) {
	rank := slices.Index(levels, want.Level)
	if rank < 0 {
		g.notes.add(perigee.NoteDropped, "thinking level "+clip(want.Level))
		want.Level = ""
		return
	}
	budget := budgets[rank]
	if most := g.spec.Thinking.Max; budget > most {
		if want.Level == "xhigh" || want.Level == "max" {
			g.notes.add(perigee.NoteMapped, fmt.Sprintf("thinking level %s to a budget of %d", want.Level, most))
		}
		budget = most
	}
	want.Level, want.Budget = "", new(max(budget, g.spec.Thinking.Min))
}

// fitBudget moves a budget into the model's range, and below the limit of the whole answer, of which it is a part.
func (g *gemini) fitBudget(want *perigee.Thinking) {
	can, budget := g.spec.Thinking, *want.Budget
	switch {
	case can.Max == 0: // levels only
		want.Budget = nil
		if budget >= 0 {
			want.Level = g.budgetToLevel(budget)
		}
		return
	case budget < 0 && !can.Dynamic:
		want.Budget = nil // which leaves it to the model
		return
	case budget < 0:
		want.Budget = new(int64(-1))
		return
	case budget == 0 && can.Zero:
		return
	}
	fitting := min(max(budget, can.Min), can.Max)
	if limit := g.outputLimit(); limit > 0 && fitting >= limit {
		fitting = max(limit/2, can.Min) // half of it is left for the answer, if the model can think so little
		if fitting >= limit && can.Zero {
			fitting = 0
		}
	}
	if fitting != budget {
		g.notes.add(perigee.NoteMapped, fmt.Sprintf("thinking budget %d to %d", budget, fitting))
		want.Budget = new(fitting)
	}
}

// outputLimit is how long the answer may be, thinking included; 0: nobody says. Claude goes by its own limit where the
// client has none, and so does everything at the gateway.
func (g *gemini) outputLimit() int64 {
	if limit := g.prompt.Generation.MaxOutputTokens; limit != nil {
		return *limit
	}
	if g.spec.Family == models.Claude || g.within {
		return g.spec.Output
	}
	return 0
}

func (g *gemini) budgetToLevel(budget int64) string {
	have := g.spec.Thinking.Levels
	for _, level := range have {
		if budget <= budgets[slices.Index(levels, level)] {
			return level
		}
	}
	return have[len(have)-1]
}
