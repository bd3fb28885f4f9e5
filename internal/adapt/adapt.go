package adapt

import (
	"encoding/json"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
)

// AntigravityOptions are the owner's settings, and properties learned from the provider.
type AntigravityOptions struct {
	// KeepThinking sends all signed thoughts back to Claude. Without it they are sent only where
	// Claude requires them: at the beginning of a turn that ends with tool results.
	KeepThinking bool
	// WithoutTools are functions, by the client's names, that are left out because the provider
	// rejects their schemas.
	WithoutTools map[string]bool
	// Repair selects changes after a rejection by the provider. The zero value changes nothing.
	Repair Repair
	// Schemas caches adapted schemas of tools. If it is nil, each schema is adapted again.
	Schemas *schema.Cache
}

// Adapted is a prompt that the gateway accepts, with the data needed to handle its answer.
type Adapted struct {
	Prompt *perigee.Prompt
	Undo   Undo           // reverts the changes in the answer
	Notes  []perigee.Note // changes that may affect the client
	// Search is not nil if the model searches by calling a function, which the caller answers.
	Search *Search
}

// ForAntigravity returns the prompt as the Antigravity gateway accepts it from a client of any
// dialect, for all families of models that it serves. p is not changed; the result shares its
// unchanged parts with p.
func ForAntigravity(p *perigee.Prompt, spec models.Spec, opts AntigravityOptions) Adapted {
	a := &adapter{gateway: true, spec: spec, prompt: *p, opts: opts}
	a.names = nameMap{NoPunctuation: a.claude(), FoldCase: true}
	if a.claude() && spec.Output == 0 {
		a.spec.Output = claudeOutput
	}
	opts.Repair.note(&a.notes)
	a.prompt.Extra = a.supported(p.Extra, "", requestMembers)
	a.adapt()
	a.interleave()
	a.showThoughts()
	return Adapted{Prompt: &a.prompt, Undo: a.undo, Notes: a.notes.List(), Search: a.search}
}

// claudeOutput is the output limit of a Claude model with an unknown limit: all models of that
// family at the gateway have it.
const claudeOutput = 64000

// ForGemini returns the prompt as the official Gemini API accepts it from a client of any dialect,
// the Undo for the answer, and notes on changes that may affect the client. p is not changed; the
// result shares its unchanged parts with p.
func ForGemini(p *perigee.Prompt, spec models.Spec) (*perigee.Prompt, Undo, []perigee.Note) {
	return RepairForGemini(p, spec, 0)
}

// RepairForGemini is ForGemini after a rejection by the provider. This API needs RepairSignatures
// only; the other repairs change nothing.
func RepairForGemini(p *perigee.Prompt, spec models.Spec, repair Repair) (*perigee.Prompt, Undo, []perigee.Note) {
	a := &adapter{spec: spec, prompt: *p, opts: AntigravityOptions{Repair: repair & RepairSignatures}}
	a.adapt()
	repair.note(&a.notes)
	return &a.prompt, Undo{names: a.names.back}, a.notes.List()
}

// An adapter adapts one prompt.
type adapter struct {
	gateway bool // to the Antigravity gateway, otherwise to the official API
	spec    models.Spec
	opts    AntigravityOptions
	prompt  perigee.Prompt // a shallow copy: values are replaced, not changed
	names   nameMap
	notes   perigee.Notes
	undo    Undo
	search  *Search
	grown   int // by how many bytes adapting has made schemas longer
}

func (a *adapter) adapt() {
	a.system()
	a.tools()
	a.generation()
	a.contents()
}

// claude reports whether the model is a Claude model. Their backend has rules of its own.
func (a *adapter) claude() bool { return a.spec.Family == models.Claude }

// native reports whether the model is Google's own, which supports the provider's tools and thought
// signatures.
func (a *adapter) native() bool {
	switch a.spec.Family {
	case models.Gemini, models.Gemini2, models.Image:
		return true
	}
	return false
}

func (a *adapter) draws() bool { return a.spec.Family == models.Image }

func (a *adapter) repairs(r Repair) bool { return a.opts.Repair&r != 0 }

// Undo reverts the changes of the request in the answer. Its zero value reverts nothing.
type Undo struct {
	names   map[string]string          // the provider's names of functions to the client's
	fillers map[string]json.RawMessage // schemas with placeholders, by the provider's names
	object  bool                       // a call always has arguments
}

// Needed reports whether the provider's own chunks would be wrong for a client of the same dialect.
func (u Undo) Needed() bool { return len(u.names) > 0 || len(u.fillers) > 0 }

// Holds reports whether an event is a piece of a call that clients get only whole, because its
// arguments may change when they are complete.
func (u Undo) Holds(ev *perigee.Event) bool {
	return ev.Kind == perigee.EventCallPart && ev.Call != nil && u.fillers[ev.Call.Name] != nil
}

// Event gives a function call the name that the client declared, and arguments that fit the
// client's schema. The values that the event points to are replaced, not changed.
func (u Undo) Event(ev *perigee.Event) {
	if ev.Kind == perigee.EventCallPart && ev.Call != nil {
		if name, renamed := u.names[ev.Call.Name]; renamed {
			ev.Call = &perigee.FunctionCall{ID: ev.Call.ID, Name: name}
		}
		return
	}
	if ev.Kind != perigee.EventCall || ev.Call == nil {
		return
	}
	call := *ev.Call
	name, renamed := u.names[call.Name]
	if cleaned := u.fillers[call.Name]; cleaned != nil {
		call.Args = schema.TakeOutPlaceholder(call.Args, cleaned)
	}
	if u.object && !isObject(call.Args) {
		call.Args = object(call.Args, "input")
	}
	if renamed {
		call.Name = name
	}
	if renamed || len(call.Args) != len(ev.Call.Args) {
		ev.Call = &call
	}
}
