package anthropic

import (
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// history appends, as text, a block about an action of Anthropic's own servers: searches, fetched
// pages, executed code, a summary of compacted turns.
func (d *decoder) history(parts []perigee.Part, b *block) []perigee.Part {
	kind := string(b.kind)
	isServerTool := strings.HasSuffix(kind, "tool_use") || strings.HasSuffix(kind, "tool_result") || kind == "compaction"
	if !isServerTool {
		if d.unknown == nil {
			d.unknown = invalid(d.at.field("type") + ": there are no blocks of type " + strconv.Quote(fieldName(b.kind)) + " here").
				WithHint("send text, image, document, search_result, tool_use or tool_result blocks")
		}
		d.notes.Dropped(fieldName(b.kind) + " blocks")
		return parts
	}
	d.notes.Mapped(fieldName(b.kind) + " blocks")
	title := "Result of " + strings.ReplaceAll(strings.TrimSuffix(kind, "_tool_result"), "_", " ") + ":"
	raw := b.content
	switch {
	case kind == "compaction":
		title = "Summary of the conversation so far:"
	case strings.HasSuffix(kind, "tool_use"):
		title, raw = "Used "+strings.ReplaceAll(b.name, "_", " ")+":", b.input
	}
	text := []byte(title)
	d.inside(raw, "content", func(c *rawjson.Cursor) { text = appendValues(text, c, "") })
	return appendText(parts, perigee.Plain(string(text)))
}

// appendValues appends the strings and numbers of a value, line by line, each with the name of its
// member.
func appendValues(dst []byte, c *rawjson.Cursor, name string) []byte {
	switch c.Kind() {
	case rawjson.Object:
		for key := range c.Object() {
			switch string(key) {
			case "type", "id", "tool_use_id", "cache_control", "data", "file_id", "media_type", "encrypted_content", "encrypted_stdout":
				// The model does not need them.
			case "source":
				dst = appendSource(dst, c)
			default:
				dst = appendValues(dst, c, string(key))
			}
		}
	case rawjson.Array:
		for range c.Array() {
			dst = appendValues(dst, c, name)
		}
	case rawjson.String:
		if s := c.String(); s != "" {
			dst = append(appendName(dst, name), s...)
		}
	case rawjson.Number, rawjson.Bool:
		dst = append(appendName(dst, name), c.Raw()...)
	default:
		c.Skip()
	}
	return dst
}

// appendSource appends the text of a document, or the MIME type of other data.
func appendSource(dst []byte, c *rawjson.Cursor) []byte {
	if c.Kind() != rawjson.Object {
		return appendValues(dst, c, "source")
	}
	var kind, mime, data string
	c.Read(nil, "type", &kind, "media_type", &mime, "data", &data,
		"url", func() { dst = appendValues(dst, c, "url") }, "content", func() { dst = appendValues(dst, c, "content") })
	switch {
	case kind == "text":
		dst = append(append(dst, '\n'), data...)
	case mime != "":
		dst = append(appendName(dst, "document"), mime...)
	}
	return dst
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, '\n')
	if name == "" || name == "text" || name == "content" {
		return dst // the value needs no name
	}
	return append(append(dst, name...), ": "...)
}
