package openai

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"perigee/internal/rawjson"
)

// A citation says where a stretch of the answer comes from. Start and end count characters.
type citation struct {
	start, end int
	url, title string
}

// citations reads the sources of a text out of the provider's groundingMetadata. Sources that no stretch names
// are given for the beginning of the text, so that none is lost.
func citations(text string, grounding json.RawMessage) []citation {
	var sources []citation
	var supports []support
	c := rawjson.NewCursor(grounding)
	for key := range c.Object() {
		switch string(key) {
		case "groundingChunks":
			for range c.Array() {
				sources = append(sources, readSource(c))
			}
		case "groundingSupports":
			for range c.Array() {
				supports = append(supports, readSupport(c))
			}
		}
	}
	if len(supports) == 0 {
		return sources
	}
	var list []citation
	runes := runeCounter{text: text}
	for _, s := range supports {
		s.locate(text)
		start, end := runes.before(s.start), runes.before(s.end)
		for _, i := range s.sources {
			if i >= 0 && i < int64(len(sources)) {
				list = append(list, citation{start, end, sources[i].url, sources[i].title})
			}
		}
	}
	return list
}

// readSource reads one of groundingChunks, which holds its source in a member named after its kind.
func readSource(c *rawjson.Cursor) citation {
	var s citation
	for range c.Object() {
		if c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			switch string(key) {
			case "uri":
				s.url = c.String()
			case "title":
				s.title = c.String()
			}
		}
	}
	return s
}

// A support is a stretch of text and the numbers of its sources. Start and end count bytes.
type support struct {
	start, end int
	text       string
	sources    []int64
}

func readSupport(c *rawjson.Cursor) support {
	var s support
	for key := range c.Object() {
		switch string(key) {
		case "segment":
			for key := range c.Object() {
				switch string(key) {
				case "startIndex":
					s.start = int(c.Int64())
				case "endIndex":
					s.end = int(c.Int64())
				case "text":
					s.text = c.String()
				}
			}
		case "groundingChunkIndices":
			for range c.Array() {
				s.sources = append(s.sources, c.Int64())
			}
		}
	}
	return s
}

// locate makes the offsets fit the text. The provider counts within a part; where that is not the whole text,
// the stretch is found by what it says.
func (s *support) locate(text string) {
	s.start = min(max(s.start, 0), len(text))
	s.end = min(max(s.end, s.start), len(text))
	if s.text == "" || text[s.start:s.end] == s.text {
		return
	}
	if i := strings.Index(text, s.text); i >= 0 {
		s.start, s.end = i, i+len(s.text)
	}
}

// A runeCounter turns byte offsets into character offsets. Offsets that grow cost one walk over the text.
type runeCounter struct {
	text         string
	bytes, runes int
}

func (r *runeCounter) before(offset int) int {
	if offset < r.bytes {
		r.bytes, r.runes = 0, 0
	}
	r.runes += utf8.RuneCountInString(r.text[r.bytes:offset])
	r.bytes = offset
	return r.runes
}
