package adapt

import (
	"slices"
	"strings"

	"perigee"
)

// contents makes the conversation acceptable: nothing empty or unknown, the user first, every call
// followed by its result, thoughts and their signatures where they belong.
func (a *adapter) contents() {
	list := make([]perigee.Content, 0, len(a.prompt.Contents)+3)
	asText := a.toolsAsText()
	for i := range a.prompt.Contents {
		if c := a.content(a.prompt.Contents[i], asText); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if a.gateway && len(list) == 0 && a.prompt.System != nil {
		// Some clients send nothing but a system message; to the model that is the user's message.
		a.notes.Mapped("system instruction to a user turn")
		list, a.prompt.System = append(list, *a.prompt.System), nil
	}
	list = a.order(list)
	lost := false
	switch {
	case !a.claude():
	case a.gateway:
		list, lost = a.withThoughts(list)
	default:
		list, lost = a.withOfficialThoughts(list)
	}
	if !lost {
		a.noteOmitted(a.prompt.Contents, list)
	}
	a.sign(list)
	a.prompt.Contents = list
}

// toolsAsText reports whether calls and results become texts, because the model does not accept
// calls and results.
func (a *adapter) toolsAsText() bool {
	exchange := func(c perigee.Content) bool {
		return slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
			return p.Kind == perigee.PartCall || p.Kind == perigee.PartResponse
		})
	}
	switch {
	case a.repairs(RepairPairing), a.rejectedStandIns():
		return true
	case !a.gateway || !a.draws():
		return false
	}
	// Image models call nothing. Calls of other models are still part of the conversation.
	if slices.ContainsFunc(a.prompt.Contents, exchange) {
		a.notes.Mapped("tool calls and results to text")
	}
	return true
}

// UnknownRole returns the index of the first content with a role that no API has; -1 if there is
// none. Results of calls may have any role.
func UnknownRole(list []perigee.Content) int {
	return slices.IndexFunc(list, func(c perigee.Content) bool {
		switch c.Role {
		case "", perigee.RoleUser, perigee.RoleModel, "function", "tool":
			return false
		}
		return !strings.EqualFold(c.Role, "assistant") && !c.Instructs() && !resultsOnly(&c)
	})
}

// content returns a turn as the provider accepts it.
func (a *adapter) content(c perigee.Content, asText bool) perigee.Content {
	if !a.gateway && a.repairs(RepairSignatures) {
		c.Parts = withoutSignatures(c.Parts)
	}
	switch results := resultsOnly(&c); {
	case c.Role == perigee.RoleModel && !results:
	case c.Role == perigee.RoleModel || c.Role == "":
		c.Role = perigee.RoleUser // some clients file results under the model
	case !a.gateway:
	case strings.EqualFold(c.Role, "assistant") && !results:
		// The provider has no such role, so the thought signatures in it are unchecked.
		c.Role, c.Parts = perigee.RoleModel, withoutSignatures(c.Parts)
	default:
		c.Role = perigee.RoleUser
	}
	c.Extra = a.supported(c.Extra, "contents[].", nil)
	model := c.Role == perigee.RoleModel
	c.Parts = a.parts(a.attach(c.Parts, !model && !asText), model, asText)
	if a.gateway && model && a.claude() {
		c.Parts = thoughtsFirst(c.Parts)
	}
	return c
}

// parts adapts the parts of a turn.
func (a *adapter) parts(parts []perigee.Part, model, asText bool) []perigee.Part {
	return perigee.EditParts(parts, func(p *perigee.Part) bool { return a.part(p, model, asText) })
}

// system adapts the system instruction, and moves it where the model has no place for it. The
// gateway accepts only text in it, and no turns of role system, which other APIs have.
func (a *adapter) system() {
	parts, hoisted := a.instructions()
	if hoisted {
		NoteInstructions(&a.notes, &a.prompt)
		a.prompt.Contents = slices.DeleteFunc(slices.Clone(a.prompt.Contents), func(c perigee.Content) bool { return c.Instructs() })
	}
	other := func(p perigee.Part) bool { return p.Kind != perigee.PartText }
	if a.gateway && slices.ContainsFunc(parts, other) {
		a.notes.Mapped("media of the system instruction to a user turn")
		a.first(without(parts, isText))
		parts = without(parts, other)
	}
	switch system := a.prompt.System; {
	case len(parts) == 0:
		a.prompt.System = nil
	case a.draws() || !a.gateway && len(a.prompt.Contents) == 0:
		a.notes.Mapped("system instruction to a user turn")
		a.first(parts)
		a.prompt.System = nil
	case a.gateway:
		a.prompt.System = &perigee.Content{Role: perigee.RoleUser, Parts: parts}
	case system == nil:
		a.prompt.System = &perigee.Content{Parts: parts}
	default:
		a.prompt.System = &perigee.Content{Role: system.Role, Parts: parts, Extra: system.Extra}
	}
}

// first puts parts before the conversation, as a turn of the user.
func (a *adapter) first(parts []perigee.Part) {
	a.prompt.Contents = slices.Concat([]perigee.Content{{Role: perigee.RoleUser, Parts: parts}}, a.prompt.Contents)
}

// instructions returns the non-empty parts of the system instruction, and whether some come from
// turns. Turns of a client of the Gemini API are left to the official API, which refuses them.
func (a *adapter) instructions() (parts []perigee.Part, hoisted bool) {
	if system := a.prompt.System; system != nil {
		a.supported(system.Extra, "systemInstruction.", nil)
		parts = a.parts(system.Parts, false, true)
	}
	for i := range a.prompt.Contents {
		if !a.prompt.Contents[i].Instructs() || !a.gateway && !a.foreign() {
			continue
		}
		if !hoisted {
			parts, hoisted = slices.Clone(parts), true
		}
		parts = append(parts, a.parts(a.prompt.Contents[i].Parts, false, true)...)
	}
	return parts, hoisted
}

// proceed is the user's message where the model requires one and there is none.
var proceed = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain("Continue.")}

// order makes every turn follow the rules of the provider: each call is followed by its result, the
// user begins, and for Claude the user also ends, since it does not continue a text of its own.
func (a *adapter) order(list []perigee.Content) []perigee.Content {
	if n := len(list); a.claude() && n > 0 && isModel(list[n-1]) {
		a.notes.Repaired("conversation that ended with the model")
		list = append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}})
	}
	list = a.pair(list)
	if len(list) == 0 || !isModel(list[0]) {
		return list
	}
	a.notes.Repaired(optionName(a.prompt.Dialect, "conversation that began with the model"))
	opening := perigee.Part{Kind: perigee.PartText} // which Google's own models ignore
	if a.claude() || a.gateway && !a.native() {
		opening = proceed
	}
	return slices.Insert(list, 0, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{opening}})
}

func resultsOnly(c *perigee.Content) bool {
	for i := range c.Parts {
		if c.Parts[i].Kind != perigee.PartResponse {
			return false
		}
	}
	return len(c.Parts) > 0
}

func isModel(c perigee.Content) bool { return c.Role == perigee.RoleModel }

func isText(p perigee.Part) bool { return p.Kind == perigee.PartText }

func isCall(p perigee.Part) bool { return p.Kind == perigee.PartCall }

// without returns a copy of parts without those that drop selects.
func without(parts []perigee.Part, drop func(perigee.Part) bool) []perigee.Part {
	if !slices.ContainsFunc(parts, drop) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), drop)
}

// withoutEmpty drops turns without parts.
func withoutEmpty(list []perigee.Content) []perigee.Content {
	return slices.DeleteFunc(list, func(c perigee.Content) bool { return len(c.Parts) == 0 })
}
