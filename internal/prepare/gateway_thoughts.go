package prepare

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"perigee"
)

// claudeSeal returns a seal as the gateway wants it from Claude's clients: encoded twice. Some clients get it, and keep
// it, encoded once. It is empty for seals of another channel, which the gateway does not open.
func claudeSeal(signature string) string {
	switch signature[0] {
	case 'E':
		return base64.StdEncoding.EncodeToString([]byte(signature))
	case 'C':
		return ""
	}
	return signature
}

// isClaudes says whether a seal is encoded twice, as Claude's are here and nobody else's.
func isClaudes(signature string) bool {
	if len(signature) < 8 || signature[0] != 'R' {
		return false
	}
	var inner [6]byte
	if _, err := base64.StdEncoding.Decode(inner[:], []byte(signature[:8])); err != nil || inner[0] != 'E' {
		return false
	}
	for _, c := range inner {
		if c != '+' && c != '/' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// thoughtsFirst puts the first thoughts of a turn before everything else, where Claude wants them, each with its seal;
// the seal often comes by itself, after the text. Later thoughts belong to an answer that the client has put together
// from several, and go; so do those without a seal.
func thoughtsFirst(parts []perigee.Part) []perigee.Part {
	if inPlace(parts) {
		return parts
	}
	var thoughts, rest []perigee.Part
	var open strings.Builder // what was thought since the last seal
	ended := false           // something else came after the first thoughts
	for i := range parts {
		part := &parts[i]
		switch {
		case !part.Thought:
			rest = append(rest, *part)
			ended = ended || len(thoughts) > 0
			open.Reset()
		case ended:
		case part.Signature == "":
			open.WriteString(part.Text)
		default:
			thought := *part
			if thought.Text == "" {
				thought.Text = open.String()
			}
			thoughts = append(thoughts, thought)
			open.Reset()
		}
	}
	return append(thoughts, rest...)
}

// inPlace says whether all thoughts come first, with seals and texts of their own.
func inPlace(parts []perigee.Part) bool {
	ended := false
	for i := range parts {
		switch part := &parts[i]; {
		case !part.Thought:
			ended = true
		case ended || part.Signature == "" || part.Text == "":
			return false
		}
	}
	return true
}

// withThoughts gives calls ids of their own, decides which thoughts Claude gets to see, and closes a round of tools that
// it could not think on from. The list is paired, and every turn has its thoughts first.
func (g *gateway) withThoughts(list []perigee.Content) []perigee.Content {
	identify(list)
	if len(list) == 0 {
		return list
	}
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			list[i].Parts = thoughtsFirst(list[i].Parts) // pairing may have joined contents
		}
	}
	on := thinks(g.prompt.Generation.Thinking)
	turn, starts := turnStarts(list)
	open := starts != nil
	latest := -1
	if open {
		latest = starts[len(starts)-1]
	}
	lost := on && open && !startsWithThought(&list[latest])
	between := on && !lost && slices.ContainsFunc(starts, func(i int) bool { return !startsWithThought(&list[i]) })
	for i := range list {
		keep := on && (g.opts.KeepThinking || slices.Contains(starts, i))
		if list[i].Role == perigee.RoleModel && (!keep || lost && i >= turn) {
			list[i].Parts = afterThoughts(list[i].Parts)
		}
	}
	if lost || between {
		g.notes.add(perigee.NoteRepaired, "round of tools whose first thoughts are lost")
	}
	switch refused := g.repairs(RepairThinkingOrder); {
	case lost, refused && open:
		list = closeRound(list, perigee.LastMessage(list))
	case between:
		list = closeRound(list, perigee.LastMessage(list[:latest]))
	case refused:
		g.prompt.Generation.Thinking = nil
	}
	return withoutEmpty(list)
}

// afterThoughts returns what follows the thoughts that come first.
func afterThoughts(parts []perigee.Part) []perigee.Part {
	for i := range parts {
		if !parts[i].Thought {
			return parts[i:]
		}
	}
	return nil
}

// closeRound ends the model's turn after the results in the user's message that begins at from, so that it begins another
// one with new thoughts. What the user says beside the results is said after that; where it is nothing, the model is told
// to go on.
func closeRound(list []perigee.Content, from int) []perigee.Content {
	results, at := 0, from
	var said []perigee.Part // what the content at has of the user's own
	for ; at < len(list) && list[at].Role != perigee.RoleModel; at++ {
		parts := list[at].Parts
		own := slices.IndexFunc(parts, isText)
		if own < 0 {
			own = len(parts)
		}
		for i := range parts[:own] {
			if parts[i].Kind == perigee.PartResponse {
				results++
			}
		}
		if own < len(parts) {
			list[at].Parts, said = parts[:own:own], parts[own:]
			at++
			break
		}
	}
	text := "[The tool has answered.]"
	if results > 1 {
		text = "[" + strconv.Itoa(results) + " tools have answered.]"
	}
	if said == nil {
		said = []perigee.Part{goOn}
	}
	return slices.Insert(list, at,
		perigee.Content{Role: perigee.RoleModel, Parts: []perigee.Part{{Kind: perigee.PartText, Text: text}}},
		perigee.Content{Role: perigee.RoleUser, Parts: said})
}
