package adapt

import (
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
)

// A model whose name ends in -thinking thinks unless the request says otherwise.
func TestNamesThatAskForThinking(t *testing.T) {
	text := []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("hi")}}}}
	with := func(g perigee.Generation) *perigee.Prompt { return &perigee.Prompt{Contents: text, Generation: g} }
	for _, test := range []struct {
		name, model string
		prompt      *perigee.Prompt
		budget      int64 // -2: no thinking is sent, -1: no budget
		notes       string
	}{
		{"nothing is said", "claude-opus-4-6-thinking", with(perigee.Generation{}), usualBudget, "added thinking"},
		{"an unknown model", "claude-new-9-THINKING", with(perigee.Generation{}), usualBudget, "added thinking"},
		{"Gemini", "gemini-2.5-flash-thinking", with(perigee.Generation{}), -1, "added thinking"},
		{"little room", "claude-opus-4-6-thinking", with(perigee.Generation{MaxOutputTokens: new(int64(4000))}), 2000, "added thinking"},
		{"no room", "claude-opus-4-6-thinking", with(perigee.Generation{MaxOutputTokens: new(int64(20))}), -2, ""},
		{"another name", "claude-sonnet-4-6", with(perigee.Generation{}), -2, ""},
		{"a setting that says nothing", "claude-opus-4-6-thinking", with(perigee.Generation{Thinking: &perigee.Thinking{}}), usualBudget, "added thinking"},
		{"hidden thoughts", "claude-opus-4-6-thinking", with(perigee.Generation{Thinking: &perigee.Thinking{Include: new(false)}}), usualBudget, "added thinking"},
		{"thinking is off", "claude-opus-4-6-thinking", with(perigee.Generation{Thinking: &perigee.Thinking{Budget: new(int64(0))}}), 0, ""},
		{"a budget", "claude-opus-4-6-thinking", with(perigee.Generation{Thinking: &perigee.Thinking{Budget: new(int64(2048))}}), 2048, ""},
	} {
		out := ForAntigravity(test.prompt, models.Of(test.model), AntigravityOptions{})
		got := int64(-2)
		if th := out.Prompt.Generation.Thinking; th != nil {
			got = -1
			if th.Budget != nil {
				got = *th.Budget
			}
		}
		if notes := texts(out.Notes); got != test.budget || notes != test.notes {
			t.Errorf("%s: budget %d with notes %q, want %d with %q", test.name, got, notes, test.budget, test.notes)
		}
		strict := perigee.Origin{Strict: true}
		if err := strict.RefuseIfStrict(out.Notes); err != nil {
			t.Errorf("%s: strict refuses it: %v", test.name, err)
		}
	}
}

// What is added, and thinking that is left out as Claude needs it no more, are notes that strict
// accepts.
func TestStrictAcceptsWhatIsAddedOrOmitted(t *testing.T) {
	strict := perigee.Origin{Strict: true}
	notes := []perigee.Note{{Action: perigee.NoteAdded, Subject: "thinking"}, {Action: perigee.NoteOmitted, Subject: "earlier thinking"}, {Action: perigee.NoteRenamed, Subject: "tool a.b"}}
	if err := strict.RefuseIfStrict(notes); err != nil {
		t.Error(err)
	}
	if err := strict.RefuseIfStrict(append(notes, perigee.Note{Action: perigee.NoteDropped, Subject: "logprobs"})); err == nil {
		t.Error("a dropped field is accepted")
	}
}
