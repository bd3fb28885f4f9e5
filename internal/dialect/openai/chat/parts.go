package chat

import (
	"fmt"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// content reads the content of the i-th message: a text, or a list of parts.
func (d *decoder) content(i int, m *message) {
	switch d.c.Kind() {
	case rawjson.String:
		m.quoted = d.c.Raw()
	case rawjson.Array:
		for j := range d.c.Array() {
			m.parts = d.part(rawjson.Reserve(d.c, m.parts), func() string { return place(i, "content", j) })
		}
	default:
		d.c.Bytes() // a type error
	}
}

func place(message int, list string, part int) string {
	return fmt.Sprintf("messages[%d].%s[%d]", message, list, part)
}

// A part is one part while it is read. Its type may come last.
type part struct {
	kind     string
	text     string // escaped, and so is the refusal
	thinking string
	refusal  string
	url      string // may alias the body, and so may data
	data     string
	format   string
	filename string
	fileID   string
	detail   perigee.Detail
	cache    *perigee.CacheMark
}

// part appends the next part to parts. Empty texts are skipped, because some models refuse them.
func (d *decoder) part(parts []perigee.Part, where func() string) []perigee.Part {
	if d.c.Kind() == rawjson.String { // a list of texts, which the API does not document
		if text := d.c.Inside(); text != "" {
			parts = append(parts, perigee.Part{Text: perigee.Escaped(text)})
		}
		return parts
	}
	var p part
	for key := range d.c.Object() {
		if d.c.Kind() != rawjson.Null {
			d.partField(key, &p)
		}
	}
	if d.c.Err() != nil {
		return parts
	}
	switch p.kind {
	case "text", "refusal":
		if p.refusal != "" {
			d.notes.Mapped("messages[].content[].refusal")
			p.text = p.refusal
		}
		if p.text == "" {
			return parts
		}
		return append(parts, perigee.Part{Text: perigee.Escaped(p.text), Cache: p.cache})
	case "thinking": // an answer of Mistral's
		if p.thinking == "" {
			return parts
		}
		return append(parts, perigee.Part{Text: perigee.Plain(p.thinking), Thought: true})
	case "image_url", "video_url", "input_audio", "file":
		part, err := d.medium(&p)
		if err != nil {
			d.refuse(where()+"."+p.kind, "%v", err)
			return parts
		}
		openai.SetDetail(&part, p.detail)
		part.Cache = p.cache
		return append(parts, part)
	}
	d.refuse(where()+".type", "want text, image_url, input_audio, file or refusal, found %q", openai.Brief(p.kind))
	return parts
}

func (d *decoder) partField(key []byte, p *part) {
	switch string(key) {
	case "type":
		p.kind = string(d.c.Bytes())
	case "text":
		p.text = d.c.Inside()
	case "refusal":
		p.refusal = d.c.Inside()
	case "image_url", "video_url":
		d.mediaField(string(key), p)
	case "input_audio":
		d.c.Read(d.notes.Rest("messages[].content[].input_audio."), "data", func() { p.data = d.c.Alias() }, "format", &p.format)
	case "file":
		d.c.Read(d.notes.Rest("messages[].content[].file."), "file_data", func() { p.data = d.c.Alias() }, "filename", &p.filename, "file_id", &p.fileID)
	case "cache_control":
		p.cache = dialect.ReadCacheMark(d.c)
	case "thinking":
		p.thinking = readThinking(d.c)
	case "closed": // whether the thinking is whole
	case "index": // of images in an answer that came from here
	default:
		d.notes.Unknown("messages[].content[].", key)
	}
}

// readThinking reads the texts of a part of type thinking.
func readThinking(c *rawjson.Cursor) string {
	if c.Kind() != rawjson.Array {
		return ""
	}
	var said rawjson.Text
	for range c.Array() {
		_, more := openai.ReadPair(c, "type", "text")
		said.Add(more)
	}
	return said.String()
}

// mediaField reads {"url": …, "detail": …}, or the URL alone, as some clients write it.
func (d *decoder) mediaField(name string, p *part) {
	if d.c.Kind() == rawjson.String {
		p.url = d.c.Alias()
		return
	}
	detail := ""
	d.c.Read(d.notes.Rest("messages[].content[]."+name+"."), "url", func() { p.url = d.c.Alias() }, "detail", &detail)
	if name == "image_url" {
		p.detail = openai.ReadDetail(detail, "messages[].content[].image_url.detail", &d.notes)
	}
}

// medium makes a part of an image, a video, a sound or a file.
func (d *decoder) medium(p *part) (perigee.Part, error) {
	switch {
	case p.kind == "image_url":
		return dialect.MediaPart(p.url, "image/jpeg")
	case p.kind == "video_url":
		return dialect.MediaPart(p.url, "video/mp4")
	case p.kind == "input_audio" && p.data != "" && p.format != "":
		return perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: dialect.AudioType(p.format), Data: p.data}}, nil
	case p.kind == "input_audio":
		return perigee.Part{}, openai.Invalid("want data and format")
	case p.fileID != "" && p.data == "":
		return perigee.Part{}, openai.Invalid("file_id names a file that perigee does not have").WithHint("send it as file_data")
	case p.data == "":
		return perigee.Part{}, openai.Invalid("want file_data")
	}
	mime := dialect.MIMEType(p.filename, "application/pdf")
	if part, err := dialect.MediaPart(p.data, mime); err == nil || len(p.data) > 5 && p.data[:5] == "data:" {
		return part, err
	}
	return perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: mime, Data: p.data}}, nil
}
