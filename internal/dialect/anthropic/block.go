package anthropic

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A block is one content block with the members of all types: the type determines which of them are
// used, and may come last.
type block struct {
	kind      []byte
	text      perigee.Text
	thinking  string
	signature string
	id        string
	name      string
	answers   string // tool_use_id
	title     string
	context   string
	input     []byte
	content   []byte
	source    []byte
	tool      []byte
	data      string // of redacted thinking
	failed    bool   // is_error
	cache     *perigee.CacheMark
}

func (d *decoder) block(c *rawjson.Cursor, m *message) {
	var b block
	d.readBlock(c, &b)
	if c.Err() != nil {
		return
	}
	before := len(m.parts)
	switch string(b.kind) {
	case "text":
		m.parts = appendText(m.parts, b.text)
	case "image":
		m.parts = d.media(m.parts, b.source, "source", "image/jpeg")
	case "document":
		m.parts = d.document(m.parts, &b)
	case "search_result":
		m.parts = appendText(m.parts, perigee.Plain(d.searchResult(&b)))
	case "tool_use":
		d.toolUse(m, &b)
	case "tool_result":
		d.toolResult(m, &b)
	case "thinking":
		m.parts, m.signature = openSignature(m.parts, &b, m.signature)
	case "tool_addition", "tool_removal":
		d.toolChange(&b)
	case "fallback": // names the model of Anthropic that continued; irrelevant to the model
	case "redacted_thinking":
		m.parts = append(m.parts, perigee.Part{Kind: perigee.PartRedacted, Thought: true, Signature: b.data})
	case "container_upload", "mcp_tool_listing":
		d.notes.Dropped(string(b.kind) + " blocks")
	default:
		m.parts = d.history(m.parts, &b)
	}
	if n := len(m.parts); b.cache != nil && n > before {
		m.parts[n-1].Cache = b.cache
	}
}

func (d *decoder) readBlock(c *rawjson.Cursor, b *block) {
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			b.kind = c.Bytes()
		case "text":
			b.text = perigee.Escaped(c.Inside())
		case "thinking":
			b.thinking = c.String()
		case "signature":
			b.signature = c.String()
		case "id":
			b.id = c.String()
		case "name", "tool_name":
			b.name = c.String()
		case "tool_use_id":
			b.answers = c.String()
		case "title":
			b.title = c.String()
		case "context":
			b.context = c.String()
		case "input":
			b.input = c.Raw()
		case "content":
			b.content = c.Raw()
		case "source":
			b.source = c.Raw()
		case "tool":
			b.tool = c.Raw()
		case "is_error":
			b.failed = c.Bool()
		case "citations":
			d.citations(c)
		case "cache_control":
			b.cache = dialect.ReadCacheMark(c)
		case "data":
			b.data = c.String()
		case "caller", "toolset_name", "file_id", "tools", "mcp_server_name",
			"encrypted_content", "tool_changes", "from", "to", "trigger", "server_name", "tabs", "state_changes":
			// They belong to blocks that are noted as a whole.
		default:
			d.notes.Unknown("messages[].content[].", key)
		}
	}
}

// citations reads the member of that name: a list is part of the history and repeats the text; an
// object requests citations of a document, which the provider does not support.
func (d *decoder) citations(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		return
	}
	enabled := false
	if c.Read(nil, "enabled", &enabled); enabled {
		d.notes.Dropped("messages[].content[].citations")
	}
}

// inside reads a value that was kept as raw JSON. Errors in it get their path in the request. A nil
// value is not read.
func (d *decoder) inside(raw []byte, field string, read func(c *rawjson.Cursor)) {
	if raw == nil {
		return
	}
	c := d.doc.Value(raw)
	read(c)
	err, ok := c.Err().(*rawjson.TypeError)
	if !ok {
		return
	}
	path := d.at.field(field)
	if err.Path != "" && err.Path[0] != '[' {
		path += "."
	}
	d.fail(invalid((&rawjson.TypeError{Path: path + err.Path, Want: err.Want, Got: err.Got}).Error()))
}

// A source is the data of an image or a document, or its URL.
type source struct {
	kind    string
	mime    string
	data    string
	url     string
	content []byte
}

func (d *decoder) source(raw []byte, field string) source {
	var s source
	d.inside(raw, field, func(c *rawjson.Cursor) {
		c.Read(nil, "type", &s.kind, "media_type", &s.mime, "data", func() { s.data = c.Alias() }, "url", func() { s.url = c.Alias() }, "content", &s.content)
	})
	return s
}

// media appends an image, or a document that is not text.
func (d *decoder) media(parts []perigee.Part, raw []byte, field, mime string) []perigee.Part {
	return d.sourced(parts, d.source(raw, field), field, mime)
}

func (d *decoder) sourced(parts []perigee.Part, s source, field, mime string) []perigee.Part {
	if d.err != nil {
		return parts
	}
	switch s.kind {
	case "base64":
		if s.mime == "" {
			s.mime = mime
		}
		return append(parts, perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: s.mime, Data: s.data}})
	case "url":
		blob, ok, err := dialect.DecodeDataURL(s.url, mime)
		switch {
		case err != nil:
			d.fail(invalid(d.at.field(field) + ".url: " + err.Error()))
			return parts
		case ok:
			return append(parts, perigee.Part{Kind: perigee.PartBlob, Blob: blob})
		}
		return append(parts, dialect.FilePart(s.url, mime))
	case "file":
		d.fail(invalid(d.at.field(field) + ": files that were uploaded to Anthropic cannot be reached from here").
			WithHint("send the data itself, as a source of type base64"))
	default:
		d.fail(invalid(d.at.field(field) + ": unknown type of source: " + fieldName([]byte(s.kind))).WithHint("use base64 or url"))
	}
	return parts
}

// document appends a document, after its title and context.
func (d *decoder) document(parts []perigee.Part, b *block) []perigee.Part {
	about := labelled("Document: ", b.title, b.context)
	s := d.source(b.source, "source")
	switch s.kind {
	case "text":
		return appendText(parts, perigee.Plain(labelled("", about, s.data)))
	case "content":
		var text string
		var media []perigee.Part
		d.inside(s.content, "source.content", func(c *rawjson.Cursor) { text, media = d.plain(c, media) })
		return append(appendText(parts, perigee.Plain(labelled("", about, text))), media...)
	}
	return d.sourced(appendText(parts, perigee.Plain(about)), s, "source", "application/pdf")
}

// labelled joins a title and a text with a line between them; either may be empty.
func labelled(label, title, text string) string {
	switch {
	case title == "":
		return text
	case text == "":
		return label + title
	}
	return label + title + "\n" + text
}

// searchResult renders a result of the client's own search.
func (d *decoder) searchResult(b *block) string {
	var from, text string
	d.inside(b.source, "source", func(c *rawjson.Cursor) { from = c.String() })
	d.inside(b.content, "content", func(c *rawjson.Cursor) { text, _ = d.plain(c, nil) })
	return labelled("", labelled("Search result: ", b.title, labelled("Source: ", from, "")), text)
}

// toolUse appends a call, with the signature that waited for it.
func (d *decoder) toolUse(m *message, b *block) {
	call := &perigee.FunctionCall{ID: b.id, Name: b.name, Args: d.arguments(b.input)}
	m.parts = append(m.parts, perigee.Part{Kind: perigee.PartCall, Call: call, Signature: m.signature})
	m.signature, m.calls = "", true
}

// arguments wraps a value that is not an object into one, so that one invalid call does not end the
// conversation.
func (d *decoder) arguments(input []byte) []byte {
	switch {
	case input == nil:
		return []byte("{}")
	case input[0] == '{':
		return input
	}
	d.notes.Repaired("messages[].content[].input")
	var w rawjson.Writer
	return w.Object().Key("arguments").Raw(input).EndObject().Buf
}
