package anthropic

import (
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// A result is what a tool answered, and the place of the call that it answers.
type result struct {
	order int
	part  perigee.Part
}

// toolResult adds the answer of a tool: {"output": text}, or {"error": text}. Images cannot stand inside for
// every model, so they follow after all results of the turn, and the result says which are its own.
func (d *decoder) toolResult(m *message, b *block) {
	order, name := d.calls.find(b.answers)
	before := len(d.turn.media) + len(m.media)
	response := make([]byte, 0, len(b.content)+len(`{"output":""}`))
	if b.failed {
		response = append(response, `{"error":`...)
	} else {
		response = append(response, `{"output":`...)
	}
	if len(b.content) > 0 && b.content[0] == '"' {
		response = append(response, b.content...) // a string is a string: no need to look inside
	} else {
		var text string
		d.inside(b.content, "content", func(c *rawjson.Cursor) { text, m.media = d.plain(c, m.media) })
		response = rawjson.AppendString(response, text)
	}
	if after := len(d.turn.media) + len(m.media); after > before {
		response = appendAttachments(response, m.media[len(m.media)-(after-before):], before)
	}
	response = append(response, '}')
	m.results = append(m.results, result{order: order, part: perigee.Part{
		Kind:     perigee.PartResponse,
		Response: &perigee.FunctionResponse{ID: b.answers, Name: name, Response: response},
	}})
}

// appendAttachments names the media that belong to a result, by their place behind the results.
func appendAttachments(dst []byte, media []perigee.Part, before int) []byte {
	dst = append(dst, `,"attachments":[`...)
	for i := range media {
		if i > 0 {
			dst = append(dst, ',')
		}
		mime := ""
		switch {
		case media[i].Blob != nil:
			mime = media[i].Blob.MIME
		case media[i].File != nil:
			mime = media[i].File.MIME
		}
		dst = rawjson.AppendString(dst, "attachment "+strconv.Itoa(before+i+1)+": "+mime)
	}
	return append(dst, ']')
}

// plain reads content as text and the media in it: a string, or a list of blocks, whose texts are joined with
// line ends.
func (d *decoder) plain(c *rawjson.Cursor, media []perigee.Part) (string, []perigee.Part) {
	if c.Kind() == rawjson.String {
		return c.String(), media
	}
	var text []byte
	only := "" // most often there is one block, whose text needs no copy
	n := 0
	say := func(s string) {
		if n++; n == 1 {
			only = s
			return
		}
		if n == 2 {
			text = append(text, only...)
		}
		text = append(append(text, '\n'), s...)
	}
	for range c.Array() {
		if d.err != nil {
			break
		}
		media = d.plainBlock(c, media, say)
	}
	if n < 2 {
		return only, media
	}
	return string(text), media
}

func (d *decoder) plainBlock(c *rawjson.Cursor, media []perigee.Part, say func(string)) []perigee.Part {
	raw := c.Raw()
	var b block
	d.inside(raw, "content[]", func(c *rawjson.Cursor) { d.readBlock(c, &b) })
	if d.err != nil {
		return media
	}
	switch string(b.kind) {
	case "text":
		say(b.text)
	case "image":
		media = d.media(media, b.source, "content[].source", "image/jpeg")
	case "document":
		for _, p := range d.document(nil, &b) {
			if p.Kind == perigee.PartText {
				say(p.Text)
			} else {
				media = append(media, p)
			}
		}
	case "search_result":
		say(d.searchResult(&b))
	case "tool_reference":
		say("Tool found: " + b.name)
	default:
		d.notes.add(perigee.NoteMapped, fieldName(b.kind)+" blocks")
		say(string(raw))
	}
	return media
}
