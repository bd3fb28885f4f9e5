package prepare

import (
	"perigee"
	"perigee/internal/models"
	"perigee/internal/schema"
)

// AntigravityOptions are what the owner chose, and what was learned from the provider.
type AntigravityOptions struct {
	// KeepThinking sends Claude its sealed thoughts back. Without it they are sent only where it cannot go on without
	// them: at the beginning of a turn whose tools have just answered.
	KeepThinking bool
	// WithoutTools are functions, by the client's names, that are left out because the provider cannot read them.
	WithoutTools map[string]bool
	// Repair is what to do about a refusal of the provider's. The zero value is nothing.
	Repair Repair
	// Schemas remembers what became of the schemas of tools. Nil: each is worked out anew.
	Schemas *schema.Cache
}

// Prepared is a prompt that the gateway takes, and what belongs to it.
type Prepared struct {
	Prompt *perigee.Prompt
	Back   Back           // what has to be undone in the answer
	Notes  []perigee.Note // what was changed that the client could miss
	Search *Search        // not nil: the model searches by calling a function, and the caller answers it
}

// ForAntigravity returns the prompt as the Antigravity gateway takes it from a client of any dialect, for all families of
// models that it has. p stays as it is; the result shares with it whatever did not change.
func ForAntigravity(p *perigee.Prompt, spec models.Spec, opts AntigravityOptions) Prepared {
	g := &gateway{spec: spec, prompt: *p, opts: opts}
	g.names = names{narrow: g.claude(), fold: true}
	if g.claude() && spec.Output == 0 {
		g.spec.Output = claudeOutput
	}
	opts.Repair.note(&g.notes)
	g.prompt.Extra = g.known(p.Extra, "", requestMembers)
	g.system()
	g.tools()
	g.generation()
	g.contents()
	g.interleave()
	g.thinkAloud()
	return Prepared{Prompt: &g.prompt, Back: g.back, Notes: g.notes.list, Search: g.search}
}

// claudeOutput is how much a Claude of which nothing else is known may say: what all of them here may.
const claudeOutput = 64000

// gateway is one prompt on its way to the Antigravity gateway.
type gateway struct {
	spec   models.Spec
	opts   AntigravityOptions
	prompt perigee.Prompt // a copy; what it points at belongs to the client until it is replaced
	names  names
	notes  notes
	back   Back
	search *Search
	grown  int // by how much cleaning has made schemas longer
}

// claude says whether the model is one of Claude's, which have a backend with rules of its own.
func (g *gateway) claude() bool { return g.spec.Family == models.Claude }

// native says whether the model is Google's own, which knows the provider's tools and seals.
func (g *gateway) native() bool {
	switch g.spec.Family {
	case models.Gemini, models.Gemini2, models.Image:
		return true
	}
	return false
}

func (g *gateway) repairs(r Repair) bool { return g.opts.Repair&r != 0 }
