package prepare

import (
	"slices"
	"strings"

	"perigee"
)

// part returns a part as the gateway takes it: p itself where nothing had to change, nil where nothing is left of it.
// Calls and results become texts where tell says so.
func (g *gateway) part(p *perigee.Part, model, tell bool) *perigee.Part {
	if p.Thought && !g.mayStay(p, model) {
		return nil
	}
	next := p
	change := func() *perigee.Part {
		if next == p {
			c := *p
			next = &c
		}
		return next
	}
	if signature := g.seal(p, model); signature != p.Signature {
		change().Signature = signature
	}
	members := partMembers
	if p.Kind == perigee.PartOther {
		members = otherMembers
	}
	if extra := g.known(p.Extra, "parts[].", members); len(extra) != len(p.Extra) || len(extra) > 0 && &extra[0] != &p.Extra[0] {
		change().Extra = extra
	}
	switch p.Kind {
	case perigee.PartText:
		return g.text(next)
	case perigee.PartBlob, perigee.PartFile:
		return g.media(next, model)
	case perigee.PartCall:
		return g.call(next, model, tell)
	case perigee.PartResponse:
		return g.response(next, model, tell)
	}
	return g.other(next)
}

// mayStay says whether a thought can mean anything to the model. Whether Claude gets it is decided when its place in
// the turn is known.
func (g *gateway) mayStay(p *perigee.Part, model bool) bool {
	switch {
	case !model || g.thoughtless():
		return false
	case g.claude():
		return p.Kind == perigee.PartText
	}
	return g.native() && p.Signature != "" && !isSentinel(p.Signature) && !isClaudes(p.Signature)
}

// seal returns the signature that a part keeps: what the model sealed, and for Google's own calls what stands in for it.
func (g *gateway) seal(p *perigee.Part, model bool) string {
	switch {
	case p.Signature == "" || !model || g.repairs(RepairSignatures):
		return ""
	case g.claude():
		if p.Kind != perigee.PartText && p.Kind != perigee.PartOther || isSentinel(p.Signature) || !p.Thought && p.Text != "" {
			return ""
		}
		return claudeSeal(p.Signature)
	case !g.native() || isClaudes(p.Signature) || isSentinel(p.Signature) && p.Kind != perigee.PartCall:
		return ""
	}
	return p.Signature
}

// text drops what says nothing. To Claude white space is nothing, too; a seal by itself belongs to the thought before it.
func (g *gateway) text(p *perigee.Part) *perigee.Part {
	switch {
	case p.Thought:
		return p
	case g.claude() && p.Signature != "": // and no text: seal has seen to that
		return &perigee.Part{Kind: perigee.PartText, Thought: true, Signature: p.Signature}
	case p.Text == "" && p.Signature == "", !g.native() && strings.TrimSpace(p.Text) == "":
		return nil
	}
	return p
}

// other keeps the provider's own kinds of parts for its own models, and tells the others what they say.
func (g *gateway) other(p *perigee.Part) *perigee.Part {
	data := slices.IndexFunc(p.Extra, func(f perigee.Field) bool { return f.Name != "videoMetadata" })
	switch {
	case data < 0 && p.Signature != "":
		return g.text(&perigee.Part{Kind: perigee.PartText, Thought: p.Thought, Signature: p.Signature})
	case data < 0:
		return nil
	case !g.native():
		part := told("", p.Extra[data].Name, p.Extra[data].Value)
		return &part
	case len(p.Extra) > 1: // only one kind of data can be in a part
		c := *p
		c.Extra = perigee.Fields{p.Extra[data]}
		return &c
	}
	return p
}

// call makes a call the model's own: with a name that it knows, and an object for its arguments.
func (g *gateway) call(p *perigee.Part, model, tell bool) *perigee.Part {
	if p.Call == nil {
		return nil
	}
	if tell || !model {
		if !tell {
			g.notes.add(perigee.NoteRepaired, "tool call in a turn of the user's")
		}
		part := told("call of tool ", p.Call.Name, p.Call.Args)
		return &part
	}
	args := p.Call.Args
	if args == nil && !g.native() || args != nil && !isObject(args) {
		args = object(args, "input")
	}
	name := g.names.wire(p.Call.Name)
	if name == p.Call.Name && len(args) == len(p.Call.Args) && len(p.Call.Extra) == 0 {
		return p
	}
	g.known(p.Call.Extra, "functionCall.", nil)
	part := *p
	part.Call = &perigee.FunctionCall{ID: p.Call.ID, Name: name, Args: args}
	return &part
}

// response makes a result one of the user's, in the same way.
func (g *gateway) response(p *perigee.Part, model, tell bool) *perigee.Part {
	if p.Response == nil {
		return nil
	}
	if tell || model {
		if !tell {
			g.notes.add(perigee.NoteRepaired, "tool result in a turn of the model's")
		}
		part := told("result of tool ", p.Response.Name, p.Response.Object())
		return &part
	}
	result := p.Response.Response
	if p.Response.Output == nil && !isObject(result) {
		result = object(result, "result")
	}
	extra := g.known(p.Response.Extra, "functionResponse.", responseMembers)
	name := g.names.wire(p.Response.Name)
	if name == p.Response.Name && len(result) == len(p.Response.Response) && len(extra) == len(p.Response.Extra) && len(p.Response.Media) == 0 {
		return p
	}
	part := *p
	part.Response = &perigee.FunctionResponse{ID: p.Response.ID, Name: name, Response: result, Output: p.Response.Output, Media: g.insideParts(p.Response.Media), Extra: extra}
	return &part
}

func (g *gateway) takesMedia() bool { return slices.Contains(g.spec.In, "image") }

// media completes data and pointers to it, and leaves a word where the model cannot take them.
func (g *gateway) media(p *perigee.Part, model bool) *perigee.Part {
	var mime, data string
	var extra perigee.Fields
	switch {
	case p.Kind == perigee.PartBlob && p.Blob != nil:
		mime, data, extra = p.Blob.MIME, p.Blob.Data, p.Blob.Extra
	case p.Kind == perigee.PartFile && p.File != nil:
		mime, extra = p.File.MIME, p.File.Extra
	default:
		return nil
	}
	switch {
	case !g.takes(mime):
		g.notes.add(perigee.NoteDropped, "data of type "+clip(mime))
		return &perigee.Part{Kind: perigee.PartText, Text: "[data of type " + mime + ", which this model cannot read]"}
	case model && g.claude():
		// Another model has drawn it: Claude does not, and has no place for pictures in what it says.
		g.notes.add(perigee.NoteDropped, "data of type "+clip(mime)+" in a turn of the model's")
		return &perigee.Part{Kind: perigee.PartText, Text: "[data of type " + mime + "]"}
	}
	kept := g.known(extra, "inlineData.", mediaMembers)
	if p.Kind == perigee.PartFile {
		if len(kept) == len(extra) {
			return p
		}
		c := *p
		c.File = &perigee.File{MIME: mime, URI: p.File.URI, Extra: kept}
		return &c
	}
	// Data without a type is passed over in silence, and data with an address before it is none.
	if rest, ok := strings.CutPrefix(data, "data:"); ok {
		if head, body, found := strings.Cut(rest, ","); found {
			data = body
			if mime == "" {
				mime, _, _ = strings.Cut(head, ";")
			}
		}
	}
	if mime == "" {
		mime = "image/png"
	}
	if mime == p.Blob.MIME && len(data) == len(p.Blob.Data) && len(kept) == len(extra) {
		return p
	}
	c := *p
	c.Blob = &perigee.Blob{MIME: mime, Data: data, Extra: kept}
	return &c
}

// takes says whether the model can read data of a type. Google's own models take what they take.
func (g *gateway) takes(mime string) bool {
	switch {
	case g.native():
		return true
	case g.claude():
		return mime == "" || strings.HasPrefix(mime, "image/") || strings.HasPrefix(mime, "text/") || mime == "application/pdf"
	}
	return g.takesMedia()
}
