package prepare

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/rawjson"
)

// attach puts the media of results where the provider takes them. What may stand inside a result stays there; the rest
// follows the results of its content, and the result names it. The parts given stay as they are.
func attach(parts []perigee.Part, inside func(*perigee.Part) bool) []perigee.Part {
	media := 0
	for i := range parts {
		if r := parts[i].Response; r != nil {
			media += len(r.Media)
		}
	}
	if media == 0 {
		return parts
	}
	return attachMedia(parts, inside)
}

func attachMedia(parts []perigee.Part, inside func(*perigee.Part) bool) []perigee.Part {
	outside := func(p perigee.Part) bool { return !inside(&p) }
	stays := func(p perigee.Part) bool {
		return p.Response == nil || !slices.ContainsFunc(p.Response.Media, outside)
	}
	if !slices.ContainsFunc(parts, func(p perigee.Part) bool { return !stays(p) }) {
		return parts
	}
	parts = slices.Clone(parts)
	var media []perigee.Part
	last := 0 // behind the last result
	for i := range parts {
		if parts[i].Response == nil {
			continue
		}
		last = i + 1
		if stays(parts[i]) {
			continue
		}
		r := *parts[i].Response
		moved := without(r.Media, func(p perigee.Part) bool { return !outside(p) })
		r.Response, r.Output = named(r.Object(), moved, len(media)), nil
		r.Media = without(r.Media, outside)
		parts[i].Response = &r
		media = append(media, moved...)
	}
	return slices.Insert(parts, last, media...)
}

// named adds to a result what belongs to it of the media behind the results, by their numbers there.
func named(response json.RawMessage, media []perigee.Part, before int) json.RawMessage {
	const member = `"attachments"`
	open, ok := bytes.CutSuffix(bytes.TrimSpace(response), []byte("}"))
	if len(response) == 0 {
		open, ok = []byte("{"), true
	}
	if !ok || bytes.Contains(response, []byte(member)) {
		return response // it is no object, or has such a member of its own
	}
	out := append(make([]byte, 0, len(response)+48*len(media)), bytes.TrimSpace(open)...)
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, member+`:[`...)
	for i := range media {
		if i > 0 {
			out = append(out, ',')
		}
		mime := ""
		switch part := &media[i]; {
		case part.Blob != nil:
			mime = part.Blob.MIME
		case part.File != nil:
			mime = part.File.MIME
		}
		out = rawjson.AppendString(out, "attachment "+strconv.Itoa(before+i+1)+": "+mime)
	}
	return append(out, "]}"...)
}

// nowhere is for providers that take no media inside results.
func nowhere(*perigee.Part) bool { return false }

// inside says whether the gateway takes a part inside a result: pictures for Claude, and what the official API takes for its
// own models of generation 3.
func (g *gateway) inside(p *perigee.Part) bool {
	if p.Kind != perigee.PartBlob || p.Blob == nil || p.Extra.Get("videoMetadata") != nil {
		return false
	}
	if g.claude() {
		return strings.HasPrefix(p.Blob.MIME, "image/")
	}
	return responseMedia(g.spec.Family, p.Blob.MIME)
}

// insideParts returns the media that stay inside a result as the gateway takes them.
func (g *gateway) insideParts(media []perigee.Part) []perigee.Part {
	if len(media) == 0 {
		return nil
	}
	out := make([]perigee.Part, 0, len(media))
	for i := range media {
		if part := g.part(&media[i], false, false); part != nil {
			out = append(out, perigee.Part{Kind: part.Kind, Blob: part.Blob})
		}
	}
	return out
}

// inside says whether the official API takes a part inside a result. There it has room for nothing but the data.
func (g *gemini) inside(p *perigee.Part) bool {
	return p.Kind == perigee.PartBlob && p.Blob != nil && len(p.Extra) == 0 && len(p.Blob.Extra) == 0 && responseMedia(g.spec.Family, p.Blob.MIME)
}

// responseMedia says whether models of a family read media of a type inside results: those of generation 3 do, since they
// came with it.
func responseMedia(family models.Family, mime string) bool {
	if family != models.Gemini {
		return false
	}
	switch mime {
	case "image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain":
		return true
	}
	return false
}
