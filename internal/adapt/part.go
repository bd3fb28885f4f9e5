package adapt

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
)

// part adapts a part and reports whether it stays. The values that it points to are replaced, not
// changed. If asText is true, calls and results become texts.
func (a *adapter) part(p *perigee.Part, model, asText bool) bool {
	if p.Kind == perigee.PartRedacted { // which only its provider can read
		a.notes.Dropped("redacted_thinking blocks")
		return false
	}
	if a.gateway && p.Thought && !a.acceptsThought(p, model) {
		return false
	}
	p.Signature = a.signature(p, model)
	members := partMembers
	if p.Kind == perigee.PartOther {
		members = otherMembers
	}
	p.Extra = a.supported(p.Extra, "parts[].", members)
	switch p.Kind {
	case perigee.PartText:
		return a.text(p)
	case perigee.PartBlob, perigee.PartFile:
		return a.media(p, model)
	case perigee.PartCall:
		return a.call(p, model, asText)
	case perigee.PartResponse:
		return a.response(p, model, asText)
	}
	return a.other(p)
}

// acceptsThought reports whether the gateway's model can use a thought. Whether Claude gets it is
// decided when its place in the turn is known.
func (a *adapter) acceptsThought(p *perigee.Part, model bool) bool {
	switch {
	case !model || a.repairs(RepairThinkingOrder|RepairSignatures|RepairThinkingOff):
		return false
	case a.claude():
		return p.Kind == perigee.PartText
	}
	return a.native() && p.Signature != "" && !models.IsSentinel(p.Signature) && !isClaudes(p.Signature)
}

// text drops empty texts. To Claude white space is empty, too; a thought signature without a text
// belongs to the thought before it. A thought without a signature is of no use to the model.
func (a *adapter) text(p *perigee.Part) bool {
	switch {
	case p.Thought:
		return a.gateway || p.Signature != "" // acceptsThought has checked those for the gateway
	case a.gateway && a.claude() && p.Signature != "": // and no text: signature has checked that
		*p = perigee.Part{Kind: perigee.PartText, Thought: true, Signature: p.Signature}
		return true
	case a.claude() || a.gateway && !a.native():
		return !rawjson.IsBlank(p.Text.Form())
	}
	return !p.Text.Empty() || p.Signature != "" || !a.gateway && len(p.Extra) > 0
}

// other keeps the provider's own kinds of parts for its own models, and makes texts of them for
// other models.
func (a *adapter) other(p *perigee.Part) bool {
	if !a.gateway {
		return len(p.Extra) > 0
	}
	data := slices.IndexFunc(p.Extra, func(f perigee.Field) bool { return f.Name != "videoMetadata" })
	switch {
	case data < 0 && p.Signature != "":
		*p = perigee.Part{Kind: perigee.PartText, Thought: p.Thought, Signature: p.Signature}
		return a.text(p)
	case data < 0:
		return false
	case !a.native():
		*p = textOf("", p.Extra[data].Name, p.Extra[data].Value)
	case len(p.Extra) > 1: // only one kind of data can be in a part
		p.Extra = perigee.Fields{p.Extra[data]}
	}
	return true
}

// call gives a call of the model the name that is declared to the provider and, for the gateway, an
// object for its arguments.
func (a *adapter) call(p *perigee.Part, model, asText bool) bool {
	if p.Call == nil {
		return false
	}
	if asText || !model {
		if !asText {
			a.notes.Repaired("tool call in a turn of the user's")
		}
		*p = textOf("call of tool ", p.Call.Name, p.Call.Args)
		return true
	}
	name, args := a.names.Wire(p.Call.Name), p.Call.Args
	if a.gateway && (args == nil && !a.native() || args != nil && !isObject(args)) {
		args = object(args, "input")
	}
	extra := a.supported(p.Call.Extra, "functionCall.", nil)
	if name != p.Call.Name || len(args) != len(p.Call.Args) || len(extra) != len(p.Call.Extra) {
		p.Call = &perigee.FunctionCall{ID: p.Call.ID, Name: name, Args: args, Extra: extra}
	}
	return true
}

// response does the same for a result in a turn of the user.
func (a *adapter) response(p *perigee.Part, model, asText bool) bool {
	r := p.Response
	if r == nil {
		return false
	}
	if asText || model {
		if !asText {
			a.notes.Repaired("tool result in a turn of the model's")
		}
		*p = textOfResult(r)
		return true
	}
	result := r.Response
	switch {
	case r.Output != nil:
	case result == nil:
		result = emptyObject
	case a.gateway && !isObject(result):
		result = object(result, "result")
	}
	name, extra := a.names.Wire(r.Name), a.supported(r.Extra, "functionResponse.", responseMembers)
	if name == r.Name && len(result) == len(r.Response) && len(extra) == len(r.Extra) && len(r.Media) == 0 {
		return true
	}
	next := &perigee.FunctionResponse{ID: r.ID, Name: name, Response: result, Output: r.Output, Media: r.Media, Extra: extra}
	if a.gateway {
		next.Media = perigee.EditParts(r.Media, func(p *perigee.Part) bool {
			keep := a.part(p, false, false)
			*p = perigee.Part{Kind: p.Kind, Blob: p.Blob} // attach has left nothing but data inside
			return keep
		})
	}
	p.Response = next
	return true
}

// textOf returns a call, or data of the provider, as a text.
func textOf(what, name string, data json.RawMessage) perigee.Part {
	return perigee.Part{Kind: perigee.PartText, Text: perigee.Plain("[" + what + name + "] " + string(data))}
}

// textOfResult returns a result as a text.
func textOfResult(r *perigee.FunctionResponse) perigee.Part {
	if r.Output == nil {
		return textOf("result of tool ", r.Name, r.Response)
	}
	// Object would make one more copy.
	return perigee.Part{Kind: perigee.PartText, Text: perigee.Plain("[result of tool " + r.Name + `] {"output":` + string(r.Output) + "}")}
}
