package adapt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
)

// A model takes a level or a budget, never both. The levels that a model does not have itself come
// from other APIs.
var (
	levels  = []string{"minimal", "low", "medium", "high", "xhigh", "max"}
	budgets = []int64{512, 1024, 8192, 24576, 32768, 128000}
)

// think expresses the client's setting in terms that the provider accepts for the model.
func (a *adapter) think(gen *perigee.Generation) {
	switch asked := gen.Thinking; {
	case a.repairs(RepairThinkingOff):
		gen.Thinking = nil
		if asked == nil && a.spec.Thinking.Zero {
			gen.Thinking = &perigee.Thinking{Budget: new(int64(0))} // otherwise the model thinks
		}
	default:
		if asked != nil {
			gen.Thinking = a.fitThinking(*asked)
		}
		if gen.Thinking != nil || !a.namedThinking() {
			return // the request sets how much to think, or turns thinking off
		}
		want := perigee.Thinking{Include: new(true)}
		if asked != nil && asked.Include != nil && !*asked.Include {
			want = perigee.Thinking{Include: asked.Include, Budget: new(int64(-1))}
		}
		gen.Thinking = a.fitThinking(want)
		if thinks(gen.Thinking) || gen.Thinking != nil && gen.Thinking.Budget == nil {
			a.notes.Add(perigee.NoteAdded, "thinking")
		} else {
			gen.Thinking = nil // it would leave no room for the answer
		}
	}
}

// namedThinking reports whether the name of the model asks for thinking.
func (a *adapter) namedThinking() bool {
	return strings.HasSuffix(strings.ToLower(a.spec.ID), "-thinking") && a.spec.Thinking.Possible()
}

// outputLimit returns how long the answer may be, thinking included; 0 if unknown. At the gateway
// all models use their own limit where the client sets none, at the official API only Claude does.
func (a *adapter) outputLimit() int64 {
	if limit := a.prompt.Generation.MaxOutputTokens; limit != nil {
		return *limit
	}
	if a.gateway || a.claude() {
		return a.spec.Output
	}
	return 0
}

// knownLevel returns a level that some model has, or none.
func (a *adapter) knownLevel(level string) string {
	switch lower := strings.ToLower(level); lower {
	case "", undefined, "thinking_level_unspecified":
		return ""
	case "none", "off", "auto", "dynamic":
		return lower
	default:
		if slices.Contains(levels, lower) {
			return lower
		}
		a.notes.Dropped("thinking level " + clip(level))
		return ""
	}
}

// usualBudget is Claude's thinking budget when the client sets none.
const usualBudget = 16384

// spellOut replaces settings that the gateway does not always accept or misunderstands: a budget
// that is up to the model, and thoughts that are to be shown without a budget, which make Claude
// write them into its answer.
func (a *adapter) spellOut(want *perigee.Thinking) {
	if want.Budget != nil && *want.Budget < 0 && want.Level != "" {
		want.Budget = nil // the level is more specific
	}
	open := want.Level == "auto" || want.Level == "dynamic" || want.Level == "" && want.Budget != nil && *want.Budget < 0
	unspecified := want.Level == "" && want.Budget == nil && want.Include != nil && *want.Include
	switch {
	case a.claude() && (open || unspecified):
		budget := int64(usualBudget)
		if limit := a.outputLimit(); budget >= limit {
			budget = limit / 2
		}
		if budget < a.spec.Thinking.Min {
			budget = 0
		}
		want.Level, want.Budget = "", &budget
	case a.spec.Family == models.Gemini && open:
		want.Level, want.Budget = "", nil // the default of these models
	}
}

// completeThinking adjusts a fitting setting to the gateway, and adds the settings that Claude
// requires there beside the budget.
func (a *adapter) completeThinking(t *perigee.Thinking) {
	limit := a.outputLimit()
	switch gen := &a.prompt.Generation; {
	case t.Budget != nil && *t.Budget > 0 && *t.Budget >= limit && limit > 0:
		// The model's smallest budget leaves no room for the answer. How much it thinks is then up
		// to the model.
		t.Budget = nil
		if len(a.spec.Thinking.Levels) > 0 {
			t.Level = a.spec.Thinking.Levels[0]
		}
	case !a.claude():
	case t.Budget == nil:
		t.Include = nil // there is nothing to show
	case *t.Budget != 0:
		t.Include = cmp.Or(t.Include, new(true))
		gen.MaxOutputTokens = cmp.Or(gen.MaxOutputTokens, new(a.spec.Output))
	}
}

// interleaved is an instruction that allows Claude to think more than once in a turn.
const interleaved = "Interleaved thinking is on: you may think again after each tool result, before you answer or call the next tool."

// interleave adds that instruction if Claude has functions to think between.
func (a *adapter) interleave() {
	isFunction := func(t perigee.Tool) bool { return t.Function != nil }
	if !a.claude() || !thinks(a.prompt.Generation.Thinking) || !slices.ContainsFunc(a.prompt.Tools, isFunction) {
		return
	}
	system := perigee.Content{Role: perigee.RoleUser}
	if a.prompt.System != nil {
		system = *a.prompt.System
	}
	if n := len(system.Parts); n > 0 && system.Parts[n-1].Text == perigee.Plain(interleaved) {
		return
	}
	system.Parts = append(slices.Clip(system.Parts), perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(interleaved)})
	a.prompt.System = &system
	a.notes.Add(perigee.NoteAdded, "system text: interleaved thinking")
}

// showThoughts makes Claude show its thoughts when it may search: after a search it requires them.
func (a *adapter) showThoughts() {
	t := a.prompt.Generation.Thinking
	if a.search == nil || !a.claude() || !thinks(t) || t.Include == nil || *t.Include {
		return
	}
	shown := *t
	shown.Include = new(true)
	a.prompt.Generation.Thinking = &shown
	a.search.HideThoughts = true
}

// thinks reports whether a model that takes budgets has thinking turned on.
func thinks(t *perigee.Thinking) bool { return t != nil && t.Budget != nil && *t.Budget != 0 }

// fitThinking expresses the client's setting in the model's own terms; nil if there is none.
func (a *adapter) fitThinking(want perigee.Thinking) *perigee.Thinking {
	can := a.spec.Thinking
	if a.gateway {
		want.Extra = a.supported(want.Extra, "thinkingConfig.", nil)
		want.Level = a.knownLevel(want.Level)
		a.spellOut(&want)
	}
	want = wanted(want)
	if !can.Possible() {
		if want.Level != "" || want.Budget != nil && *want.Budget != 0 || want.Include != nil && *want.Include {
			a.notes.Dropped("thinking")
		}
		return nil
	}
	switch leveled := len(can.Levels) > 0; {
	case want.Level == "":
	case leveled:
		want.Budget = nil
		want.Level = a.nearestLevel(want.Level)
	case want.Budget != nil:
		want.Level = ""
	default:
		a.levelToBudget(&want)
	}
	if want.Budget != nil {
		a.fitBudget(&want)
	}
	if want.Budget != nil && *want.Budget == 0 {
		want.Include = nil // there is nothing to show
	}
	if a.gateway {
		a.completeThinking(&want)
	}
	if want.Include == nil && want.Budget == nil && want.Level == "" && len(want.Extra) == 0 {
		return nil
	}
	return &want
}

// nearestLevel returns the level itself, else the next higher one that the model has, else its
// highest. Unknown words are left to the provider.
func (a *adapter) nearestLevel(level string) string {
	have, rank := a.spec.Thinking.Levels, slices.Index(levels, level)
	if rank < 0 || slices.Contains(have, level) {
		return level
	}
	nearest := have[len(have)-1]
	if i := slices.IndexFunc(have, func(l string) bool { return slices.Index(levels, l) > rank }); i >= 0 {
		nearest = have[i]
	}
	name := "thinking level"
	if rank > slices.Index(levels, "high") { // which only other APIs have
		name = optionName(a.prompt.Dialect, name)
	}
	a.notes.Mapped(name + " " + level + " to " + nearest)
	return nearest
}

// levelToBudget turns a level into tokens for models that only have budgets. For the levels that
// the provider has itself this is its own table, so nothing is lost that a note would have to
// mention.
func (a *adapter) levelToBudget(want *perigee.Thinking) {
	can, rank := a.spec.Thinking, slices.Index(levels, want.Level)
	if rank < 0 {
		a.notes.Dropped("thinking level " + clip(want.Level))
		want.Level = ""
		return
	}
	budget := budgets[rank]
	if budget > can.Max {
		if want.Level == "xhigh" || want.Level == "max" {
			a.notes.Mapped(fmt.Sprintf("thinking level %s to a budget of %d", want.Level, can.Max))
		}
		budget = can.Max
	}
	want.Level, want.Budget = "", new(max(budget, can.Min))
}

// fitBudget moves a budget into the model's range, and below the limit of the whole answer, of
// which it is a part.
func (a *adapter) fitBudget(want *perigee.Thinking) {
	can, budget, limit := a.spec.Thinking, *want.Budget, a.outputLimit()
	switch {
	case can.Max == 0: // levels only
		want.Budget = nil
		if budget >= 0 {
			want.Level = budgetToLevel(budget, can.Levels)
		}
		return
	case budget < 0:
		want.Budget = nil // which leaves it to the model
		if can.Dynamic {
			want.Budget = new(int64(-1))
		}
		return
	case budget == 0 && can.Zero:
		return
	}
	fitting := min(max(budget, can.Min), can.Max)
	if limit > 0 && fitting >= limit {
		fitting = max(limit/2, can.Min) // leaves half of the limit for the answer, if possible
		if fitting >= limit && can.Zero {
			fitting = 0
		}
	}
	if fitting != budget {
		becomes := fmt.Sprintf("thinking budget %d to %d", budget, fitting)
		if fitting == 0 {
			becomes += fmt.Sprintf(" (thinking is off, as it takes at least %d tokens of an answer that may have %d)", can.Min, limit)
		}
		a.notes.Mapped(becomes)
		want.Budget = new(fitting)
	}
}

// budgetToLevel returns the first level that thinks as much.
func budgetToLevel(budget int64, have []string) string {
	for _, level := range have {
		if budget <= budgets[slices.Index(levels, level)] {
			return level
		}
	}
	return have[len(have)-1]
}
