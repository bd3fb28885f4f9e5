package prepare

import (
	"slices"

	"perigee"
)

// forClaude makes a paired conversation one that Claude accepts behind the same API: calls with ids that are legal and
// its own, thinking only where it may stand.
func (g *gemini) forClaude(list []perigee.Content) []perigee.Content {
	identify(list)
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			list[i].Parts = withoutLateThoughts(list[i].Parts)
		}
	}
	turn, starts := turnStarts(list)
	if starts == nil {
		return list
	}
	// In the midst of a round of tools Claude thinks on only from sealed thoughts at the beginning of its turn. Without
	// them it can answer, but not think.
	if thinks(g.prompt.Generation.Thinking) {
		if !slices.ContainsFunc(starts, func(i int) bool { return !startsWithThought(&list[i]) }) {
			return list
		}
		g.prompt.Generation.Thinking = nil
		g.notes.add(perigee.NoteDropped, "thinking in a round of tools whose first thoughts are lost")
	}
	for i := turn; i < len(list); i++ {
		list[i].Parts = without(list[i].Parts, isThought)
	}
	return withoutEmpty(list)
}

func startsWithThought(c *perigee.Content) bool { return c.Parts[0].Thought }

// withoutLateThoughts keeps the thoughts that a content begins with: further ones belong to an answer that the client
// has put together from several, and are sealed for another place.
func withoutLateThoughts(parts []perigee.Part) []perigee.Part {
	first := slices.IndexFunc(parts, func(p perigee.Part) bool { return !p.Thought })
	if first < 0 || !slices.ContainsFunc(parts[first:], isThought) {
		return parts
	}
	return append(slices.Clone(parts[:first]), without(parts[first:], isThought)...)
}
