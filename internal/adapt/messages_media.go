package adapt

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee"
)

// imageTypes are the types of images that the Messages API reads.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

const pdf = "application/pdf"

// medium keeps images and documents that the API reads, makes texts of text files, and leaves a text
// in place of anything else. Turns of the model have no media.
func (a *messagesAdapter) medium(p *perigee.Part, model bool) bool {
	mime, _, ok := mediaOf(p)
	if !ok {
		return false
	}
	unread := func(note, text string) bool {
		a.notes.Dropped("data of type " + clip(mime) + note)
		*p = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain("[data of type " + mime + text + "]")}
		return true
	}
	if model { // another model has generated it
		return unread(" in a turn of the model's", "")
	}
	a.noteDetail(p)
	readable := slices.Contains(imageTypes, mime) || mime == pdf
	if p.Kind == perigee.PartFile {
		if !readable || !strings.HasPrefix(strings.ToLower(p.File.URI), "https://") {
			return unread(" at an address that the provider does not read", " at "+p.File.URI)
		}
		return true
	}
	switch {
	case mime == "image/jpg":
		p.Blob = &perigee.Blob{MIME: "image/jpeg", Data: p.Blob.Data}
	case readable:
	case strings.HasPrefix(mime, "text/") || mime == jsonMIME:
		text, err := base64.StdEncoding.DecodeString(p.Blob.Data)
		if err != nil || !utf8.Valid(text) || strings.TrimSpace(string(text)) == "" {
			return unread("", ", which cannot be read")
		}
		*p = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(string(text)), Cache: p.Cache}
	default:
		return unread("", ", which this model cannot read")
	}
	return true
}

// noteDetail notes the resolution that a client asks for, which this API has no member for.
func (a *messagesAdapter) noteDetail(p *perigee.Part) {
	var detail perigee.Detail
	if p.Kind == perigee.PartBlob {
		detail = p.Blob.Detail
	} else {
		detail = p.File.Detail
	}
	if detail != "" && detail != "auto" {
		a.notes.Dropped(optionName(a.prompt.Dialect, "image detail"))
	}
}
