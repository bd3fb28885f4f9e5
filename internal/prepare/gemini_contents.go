package prepare

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/models"
)

// contents makes the conversation one that the provider accepts: nothing empty, the user first, every call followed
// by its result, and signatures where they are demanded.
func (g *gemini) contents() {
	list := make([]perigee.Content, 0, len(g.prompt.Contents)+1)
	for i := range g.prompt.Contents {
		if c := g.clean(&g.prompt.Contents[i]); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if g.spec.Family == models.Claude {
		list = g.closed(list)
	}
	list = g.pair(list)
	if len(list) > 0 && list[0].Role == perigee.RoleModel {
		// The provider takes an empty text here, and the model makes nothing of it. Only Claude wants to be told something.
		first := perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText}}}
		if g.spec.Family == models.Claude {
			first.Parts[0] = goOn
		}
		list = slices.Insert(list, 0, first)
		g.notes.add(perigee.NoteRepaired, "conversation that began with the model")
	}
	if g.spec.Family == models.Claude {
		list = g.forClaude(list)
	}
	g.sign(list)
	g.prompt.Contents = list
}

// clean returns a content without the parts that carry nothing and with the names that the provider knows.
func (g *gemini) clean(c *perigee.Content) perigee.Content {
	out := *c
	switch {
	case out.Role == "":
		out.Role = perigee.RoleUser
	case out.Role == perigee.RoleModel && resultsOnly(c):
		out.Role = perigee.RoleUser // some clients file results under the model
	}
	changed := false
	for i := range c.Parts {
		part, keep := g.cleanPart(c.Parts[i], out.Role == perigee.RoleModel)
		if !changed && keep && same(&part, &c.Parts[i]) {
			continue // the parts are still the client's
		}
		if !changed {
			changed = true
			out.Parts = append(make([]perigee.Part, 0, len(c.Parts)), c.Parts[:i]...)
		}
		if keep {
			out.Parts = append(out.Parts, part)
		}
	}
	return out
}

// same says whether cleaning left a part as it was.
func same(a, b *perigee.Part) bool {
	return a.Kind == b.Kind && a.Signature == b.Signature && a.Call == b.Call && a.Response == b.Response
}

// cleanPart returns the part as the provider should see it, and whether it should see it at all.
func (g *gemini) cleanPart(p perigee.Part, model bool) (perigee.Part, bool) {
	if p.Signature != "" && (!model || p.Kind == perigee.PartResponse || isSentinel(p.Signature) && p.Kind != perigee.PartCall) {
		p.Signature = ""
	}
	if g.empty(p) || p.Thought && p.Signature == "" && p.Kind == perigee.PartText {
		return p, false // thinking that is not sealed means nothing to the model
	}
	switch p.Kind {
	case perigee.PartCall:
		if !model {
			g.notes.add(perigee.NoteRepaired, "tool call in a turn of the user's")
			return told("call of tool ", p.Call.Name, p.Call.Args), true
		}
		if wire := g.names.wire(p.Call.Name); wire != p.Call.Name {
			call := *p.Call
			call.Name = wire
			p.Call = &call
		}
	case perigee.PartResponse:
		if model {
			g.notes.add(perigee.NoteRepaired, "tool result in a turn of the model's")
			return told("result of tool ", p.Response.Name, p.Response.Response), true
		}
		if wire := g.names.wire(p.Response.Name); wire != p.Response.Name || p.Response.Response == nil {
			response := *p.Response
			response.Name = wire
			if response.Response == nil {
				response.Response = json.RawMessage(`{}`)
			}
			p.Response = &response
		}
	}
	return p, true
}

// told is a call or a result as a text, for where it cannot be what it is.
func told(what, name string, data json.RawMessage) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: "[" + what + name + "] " + string(data)}
}

func resultsOnly(c *perigee.Content) bool {
	for i := range c.Parts {
		if c.Parts[i].Kind != perigee.PartResponse {
			return false
		}
	}
	return len(c.Parts) > 0
}

// The sentinels are what a provider takes in place of a signature that was lost.
const sentinel = "skip_thought_signature_validator"

func isSentinel(signature string) bool {
	return signature == sentinel || signature == "context_engineering_is_the_way_to_go"
}

// sign sees to it that the first call of each step in the current turn has a signature, as generation 3 demands, and
// that no other call claims to have lost one.
func (g *gemini) sign(list []perigee.Content) {
	turn := currentTurn(list)
	for i := range list {
		c := &list[i]
		if c.Role != perigee.RoleModel {
			continue
		}
		first, owned := true, false
		for j := range c.Parts {
			if c.Parts[j].Kind != perigee.PartCall {
				continue
			}
			signature := c.Parts[j].Signature
			switch {
			case first && signature == "" && i >= turn && g.spec.Family == models.Gemini:
				signature = sentinel
			case !first && isSentinel(signature):
				signature = ""
			}
			first = false
			if signature == c.Parts[j].Signature {
				continue
			}
			if !owned {
				c.Parts, owned = slices.Clone(c.Parts), true
			}
			c.Parts[j].Signature = signature
		}
	}
}

// currentTurn is the index after the last thing that the user really said; results do not end a turn.
func currentTurn(list []perigee.Content) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role != perigee.RoleModel && !resultsOnly(&list[i]) {
			return i + 1
		}
	}
	return 0
}
