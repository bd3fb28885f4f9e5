// Package prepare makes a prompt fit for the provider that is about to be asked: names that it accepts, thinking
// within what the model knows, calls paired with their results, signatures where they are demanded. What a client of
// another API could not know, or got wrong, is set right here instead of coming back as an error.
//
// ForGemini does this for the official API, ForAntigravity for the gateway behind Antigravity, which takes less and has
// Claude behind it, too. A Repair says what the gateway refused nevertheless, so that a second attempt is another one.
//
// It is pure, never changes the prompt that it is given, and takes time linear in it. It reads no wire format: dialects
// have done that before, and the upstream that calls it writes the result. What schemas have to look like is for package
// schema to know.
package prepare

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/schema"
)

// ForGemini returns the prompt as the official Gemini API takes it from a client of any dialect, what has to be undone
// in the answer, and what was changed that the client could miss. p stays as it is; the result shares with it whatever
// did not change.
func ForGemini(p *perigee.Prompt, spec models.Spec) (*perigee.Prompt, Back, []perigee.Note) {
	g := &gemini{spec: spec, prompt: *p}
	g.system()
	g.tools()
	g.generation()
	g.contents()
	return &g.prompt, Back{names: g.names.back}, g.notes.list
}

// gemini is one prompt on its way to the Gemini API.
type gemini struct {
	spec   models.Spec
	prompt perigee.Prompt // a copy; what it points at belongs to the client until it is replaced
	names  names
	notes  notes
	within bool // thinking has to end before the model's own limit where the client sets none
}

// Back turns what the provider says about the prepared prompt into what the client would say. Its zero value has
// nothing to turn.
type Back struct {
	names   map[string]string // as the provider knows them, to as the client does
	fillers map[string]bool   // functions, as the provider knows them, whose arguments may have a placeholder
	object  bool              // a call always has arguments
}

// Needed says whether the provider's own words would be wrong for a client that speaks them, too.
func (b Back) Needed() bool { return len(b.names) > 0 || len(b.fillers) > 0 }

// Event gives a function call the name that the client knows, and the arguments that its own schema asks for. What the
// event points at is replaced, not changed.
func (b Back) Event(ev *perigee.Event) {
	if ev.Kind != perigee.EventCall || ev.Call == nil {
		return
	}
	call := *ev.Call
	name, renamed := b.names[call.Name]
	if b.fillers[call.Name] {
		call.Args = schema.TakeOutPlaceholder(call.Args)
	}
	if b.object && !isObject(call.Args) {
		call.Args = object(call.Args, "input")
	}
	if renamed {
		call.Name = name
	}
	if renamed || len(call.Args) != len(ev.Call.Args) {
		ev.Call = &call
	}
}

// notes gathers what was changed, each thing once.
type notes struct{ list []perigee.Note }

func (n *notes) add(action, subject string) {
	if note := (perigee.Note{Action: action, Subject: subject}); !slices.Contains(n.list, note) && len(n.list) < maxNotes {
		n.list = append(n.list, note)
	}
}

// maxNotes bounds what a hostile history can make us say, and the time it takes to say each thing once.
const maxNotes = 64

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

// empty says whether a part carries nothing: the provider refuses some of these and ignores the others. To Claude white
// space is nothing, too.
func (g *gemini) empty(p perigee.Part) bool {
	switch p.Kind {
	case perigee.PartText:
		if g.spec.Family == models.Claude && !p.Thought {
			return strings.TrimSpace(p.Text) == ""
		}
		return p.Text == "" && p.Signature == "" && len(p.Extra) == 0
	case perigee.PartBlob:
		return p.Blob == nil
	case perigee.PartFile:
		return p.File == nil
	case perigee.PartCall:
		return p.Call == nil
	case perigee.PartResponse:
		return p.Response == nil
	}
	return len(p.Extra) == 0
}
