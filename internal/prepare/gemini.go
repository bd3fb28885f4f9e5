package prepare

import (
	"slices"

	"perigee"
	"perigee/internal/models"
)

// ForGemini returns the prompt as the official Gemini API takes it from a client of any dialect, what has to be undone
// in the answer, and what was changed that the client could miss. p stays as it is; the result shares with it whatever
// did not change.
func ForGemini(p *perigee.Prompt, spec models.Spec) (*perigee.Prompt, Back, []perigee.Note) {
	return RepairForGemini(p, spec, 0)
}

// RepairForGemini is ForGemini after a refusal of the provider's. Of the repairs this API needs RepairSignatures; others
// change nothing here.
func RepairForGemini(p *perigee.Prompt, spec models.Spec, repair Repair) (*perigee.Prompt, Back, []perigee.Note) {
	g := &gemini{spec: spec, prompt: *p, repair: repair}
	g.system()
	g.tools()
	g.generation()
	g.contents()
	repair.note(&g.notes)
	return &g.prompt, Back{names: g.names.back}, g.notes.list
}

// gemini is one prompt on its way to the Gemini API.
type gemini struct {
	spec   models.Spec
	prompt perigee.Prompt // a copy; what it points at belongs to the client until it is replaced
	repair Repair
	names  names
	notes  notes
}

// claude says whether the model is one of Claude's, which some offer behind the same API.
func (g *gemini) claude() bool { return g.spec.Family == models.Claude }

// system drops empty pieces of the system instruction, and finds it another place where the model has none for it.
func (g *gemini) system() {
	system := g.prompt.System
	if system == nil {
		return
	}
	parts := without(system.Parts, g.empty)
	if len(parts) != len(system.Parts) {
		system = &perigee.Content{Role: system.Role, Parts: parts, Extra: system.Extra}
	}
	switch {
	case len(parts) == 0:
		system = nil
	case len(g.prompt.Contents) == 0:
		// Some clients send nothing but a system message; to the model that is what the user says.
		g.prompt.Contents = []perigee.Content{{Role: perigee.RoleUser, Parts: parts}}
		g.notes.add(perigee.NoteMapped, "system instruction to a user turn")
		system = nil
	case g.spec.Family == models.Image:
		first := perigee.Content{Role: perigee.RoleUser, Parts: parts}
		g.prompt.Contents = slices.Concat([]perigee.Content{first}, g.prompt.Contents)
		g.notes.add(perigee.NoteMapped, "system instruction to a user turn")
		system = nil
	}
	g.prompt.System = system
}

// generation keeps the knobs within what the model has.
func (g *gemini) generation() {
	gen := &g.prompt.Generation
	limitOutput(gen, g.spec.Output, &g.notes)
	sayJSON(gen)
	if g.spec.Family == models.Image && gen.Candidates != nil && *gen.Candidates > 1 {
		g.notes.add(perigee.NoteDropped, "further candidates for an image model")
		gen.Candidates = nil
	}
	if gen.Thinking != nil {
		gen.Thinking = fitThinking(*gen.Thinking, g.spec.Thinking, g.outputLimit(), &g.notes)
	}
}

// outputLimit is how long the answer may be, thinking included; 0: nobody says. Claude goes by its own limit where the
// client has none.
func (g *gemini) outputLimit() int64 {
	if limit := g.prompt.Generation.MaxOutputTokens; limit != nil {
		return *limit
	}
	if g.claude() {
		return g.spec.Output
	}
	return 0
}
