package prepare

import (
	"slices"

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
