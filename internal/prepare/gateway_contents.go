package prepare

import (
	"slices"
	"strings"

	"perigee"
)

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
	list = order(list, g.claude(), g.opening(), &g.names, &g.notes)
	if g.claude() {
		list = g.withThoughts(list)
	}
	sign(list, signedFrom(list, g.spec.Family, g.opts.Repair))
	g.prompt.Contents = list
}

// opening is what the user says where the model would begin. Google's own models make nothing of an empty text; others
// want to be told something.
func (g *gateway) opening() perigee.Part {
	if g.native() {
		return perigee.Part{Kind: perigee.PartText}
	}
	return goOn
}

// UnknownRole is the index of the first content whose role no API has, so its author is unknown; -1: there
// is none. Results of calls may have any role.
func UnknownRole(list []perigee.Content) int {
	return slices.IndexFunc(list, func(c perigee.Content) bool {
		switch c.Role {
		case "", perigee.RoleUser, perigee.RoleModel, "function", "tool":
			return false
		}
		return !strings.EqualFold(c.Role, "assistant") && !isInstruction(c) && !resultsOnly(&c)
	})
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
		c = new(withoutSeals(*c))
	}
	g.known(c.Extra, "contents[].", nil)
	model := role == perigee.RoleModel
	inside := g.inside
	if model || tell {
		inside = nowhere
	}
	parts := g.parts(attach(c.Parts, inside), model, tell)
	if model && g.claude() {
		parts = thoughtsFirst(parts)
	}
	return perigee.Content{Role: role, Parts: parts}
}

// parts returns what is left of the parts of a turn. While all of them are as they were, they are the client's own.
func (g *gateway) parts(parts []perigee.Part, model, tell bool) []perigee.Part {
	var changed []perigee.Part
	for i := range parts {
		part := g.part(&parts[i], model, tell)
		if changed == nil && part == &parts[i] {
			continue
		}
		if changed == nil {
			changed = append(make([]perigee.Part, 0, len(parts)), parts[:i]...)
		}
		if part != nil {
			changed = append(changed, *part)
		}
	}
	if changed == nil {
		return parts
	}
	return changed
}
