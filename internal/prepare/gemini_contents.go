package prepare

import (
	"encoding/json"
	"strings"

	"perigee"
)

// contents makes the conversation one that the provider accepts: nothing empty, the user first, every call followed
// by its result, and signatures where they are demanded.
func (g *gemini) contents() {
	list := make([]perigee.Content, 0, len(g.prompt.Contents)+1)
	tell := refusedStandIns(g.prompt.Contents, g.spec.Family, g.repair)
	for i := range g.prompt.Contents {
		c := g.prompt.Contents[i]
		if g.repair&RepairSignatures != 0 {
			c = withoutSeals(c)
		}
		if c = g.clean(&c, tell); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	list = order(list, g.claude(), g.opening(), &g.names, &g.notes)
	if g.claude() {
		list = g.forClaude(list)
	}
	sign(list, signedFrom(list, g.spec.Family, g.repair))
	g.prompt.Contents = list
}

// opening is what the user says where the model would begin. The provider takes an empty text, and the model makes
// nothing of it. Only Claude wants to be told something.
func (g *gemini) opening() perigee.Part {
	if g.claude() {
		return goOn
	}
	return perigee.Part{Kind: perigee.PartText}
}

// clean returns a content without the parts that carry nothing and with the names that the provider knows. Calls and
// results become texts where tell says so.
func (g *gemini) clean(c *perigee.Content, tell bool) perigee.Content {
	inside := g.inside
	if tell || c.Role == perigee.RoleModel && !resultsOnly(c) {
		inside = nowhere
	}
	if parts := attach(c.Parts, inside); len(parts) != len(c.Parts) {
		c = &perigee.Content{Role: c.Role, Parts: parts, Extra: c.Extra}
	}
	out := *c
	switch {
	case out.Role == "":
		out.Role = perigee.RoleUser
	case out.Role == perigee.RoleModel && resultsOnly(c):
		out.Role = perigee.RoleUser // some clients file results under the model
	}
	changed := false
	for i := range c.Parts {
		part, keep := g.cleanPart(c.Parts[i], out.Role == perigee.RoleModel, tell)
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
func (g *gemini) cleanPart(p perigee.Part, model, tell bool) (perigee.Part, bool) {
	if p.Signature != "" && (!model || p.Kind == perigee.PartResponse || isSentinel(p.Signature) && p.Kind != perigee.PartCall) {
		p.Signature = ""
	}
	if g.empty(p) || p.Thought && p.Signature == "" && p.Kind == perigee.PartText {
		return p, false // thinking that is not sealed means nothing to the model
	}
	switch p.Kind {
	case perigee.PartCall:
		if tell || !model {
			if !tell {
				g.notes.add(perigee.NoteRepaired, "tool call in a turn of the user's")
			}
			return told("call of tool ", p.Call.Name, p.Call.Args), true
		}
		if wire := g.names.wire(p.Call.Name); wire != p.Call.Name {
			call := *p.Call
			call.Name = wire
			p.Call = &call
		}
	case perigee.PartResponse:
		if tell || model {
			if !tell {
				g.notes.add(perigee.NoteRepaired, "tool result in a turn of the model's")
			}
			return toldResult(p.Response), true
		}
		if wire := g.names.wire(p.Response.Name); wire != p.Response.Name || p.Response.Response == nil && p.Response.Output == nil {
			response := *p.Response
			response.Name = wire
			if response.Response == nil && response.Output == nil {
				response.Response = json.RawMessage(`{}`)
			}
			p.Response = &response
		}
	}
	return p, true
}

// empty says whether a part carries nothing: the provider refuses some of these and ignores the others. To Claude white
// space is nothing, too.
func (g *gemini) empty(p perigee.Part) bool {
	switch p.Kind {
	case perigee.PartText:
		if g.claude() && !p.Thought {
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
