package prepare

import (
	"slices"
	"strconv"
	"strings"

	"perigee"
)

// goOn is what the user says where Claude wants a word of the user's and there is none.
var goOn = perigee.Part{Kind: perigee.PartText, Text: "Continue."}

// closed returns the conversation with the user's word at its end: Claude does not go on with a sentence of its own.
func (g *gemini) closed(list []perigee.Content) []perigee.Content {
	if len(list) == 0 || list[len(list)-1].Role != perigee.RoleModel {
		return list
	}
	g.notes.add(perigee.NoteRepaired, "conversation that ended with the model")
	return append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{goOn}})
}

// forClaude makes a paired conversation one that Claude accepts behind the same API: calls with ids that are legal and
// its own, thinking only where it may stand.
func (g *gemini) forClaude(list []perigee.Content) []perigee.Content {
	identify(list)
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			list[i].Parts = withoutLateThoughts(list[i].Parts)
		}
	}
	if last := len(list) - 1; last < 0 || list[last].Role == perigee.RoleModel || !hasResult(&list[last]) {
		return list
	}
	// In the midst of a round of tools Claude thinks on only from sealed thoughts at the beginning of its turn. Without
	// them it can answer, but not think.
	turn := currentTurn(list)
	if thinks(g.prompt.Generation.Thinking) {
		if !startsWithoutThought(list[turn:]) {
			return list
		}
		g.prompt.Generation.Thinking = nil
		g.notes.add(perigee.NoteDropped, "thinking in a round of tools whose first thoughts are lost")
	}
	for i := turn; i < len(list); i++ {
		list[i].Parts = without(list[i].Parts, isThought)
	}
	return slices.DeleteFunc(list, func(c perigee.Content) bool { return len(c.Parts) == 0 })
}

func thinks(t *perigee.Thinking) bool { return t != nil && t.Budget != nil && *t.Budget != 0 }

func isThought(p perigee.Part) bool { return p.Thought }

func hasResult(c *perigee.Content) bool {
	return slices.ContainsFunc(c.Parts, func(p perigee.Part) bool { return p.Kind == perigee.PartResponse })
}

// startsWithoutThought says whether the first thing that the model says in these contents is no thought.
func startsWithoutThought(turn []perigee.Content) bool {
	for i := range turn {
		if turn[i].Role == perigee.RoleModel {
			return !turn[i].Parts[0].Thought
		}
	}
	return false
}

// withoutLateThoughts keeps the thoughts that a content begins with: further ones belong to an answer that the client
// has put together from several, and are sealed for another place.
func withoutLateThoughts(parts []perigee.Part) []perigee.Part {
	first := slices.IndexFunc(parts, func(p perigee.Part) bool { return !p.Thought })
	if first < 0 || !slices.ContainsFunc(parts[first:], isThought) {
		return parts
	}
	return append(slices.Clone(parts[:first]), without(parts[first:], isThought)...)
}

// without returns parts without those that it should not have; parts stay as they are.
func without(parts []perigee.Part, drop func(perigee.Part) bool) []perigee.Part {
	if !slices.ContainsFunc(parts, drop) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), drop)
}

// identify gives each call an id that Claude takes and that no other call has, and its result the same one. The list is
// paired: the results of the model's calls stand first in the content behind them, in the same order.
func identify(list []perigee.Content) {
	used := make(map[string]int, len(list)/2)
	var calls []string // the ids of the calls of this round
	answered := 0      // how many of them have a result
	for i := range list {
		owned := false
		own := func() {
			if !owned {
				list[i].Parts, owned = slices.Clone(list[i].Parts), true
			}
		}
		for j := range list[i].Parts {
			switch part := &list[i].Parts[j]; part.Kind {
			case perigee.PartCall:
				id := freeID(used, part.Call.ID)
				if answered == len(calls) {
					calls, answered = calls[:0], 0
				}
				calls = append(calls, id)
				if id != part.Call.ID {
					own()
					call := *part.Call
					call.ID = id
					list[i].Parts[j].Call = &call
				}
			case perigee.PartResponse:
				if answered == len(calls) {
					continue
				}
				if id := calls[answered]; id != part.Response.ID {
					own()
					response := *part.Response
					response.ID = id
					list[i].Parts[j].Response = &response
				}
				answered++
			}
		}
	}
}

// freeID makes an id legal and unlike those before it.
func freeID(used map[string]int, id string) string {
	id = legalID(id)
	for {
		n := used[id] + 1
		used[id] = n
		if n == 1 {
			return id
		}
		next := id + "_" + strconv.Itoa(n)
		if used[next] == 0 {
			used[next] = 1
			return next
		}
	}
}

func legalID(id string) string {
	if id == "" {
		return "call"
	}
	legal := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	for i := range len(id) {
		if !legal(rune(id[i])) {
			return strings.Map(func(r rune) rune {
				if legal(r) {
					return r
				}
				return '_'
			}, id)
		}
	}
	return id
}
