package prepare

import (
	"encoding/json"
	"slices"

	"perigee"
)

// goOn is what the user says where the model wants a word of the user's and there is none.
var goOn = perigee.Part{Kind: perigee.PartText, Text: "Continue."}

// order makes a conversation of turns that have something in them: every call is followed by its result, the user
// begins, with opening if need be, and Claude has not the last word.
func order(list []perigee.Content, claude bool, opening perigee.Part, names *names, notes *notes) []perigee.Content {
	if claude {
		list = endWithUser(list, notes)
	}
	list = pair(list, names, notes)
	return beginWithUser(list, opening, notes)
}

// endWithUser puts the user's word at the end: Claude does not go on with a sentence of its own.
func endWithUser(list []perigee.Content, notes *notes) []perigee.Content {
	if len(list) == 0 || list[len(list)-1].Role != perigee.RoleModel {
		return list
	}
	notes.add(perigee.NoteRepaired, "conversation that ended with the model")
	return append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{goOn}})
}

// beginWithUser lets the user say something before the model does.
func beginWithUser(list []perigee.Content, opening perigee.Part, notes *notes) []perigee.Content {
	if len(list) == 0 || list[0].Role != perigee.RoleModel {
		return list
	}
	notes.add(perigee.NoteRepaired, "conversation that began with the model")
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

// turnStarts returns where the current turn begins, and the first content of the model's in it by each reading of what ends
// a turn beside results: nothing, a text, or anything. They are in order, and nil while no results wait for the model to
// go on.
func turnStarts(list []perigee.Content) (turn int, starts []int) {
	turn = perigee.CurrentTurn(list)
	last := perigee.LastMessage(list)
	if !perigee.HaveResult(list[last:]) {
		return turn, nil
	}
	first := slices.IndexFunc(list[turn:last], isModel)
	if first < 0 {
		return turn, nil
	}
	first += turn
	text, anything := first, first
	for i := first; i < last; i++ {
		if isModel(list[i]) || resultsOnly(&list[i]) {
			continue
		}
		anything = i + slices.IndexFunc(list[i:last], isModel)
		if slices.ContainsFunc(list[i].Parts, isText) {
			text = anything
		}
	}
	return turn, []int{first, text, anything}
}

func isModel(c perigee.Content) bool { return c.Role == perigee.RoleModel }

func isText(p perigee.Part) bool { return p.Kind == perigee.PartText }

// told is a call or a result as a text, for where it cannot be what it is.
func told(what, name string, data json.RawMessage) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: "[" + what + name + "] " + string(data)}
}

// toldResult is a result as a text.
func toldResult(r *perigee.FunctionResponse) perigee.Part {
	if r.Output == nil {
		return told("result of tool ", r.Name, r.Response)
	}
	// Object would be a copy that nothing needs.
	return perigee.Part{Kind: perigee.PartText, Text: "[result of tool " + r.Name + `] {"output":` + string(r.Output) + "}"}
}

// without returns parts without those that it should not have; parts stay as they are.
func without(parts []perigee.Part, drop func(perigee.Part) bool) []perigee.Part {
	if !slices.ContainsFunc(parts, drop) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), drop)
}

// withoutEmpty drops turns of which nothing is left.
func withoutEmpty(list []perigee.Content) []perigee.Content {
	return slices.DeleteFunc(list, func(c perigee.Content) bool { return len(c.Parts) == 0 })
}
