package anthropic

import (
	"encoding/base64"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A Source is the source of a block that has no data: the provider has to fetch it.
type Source struct {
	Start, End int    // of the object in the body
	URL, File  string // an address, or the ID of an uploaded file
	Document   bool   // and not an image
}

var sourceNames = rawjson.NewNames("source")

// Sources returns the sources without data in the messages of a body, in order. index is of the body,
// of a text that the body is a part of, or nil.
func Sources(index *rawjson.Document, body []byte) (list []Source) {
	if !index.MayHave(sourceNames) {
		return nil
	}
	c := index.Value(body)
	c.Read(nil, "messages", func() { readSources(c, &list) })
	return list
}

// readSources adds the sources of blocks, and of blocks inside of them.
func readSources(c *rawjson.Cursor, list *[]Source) {
	switch c.Kind() {
	case rawjson.Array:
		for range c.Array() {
			readSources(c, list)
		}
	case rawjson.Object:
		at, kind := -1, ""
		for key := range c.Object() {
			switch {
			case string(key) == "type" && c.Kind() == rawjson.String:
				kind = c.String()
			case string(key) == "source" && c.Kind() == rawjson.Object:
				if s := readMedium(c, list); s.URL != "" || s.File != "" {
					at, *list = len(*list), append(*list, s)
				}
			case string(key) == "content":
				readSources(c, list)
			default:
				c.Skip()
			}
		}
		if at >= 0 {
			(*list)[at].Document = kind == "document"
		}
	default:
		c.Skip()
	}
}

// readMedium reads one source. If it has blocks itself, theirs are added.
func readMedium(c *rawjson.Cursor, list *[]Source) (s Source) {
	s.Start = c.Offset()
	for key := range c.Object() {
		text := c.Kind() == rawjson.String
		switch {
		case string(key) == "url" && text:
			s.URL = c.String()
		case string(key) == "file_id" && text:
			s.File = c.String()
		case string(key) == "content":
			readSources(c, list)
		default:
			c.Skip()
		}
	}
	s.End = c.Offset()
	return s
}

// WithData returns the source with data, which the provider need not fetch. Documents of text are
// written as text.
func (s *Source) WithData(blob *perigee.Blob) []byte {
	w := new(rawjson.Writer).Object()
	if s.Document && strings.HasPrefix(blob.MIME, "text/") {
		if text, err := base64.StdEncoding.DecodeString(blob.Data); err == nil {
			return w.Members(`"type":"text","media_type":"text/plain"`).Key("data").String(string(text)).EndObject().Buf
		}
	}
	w.Members(`"type":"base64"`).Key("media_type").String(blob.MIME)
	return w.Key("data").String(blob.Data).EndObject().Buf
}

// Part returns the medium at the address: its data if it is a data URL, and otherwise a file on the
// web.
func (s *Source) Part() (perigee.Part, error) {
	mime := "image/jpeg"
	if s.Document {
		mime = "application/pdf"
	}
	return dialect.MediaPart(s.URL, mime)
}
