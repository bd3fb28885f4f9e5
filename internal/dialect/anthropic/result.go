package anthropic

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A result is the result of a tool and the call that it belongs to.
type result struct {
	match    dialect.Match
	response *perigee.FunctionResponse
	cache    *perigee.CacheMark
}

// toolResult adds the answer of a tool: {"output": text}, or {"error": text}, with the media that
// came with it.
func (d *decoder) toolResult(m *message, b *block) {
	match := d.turns.Take([]byte(b.answers), "")
	response := &perigee.FunctionResponse{ID: b.answers, Name: b.answers}
	if match.Call != nil {
		response.Name = match.Call.Name
	}
	text := b.content
	if len(text) == 0 || text[0] != '"' { // a string is a string: no need to look inside
		joined := rawjson.NewLineJoiner(len(b.content))
		d.inside(b.content, "content", func(c *rawjson.Cursor) { response.Media = d.plainBlocks(c, nil, joined.Add) })
		text = joined.JSON()
	}
	if b.failed {
		w := rawjson.Writer{Buf: make([]byte, 0, len(text)+16)}
		response.Response = w.Object().Key("error").Raw(text).EndObject().Buf
	} else {
		response.Output = text
	}
	m.results = append(m.results, result{match, response, b.cache})
}

// plain reads content as text and the media in it: a string, or a list of blocks with texts that
// are joined with newlines.
func (d *decoder) plain(c *rawjson.Cursor, media []perigee.Part) (string, []perigee.Part) {
	if c.Kind() == rawjson.String {
		return c.String(), media
	}
	var text rawjson.Text
	first := true
	media = d.plainBlocks(c, media, func(s string, escaped bool) {
		if !first {
			text.Add("\n")
		}
		first = false
		text.Add(rawjson.Unescaped(s, escaped))
	})
	return text.String(), media
}

// plainBlocks reads a list of blocks, and passes each text to add.
func (d *decoder) plainBlocks(c *rawjson.Cursor, media []perigee.Part, add func(text string, escaped bool)) []perigee.Part {
	for range c.Array() {
		if d.err != nil {
			break
		}
		media = d.plainBlock(c, media, add)
	}
	return media
}

func (d *decoder) plainBlock(c *rawjson.Cursor, media []perigee.Part, add func(text string, escaped bool)) []perigee.Part {
	raw := c.Raw()
	var b block
	d.inside(raw, "content[]", func(c *rawjson.Cursor) { d.readBlock(c, &b) })
	if d.err != nil {
		return media
	}
	switch string(b.kind) {
	case "text":
		add(b.text.Form())
	case "image":
		media = d.media(media, b.source, "content[].source", "image/jpeg")
	case "document":
		for _, p := range d.document(nil, &b) {
			if p.Kind == perigee.PartText {
				add(p.Text.Form())
			} else {
				media = append(media, p)
			}
		}
	case "search_result":
		add(d.searchResult(&b), false)
	case "tool_reference":
		add("Tool found: "+b.name, false)
	default:
		d.notes.Mapped(fieldName(b.kind) + " blocks")
		add(string(raw), false)
	}
	return media
}
