package prepare

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

// system gathers the system instruction: from where it belongs, and from turns of a role that only other APIs have. It is
// text; whatever else is in it, the user says first.
func (g *gateway) system() {
	parts, hoisted := g.instructions()
	if len(parts) == 0 && !hoisted {
		g.prompt.System = nil
		return
	}
	if hoisted {
		g.prompt.Contents = slices.DeleteFunc(slices.Clone(g.prompt.Contents), isInstruction)
		g.notes.add(perigee.NoteMapped, "turn of role system to the system instruction")
	}
	other := func(p perigee.Part) bool { return p.Kind != perigee.PartText }
	if media := without(parts, func(p perigee.Part) bool { return !other(p) }); len(media) > 0 {
		g.notes.add(perigee.NoteMapped, "media of the system instruction to a user turn")
		g.first(media)
		parts = without(parts, other)
	}
	switch system := g.prompt.System; {
	case len(parts) == 0:
		g.prompt.System = nil
	case g.spec.Family == models.Image:
		g.notes.add(perigee.NoteMapped, "system instruction to a user turn")
		g.first(parts)
		g.prompt.System = nil
	case system == nil || system.Role != perigee.RoleUser || len(system.Extra) > 0 || len(parts) != len(system.Parts) || &parts[0] != &system.Parts[0]:
		g.prompt.System = &perigee.Content{Role: perigee.RoleUser, Parts: parts}
	}
}

// first lets the user begin the conversation with something else.
func (g *gateway) first(parts []perigee.Part) {
	g.prompt.Contents = slices.Concat([]perigee.Content{{Role: perigee.RoleUser, Parts: parts}}, g.prompt.Contents)
}

func isInstruction(c perigee.Content) bool { return c.Role == "system" || c.Role == "developer" }

// instructions returns the parts of the system instruction that say something, and whether some come from turns.
func (g *gateway) instructions() (parts []perigee.Part, hoisted bool) {
	if system := g.prompt.System; system != nil {
		g.known(system.Extra, "systemInstruction.", nil)
		parts = g.parts(system.Parts, false, true)
	}
	for i := range g.prompt.Contents {
		if !isInstruction(g.prompt.Contents[i]) {
			continue
		}
		if !hoisted {
			parts, hoisted = slices.Clone(parts), true
		}
		parts = append(parts, g.parts(g.prompt.Contents[i].Parts, false, true)...)
	}
	return parts, hoisted
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

// contents makes the conversation one that the gateway accepts: nothing empty or unknown, the user first, every call
// followed by its result, thoughts and seals where they belong.
func (g *gateway) contents() {
	list := make([]perigee.Content, 0, len(g.prompt.Contents)+3)
	told := g.toldFrom()
	for i := range g.prompt.Contents {
		if c := g.content(&g.prompt.Contents[i], i >= told); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if len(list) == 0 && g.prompt.System != nil {
		// Some clients send nothing but a system message; to the model that is what the user says.
		g.notes.add(perigee.NoteMapped, "system instruction to a user turn")
		list, g.prompt.System = append(list, *g.prompt.System), nil
	}
	if g.claude() {
		list = g.closed(list)
	}
	list = g.pair(list)
	if len(list) > 0 && list[0].Role == perigee.RoleModel {
		first := perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText}}}
		if !g.native() {
			first.Parts[0] = goOn
		}
		list = slices.Insert(list, 0, first)
		g.notes.add(perigee.NoteRepaired, "conversation that began with the model")
	}
	if g.claude() {
		list = g.withThoughts(list)
	}
	g.sign(list)
	g.prompt.Contents = list
}

// content returns a turn as the gateway takes it.
func (g *gateway) content(c *perigee.Content, tell bool) perigee.Content {
	role := perigee.RoleUser
	switch {
	case resultsOnly(c):
	case c.Role == perigee.RoleModel:
		role = perigee.RoleModel
	case strings.EqualFold(c.Role, "assistant"):
		// Nobody has looked at the seals of a role that the provider does not have.
		role = perigee.RoleModel
		c = &WithoutSeals(&perigee.Prompt{Contents: []perigee.Content{*c}}).Contents[0]
	}
	g.known(c.Extra, "contents[].", nil)
	model := role == perigee.RoleModel
	parts := g.parts(c.Parts, model, tell)
	if model && g.claude() {
		parts = thoughtsFirst(parts)
	}
	return perigee.Content{Role: role, Parts: parts}
}

// parts returns what is left of the parts of a turn. While all of them are as they were, they are the client's own.
func (g *gateway) parts(parts []perigee.Part, model, tell bool) []perigee.Part {
	for i := range parts {
		part := g.part(&parts[i], model, tell)
		if part == &parts[i] {
			continue
		}
		out := append(make([]perigee.Part, 0, len(parts)), parts[:i]...)
		for {
			if part != nil {
				out = append(out, *part)
			}
			if i++; i == len(parts) {
				return out
			}
			part = g.part(&parts[i], model, tell)
		}
	}
	return parts
}
