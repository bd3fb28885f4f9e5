package responses

import (
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A part is one part of a message's content while it is read.
type part struct {
	kind                                string
	text                                string // escaped
	image, detail                       string
	fileID, fileData, fileURL, filename string
	audioData, audioFormat              string
}

// content reads the content of a message: a string, or an array of parts. Empty texts are left out.
func (d *decoder) content(c *rawjson.Cursor, role string) {
	if c.Kind() == rawjson.String {
		if text := c.Inside(); text != "" {
			d.addPart(role, perigee.Part{Kind: perigee.PartText, Text: perigee.Escaped(text)})
		}
		return
	}
	for range c.Array() {
		if p, ok := d.part(c); ok {
			d.addPart(role, p)
		}
	}
}

// output reads a tool result that is not a string. It returns its texts as a JSON string, and its
// other parts as media.
func (d *decoder) output(c *rawjson.Cursor) (answer json.RawMessage, media []perigee.Part) {
	if c.Kind() != rawjson.Array {
		return rawjson.AppendString(nil, string(c.Raw())), nil
	}
	at := *c
	raw := at.Raw()
	if !isContent(raw) { // then the raw JSON is kept
		c.Skip()
		return rawjson.AppendString(nil, string(raw)), nil
	}
	joined := rawjson.NewLineJoiner(len(raw))
	for range c.Array() {
		switch p, ok := d.part(c); {
		case !ok:
		case p.Kind == perigee.PartText:
			joined.Add(p.Text.Form())
		default:
			media = append(media, p)
		}
	}
	return joined.JSON(), media
}

// isContent reports whether an array has parts of content in it, by its first element.
func isContent(raw []byte) bool {
	c := rawjson.NewCursor(raw)
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			return false
		}
		for key := range c.Object() {
			if string(key) == "type" && c.Kind() == rawjson.String {
				return strings.HasPrefix(c.String(), "input_")
			}
		}
		return false
	}
	return true
}

func (d *decoder) part(c *rawjson.Cursor) (perigee.Part, bool) {
	var p part
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			p.kind = word(c)
		case "text", "refusal":
			p.text = c.Inside()
		case "image_url":
			p.image = c.Alias()
		case "detail":
			p.detail = c.String()
		case "file_id":
			p.fileID = c.String()
		case "file_data":
			p.fileData = c.Alias()
		case "file_url":
			p.fileURL = c.Alias()
		case "filename":
			p.filename = c.String()
		case "input_audio":
			p.audioData, p.audioFormat = openai.ReadPair(c, "data", "format")
		case "annotations", "logprobs", "prompt_cache_breakpoint", "parsed":
			// Members of an earlier answer, and a hint that does not change the answer.
		default:
			d.notes.Unknown("input[].content[].", key)
		}
	}
	if c.Err() != nil {
		return perigee.Part{}, false
	}
	return d.partOf(&p)
}

func (d *decoder) partOf(p *part) (perigee.Part, bool) {
	var detail perigee.Detail
	switch {
	case p.kind == "input_image":
		detail = openai.ReadDetail(p.detail, "input[].content[].detail", &d.notes)
	case p.detail != "" && p.detail != "auto":
		d.notes.Dropped("input[].content[].detail")
	}
	var part perigee.Part
	var err error
	switch {
	case p.fileID != "" && p.image == "" && p.fileURL == "":
		d.refuse(openai.Wrong("input[].content[].file_id", "perigee does not store files").WithHint("send the data itself, or a URL"))
		return part, false
	case p.kind == "input_text" || p.kind == "output_text" || p.kind == "text" || p.kind == "refusal":
		return perigee.Part{Kind: perigee.PartText, Text: perigee.Escaped(p.text)}, p.text != ""
	case p.kind == "input_image":
		part, err = dialect.MediaPart(p.image, "image/jpeg")
	case p.kind == "input_file" && p.fileURL != "":
		part, err = dialect.MediaPart(p.fileURL, dialect.MIMEType(p.filename, "application/pdf"))
	case p.kind == "input_file" && strings.HasPrefix(p.fileData, "data:"):
		part, err = dialect.MediaPart(p.fileData, dialect.MIMEType(p.filename, "application/pdf"))
	case p.kind == "input_file" && p.fileData != "":
		mime := dialect.MIMEType(p.filename, "application/pdf")
		part = perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: mime, Data: p.fileData}}
	case p.kind == "input_file":
		d.refuse(openai.Wrong("input[].content[input_file]", "want file_data or file_url"))
		return part, false
	case p.kind == "input_audio":
		part = perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: dialect.AudioType(p.audioFormat), Data: p.audioData}}
	default:
		d.notes.Unknown("input[].content", []byte("["+openai.Brief(p.kind)+"]"))
		return part, false
	}
	if err != nil {
		d.refuse(openai.Wrong("input[].content["+p.kind+"]", "%v", err))
	}
	openai.SetDetail(&part, detail)
	return part, err == nil
}
