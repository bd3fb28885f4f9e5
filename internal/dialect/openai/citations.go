package openai

import (
	"strings"
	"unicode/utf8"

	"perigee"
)

// A Citation is the source of a passage of the answer. Start and End count characters.
type Citation struct {
	Start, End int
	URL, Title string
}

// Citations returns the sources of a text. If the provider names no passages, all sources are cited
// at the beginning of the text. g may be nil.
func Citations(text string, g *perigee.Grounding) []Citation {
	if g == nil {
		return nil
	}
	var list []Citation
	if len(g.Supports) == 0 {
		for _, s := range g.Sources {
			list = append(list, Citation{URL: s.URL, Title: s.Title})
		}
		return list
	}
	runes := runeCounter{text: text}
	for i := range g.Supports {
		s := &g.Supports[i]
		from, to := locate(s, text)
		start, end := runes.before(from), runes.before(to)
		for _, i := range s.Sources {
			if i >= 0 && i < int64(len(g.Sources)) {
				list = append(list, Citation{start, end, g.Sources[i].URL, g.Sources[i].Title})
			}
		}
	}
	return list
}

// locate finds a passage in the text. The provider's offsets are within a part; if that is not the
// whole text, the passage is found by its content.
func locate(s *perigee.Support, text string) (start, end int) {
	start = min(max(s.Start, 0), len(text))
	end = min(max(s.End, start), len(text))
	if s.Text == "" || text[start:end] == s.Text {
		return start, end
	}
	if i := strings.Index(text, s.Text); i >= 0 {
		return i, i + len(s.Text)
	}
	return start, end
}

// A runeCounter turns byte offsets into character offsets. Offsets that grow cost one walk over the
// text.
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
