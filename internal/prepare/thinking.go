package prepare

import (
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

// A model takes a level or a budget, never both. The levels beyond a model's own words come from other APIs.
var (
	levels  = []string{"minimal", "low", "medium", "high", "xhigh", "max"}
	budgets = []int64{512, 1024, 8192, 24576, 32768, 128000}
)

// fitThinking says what the client wants in the model's own terms. The limit is how long the answer may be, thinking
// included; 0: nobody says.
func fitThinking(want perigee.Thinking, can models.Thinking, limit int64, notes *notes) *perigee.Thinking {
	want.Level = strings.ToLower(want.Level)
	switch want.Level {
	case "none", "off":
		want.Level, want.Budget = "", new(int64(0))
	case "auto", "dynamic":
		want.Level, want.Budget = "", new(int64(-1))
	case "thinking_level_unspecified":
		want.Level = ""
	}
	if !can.Possible() {
		if want.Level != "" || want.Budget != nil && *want.Budget != 0 || want.Include != nil && *want.Include {
			notes.add(perigee.NoteDropped, "thinking")
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
		want.Level = nearestLevel(want.Level, can.Levels, notes)
	case want.Level != "":
		levelToBudget(&want, can, notes)
	}
	if want.Budget != nil {
		fitBudget(&want, can, limit, notes)
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
func nearestLevel(level string, have []string, notes *notes) string {
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
	notes.add(perigee.NoteMapped, "thinking level "+level+" to "+nearest)
	return nearest
}

// levelToBudget spells a level in tokens for models that only know budgets. For the levels that the provider has
// itself this is its own table, so nothing is lost that a note would have to mention.
func levelToBudget(want *perigee.Thinking, can models.Thinking, notes *notes) {
	rank := slices.Index(levels, want.Level)
	if rank < 0 {
		notes.add(perigee.NoteDropped, "thinking level "+clip(want.Level))
		want.Level = ""
		return
	}
	budget := budgets[rank]
	if budget > can.Max {
		if want.Level == "xhigh" || want.Level == "max" {
			notes.add(perigee.NoteMapped, fmt.Sprintf("thinking level %s to a budget of %d", want.Level, can.Max))
		}
		budget = can.Max
	}
	want.Level, want.Budget = "", new(max(budget, can.Min))
}

// fitBudget moves a budget into the model's range, and below the limit of the whole answer, of which it is a part.
func fitBudget(want *perigee.Thinking, can models.Thinking, limit int64, notes *notes) {
	budget := *want.Budget
	switch {
	case can.Max == 0: // levels only
		want.Budget = nil
		if budget >= 0 {
			want.Level = budgetToLevel(budget, can.Levels)
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
	if limit > 0 && fitting >= limit {
		fitting = max(limit/2, can.Min) // half of it is left for the answer, if the model can think so little
		if fitting >= limit && can.Zero {
			fitting = 0
		}
	}
	if fitting != budget {
		becomes := fmt.Sprintf("thinking budget %d to %d", budget, fitting)
		if fitting == 0 {
			becomes += fmt.Sprintf(" (thinking is off, as it takes at least %d tokens of an answer that may have %d)", can.Min, limit)
		}
		notes.add(perigee.NoteMapped, becomes)
		want.Budget = new(fitting)
	}
}

// budgetToLevel is the first level that thinks as much.
func budgetToLevel(budget int64, have []string) string {
	for _, level := range have {
		if budget <= budgets[slices.Index(levels, level)] {
			return level
		}
	}
	return have[len(have)-1]
}

// thinks says whether a model that is told by budgets has been told to think.
func thinks(t *perigee.Thinking) bool { return t != nil && t.Budget != nil && *t.Budget != 0 }

func isThought(p perigee.Part) bool { return p.Thought }
