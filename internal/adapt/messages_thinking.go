package adapt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
)

// singleSignature returns a signature as this API has it. Behind Google's gateway the same
// signatures are in base64 twice.
func singleSignature(signature string) string {
	if isClaudes(signature) {
		if once, err := base64.StdEncoding.DecodeString(signature); err == nil {
			return string(once)
		}
	}
	return signature
}

// thinking expresses the client's setting in the form that the model takes: adaptive thinking with
// an effort, or enabled thinking with a budget. It is left out where the API refuses it.
func (a *messagesAdapter) thinking() {
	gen := &a.prompt.Generation
	if gen.Thinking == nil {
		return
	}
	want := wanted(*gen.Thinking)
	want.Extra = nil
	if want.Level != "" && !slices.Contains(levels, want.Level) {
		a.notes.Dropped("thinking level " + clip(want.Level))
		want.Level = ""
	}
	gen.Thinking = a.express(want)
	if thinks(gen.Thinking) {
		a.checkEnabled(gen)
	}
	if t := gen.Thinking; t != nil && (t.Budget == nil && t.Include != nil || thinks(t)) {
		a.display(t, want.Include)
	}
}

// MessagesThinking returns the thinking that the name of a model asks for, in the form that the model
// takes, and notes. The request is otherwise sent as its client wrote it: an open round of tools in
// it may get its thinking back.
func MessagesThinking(p *perigee.Prompt, model models.MessagesSpec) (*perigee.Thinking, []perigee.Note) {
	a := &messagesAdapter{model: model, adapter: adapter{prompt: *p}}
	gen := &a.prompt.Generation
	a.prompt.Contents = nil
	if gen.MaxOutputTokens == nil { // the provider refuses that
		gen.MaxOutputTokens = new(int64(usualLimit))
	}
	if t := gen.Thinking; t != nil {
		shown := *t
		shown.Include = new(true) // a level alone is an effort, which turns no thinking on
		gen.Thinking = &shown
	}
	a.thinking()
	return gen.Thinking, a.notes.List()
}

// wanted returns a setting with levels that are numbers as budgets.
func wanted(want perigee.Thinking) perigee.Thinking {
	want.Level = strings.ToLower(want.Level)
	switch want.Level {
	case "none", "off":
		want.Level, want.Budget = "", new(int64(0))
	case "auto", "dynamic":
		want.Level, want.Budget = "", new(int64(-1))
	case "thinking_level_unspecified":
		want.Level = ""
	}
	return want
}

// express returns the setting in the form of the model, or nil for the model's default.
func (a *messagesAdapter) express(want perigee.Thinking) *perigee.Thinking {
	shown := want.Include != nil && *want.Include
	off := want.Budget != nil && *want.Budget == 0
	unset := want.Level == "" && want.Budget == nil
	switch {
	case unset && !shown:
		return nil
	case off:
		return a.off()
	case !a.model.Thinks():
		a.notes.Dropped("thinking")
		return nil
	case a.model.Enabled && want.Level == "" && want.Budget != nil && *want.Budget > 0:
		return a.enabled(*want.Budget, false, fmt.Sprintf("thinking budget %d to", *want.Budget))
	case a.model.Adaptive && a.prompt.Dialect == perigee.DialectAnthropic && want.Include == nil:
		return &perigee.Thinking{Level: a.effort(want.Level)} // effort alone turns no thinking on
	case a.model.Adaptive:
		t := &perigee.Thinking{Include: new(true), Level: want.Level}
		if want.Level == "" && want.Budget != nil && *want.Budget > 0 && len(a.model.Efforts) > 0 {
			t.Level = budgetToLevel(*want.Budget, a.model.Efforts)
			a.notes.Mapped(fmt.Sprintf("thinking budget %d to effort %s", *want.Budget, t.Level))
		}
		t.Level = a.effort(t.Level)
		return t
	case want.Level != "":
		return a.enabled(a.budgetOf(want), true, optionName(a.prompt.Dialect, "thinking level")+" "+want.Level+" to a budget of")
	}
	return a.enabled(usualBudget, false, "")
}

// budgetOf returns the thinking budget of a setting; 0 if it has none.
func (a *messagesAdapter) budgetOf(want perigee.Thinking) int64 {
	rank := slices.Index(levels, want.Level)
	switch {
	case !a.model.Enabled || want.Level != "" && (a.model.Adaptive || rank < 0):
		return 0
	case want.Level != "":
		return budgets[rank]
	case want.Budget != nil:
		return max(*want.Budget, 0)
	}
	return 0
}

// off turns thinking off, or down to the least if the model always thinks.
func (a *messagesAdapter) off() *perigee.Thinking {
	switch {
	case !a.model.Thinks():
		return nil
	case a.model.Disabled:
		return &perigee.Thinking{Budget: new(int64(0))}
	case len(a.model.Efforts) == 0:
		a.notes.Dropped(optionName(a.prompt.Dialect, "thinking level") + " none")
		return nil
	}
	least := a.model.Efforts[0]
	a.notes.Mapped(optionName(a.prompt.Dialect, "thinking level") + " none to " + least)
	return &perigee.Thinking{Level: least}
}

// effort returns the nearest effort that the model takes.
func (a *messagesAdapter) effort(level string) string {
	have := a.model.Efforts
	switch {
	case level == "" || slices.Contains(have, level):
		return level
	case len(have) == 0:
		a.notes.Dropped(optionName(a.prompt.Dialect, "thinking level") + " " + level)
		return ""
	}
	nearest, rank := have[len(have)-1], slices.Index(levels, level)
	if i := slices.IndexFunc(have, func(l string) bool { return slices.Index(levels, l) > rank }); i >= 0 {
		nearest = have[i]
	}
	a.notes.Mapped(optionName(a.prompt.Dialect, "thinking level") + " " + level + " to " + nearest)
	return nearest
}

const (
	// minBudget is the smallest thinking budget that this API takes.
	minBudget = 1024
	// answerRoom is how many tokens a budget that has to be reduced leaves for the answer. Limits
	// below twice that are divided in half.
	answerRoom = 6000
)

// enabled returns thinking with a budget, below the limit of the whole answer, of which it is a
// part. If roomy is set, it leaves room for the answer even where a larger budget is legal; so a
// higher level never gets a smaller budget than a lower one. asked is the beginning of the note on
// another budget than the given one; if it is empty, there is no note.
func (a *messagesAdapter) enabled(budget int64, roomy bool, asked string) *perigee.Thinking {
	limit := *a.prompt.Generation.MaxOutputTokens
	fitting, most := max(budget, minBudget), max(limit/2, limit-answerRoom, minBudget)
	if fitting >= limit || roomy && fitting > most {
		fitting = most
	}
	if fitting >= limit {
		a.notes.Dropped(fmt.Sprintf("thinking, which takes at least %d tokens of an answer that may have %d", minBudget, limit))
		return nil
	}
	if fitting != budget && asked != "" {
		a.notes.Mapped(fmt.Sprintf("%s %d", asked, fitting))
	}
	return &perigee.Thinking{Include: new(true), Budget: &fitting}
}

// checkEnabled leaves out thinking with a budget where the API refuses it: if the model has to call
// a tool, and in a tool loop that did not begin with signed thinking.
func (a *messagesAdapter) checkEnabled(gen *perigee.Generation) {
	_, starts := turnStarts(a.prompt.Contents)
	unsigned := func(i int) bool { return !startsWithThought(&a.prompt.Contents[i]) }
	switch config := a.prompt.ToolConfig; {
	case config != nil && config.Mode == perigee.ToolModeAny:
		a.notes.Dropped("thinking beside a tool choice that forces a call")
	case slices.ContainsFunc(starts, unsigned):
		a.notes.Dropped("thinking in a round of tools whose first thoughts are lost")
	default:
		return
	}
	gen.Thinking = nil
}

// display sets whether thinking is shown. Newer models show none by default, and older ones all of
// it. Models of compatible servers may not have the setting.
func (a *messagesAdapter) display(t *perigee.Thinking, include *bool) {
	shown := include != nil && *include
	value := ""
	switch {
	case shown && a.model.Omits:
		value = `"summarized"`
	case !shown && !a.model.Omits && strings.Contains(a.model.ID, "claude"):
		value = `"omitted"`
	}
	if value != "" {
		t.Extra = perigee.Fields{{Name: "display", Value: json.RawMessage(value)}}
	}
}
