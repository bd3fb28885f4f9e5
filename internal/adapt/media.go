package adapt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
)

// media completes data and references to files for the gateway, and leaves a text where the model
// cannot read them.
func (a *adapter) media(p *perigee.Part, model bool) bool {
	mime, extra, ok := mediaOf(p)
	if !ok || !a.gateway {
		return ok
	}
	unread := func(note, text string) bool {
		a.notes.Dropped("data of type " + clip(mime) + note)
		*p = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain("[data of type " + mime + text + "]")}
		return true
	}
	switch {
	case !a.reads(mime):
		return unread("", ", which this model cannot read")
	case model && a.claude():
		// Another model has generated it: Claude generates no images, and its turns may not have
		// any.
		return unread(" in a turn of the model's", "")
	}
	kept := a.supported(extra, "inlineData.", mediaMembers)
	if p.Kind == perigee.PartFile {
		if len(kept) != len(extra) {
			p.File = &perigee.File{MIME: mime, URI: p.File.URI, Extra: kept}
		}
		return true
	}
	// The gateway ignores data without a type, and does not decode data URLs.
	data := p.Blob.Data
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
	if mime != p.Blob.MIME || len(data) != len(p.Blob.Data) || len(kept) != len(extra) {
		p.Blob = &perigee.Blob{MIME: mime, Data: data, Extra: kept}
	}
	return true
}

// mediaOf returns the type of the data in a part, or that it refers to; ok is false where there is
// none.
func mediaOf(p *perigee.Part) (mime string, extra perigee.Fields, ok bool) {
	switch {
	case p.Kind == perigee.PartBlob && p.Blob != nil:
		return p.Blob.MIME, p.Blob.Extra, true
	case p.Kind == perigee.PartFile && p.File != nil:
		return p.File.MIME, p.File.Extra, true
	}
	return "", nil, false
}

// RefuseAddresses returns an error for the first image or document of a prompt that is an address, for
// a provider that fetches none. Turns of the model have no media there.
func RefuseAddresses(p *perigee.Prompt) error {
	for i := range p.Contents {
		if p.Contents[i].Role == perigee.RoleModel {
			continue
		}
		if err := refuseAddresses(p.Dialect, p.Contents[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

func refuseAddresses(d perigee.Dialect, parts []perigee.Part) error {
	for i := range parts {
		p := &parts[i]
		if p.Response != nil {
			if err := refuseAddresses(d, p.Response.Media); err != nil {
				return err
			}
		}
		if p.Kind == perigee.PartFile && p.File != nil && !strings.HasPrefix(p.File.MIME, "audio/") && !strings.HasPrefix(p.File.MIME, "video/") {
			return atAddress(d, p)
		}
	}
	return nil
}

// atAddress returns the error of a provider that does not fetch a file. perigee fetches none for
// Gemini clients.
func atAddress(d perigee.Dialect, p *perigee.Part) error {
	hint := "send the data itself, or let perigee fetch it with media.fetch: true"
	if d == "" || d == perigee.DialectGemini {
		hint = "send the data itself"
	}
	return perigee.Errorf(perigee.ClassInvalid, "the provider does not fetch files, as the one at %s", clip(p.File.URI)).WithHint("%s", hint)
}

// reads reports whether the gateway's model can read data of a type. Google's own models decide
// that themselves.
func (a *adapter) reads(mime string) bool {
	switch {
	case a.native():
		return true
	case a.claude():
		return mime == "" || strings.HasPrefix(mime, "image/") || strings.HasPrefix(mime, "text/") || mime == "application/pdf"
	}
	return slices.Contains(a.spec.In, "image")
}

// attach moves the media of results to where the provider reads them. Parts that inside accepts
// stay in their result if insideResults is true; the other ones follow the results of the content,
// and the result names them. parts is not changed.
func (a *adapter) attach(parts []perigee.Part, insideResults bool) []perigee.Part {
	if !slices.ContainsFunc(parts, func(p perigee.Part) bool { return p.Response != nil && len(p.Response.Media) > 0 }) {
		return parts
	}
	inside := func(p perigee.Part) bool { return insideResults && a.inside(&p) }
	outside := func(p perigee.Part) bool { return !inside(p) }
	var moved []perigee.Part
	at, last := 0, 0 // last is behind the last result
	parts = perigee.EditParts(parts, func(p *perigee.Part) bool {
		at++
		if p.Response == nil {
			return true
		}
		last = at
		if slices.ContainsFunc(p.Response.Media, outside) {
			r := *p.Response
			move := without(r.Media, inside)
			r.Response, r.Output, r.Media = withAttachments(r.Object(), move, len(moved)), nil, without(r.Media, outside)
			p.Response = &r
			moved = append(moved, move...)
		}
		return true
	})
	return slices.Insert(parts, last, moved...)
}

// withAttachments adds to a result which of the media behind the results belong to it, by their
// numbers there.
func withAttachments(response json.RawMessage, media []perigee.Part, before int) json.RawMessage {
	const member = `"attachments"`
	open, ok := bytes.CutSuffix(bytes.TrimSpace(response), []byte("}"))
	if len(response) == 0 {
		open, ok = []byte("{"), true
	}
	if !ok || bytes.Contains(response, []byte(member)) {
		return response // it is not an object, or has such a member of its own
	}
	w := rawjson.Writer{Buf: append(make([]byte, 0, len(response)+48*len(media)), bytes.TrimSpace(open)...)}
	if len(w.Buf) > len("{") {
		w.Lit(",")
	}
	w.Lit(member + ":").Array()
	for i := range media {
		mime, _, _ := mediaOf(&media[i])
		w.String("attachment " + strconv.Itoa(before+i+1) + ": " + mime)
	}
	return w.EndArray().EndObject().Buf
}

// inside reports whether a part may be inside a result: images for Claude behind the gateway, and
// for Google's models of generation 3 the types that they read there. The official API accepts no
// other members next to the data.
func (a *adapter) inside(p *perigee.Part) bool {
	switch {
	case p.Kind != perigee.PartBlob || p.Blob == nil:
		return false
	case !a.gateway && len(p.Extra)+len(p.Blob.Extra) > 0, a.gateway && p.Extra.Get("videoMetadata") != nil:
		return false
	case a.gateway && a.claude():
		return strings.HasPrefix(p.Blob.MIME, "image/")
	case a.spec.Family != models.Gemini:
		return false
	}
	switch p.Blob.MIME {
	case "image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain":
		return true
	}
	return false
}
