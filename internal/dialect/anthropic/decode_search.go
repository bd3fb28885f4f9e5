package anthropic

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// addQuery adds the query of a search to the searches of the answer.
func (d *Decoder) addQuery(b *receivedBlock) {
	if b.name != "web_search" || rawjson.Check(b.input) != nil {
		return
	}
	query := ""
	c := rawjson.NewCursor(b.input)
	if c.Kind() == rawjson.Object {
		c.Read(nil, "query", func() { query = textOf(c) })
	}
	if query != "" {
		d.ground.Queries = append(d.ground.Queries, query)
	}
}

// addFindings adds the results of a search, and emits the searches so far.
func (d *Decoder) addFindings(content json.RawMessage) {
	c := rawjson.NewCursor(content)
	if c.Kind() != rawjson.Array {
		return // the search failed
	}
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		d.source(readSource(c))
	}
	d.emitGrounding()
}

// readSource reads the address and the title of a page.
func readSource(c *rawjson.Cursor) (s perigee.Source) {
	c.Read(nil, "url", func() { s.URL = textOf(c) }, "title", func() { s.Title = textOf(c) })
	return s
}

// source returns the index of a page among the sources, or -1 if it has no address.
func (d *Decoder) source(s perigee.Source) int64 {
	if s.URL == "" {
		return -1
	}
	at := slices.IndexFunc(d.ground.Sources, func(known perigee.Source) bool { return known.URL == s.URL })
	if at < 0 {
		at = len(d.ground.Sources)
		d.ground.Sources = append(d.ground.Sources, s)
	}
	return int64(at)
}

// addCitations adds the citations of a text in a whole message.
func (d *Decoder) addCitations(list json.RawMessage) {
	c := rawjson.NewCursor(list)
	if c.Kind() != rawjson.Array {
		return
	}
	for range c.Array() {
		d.addCitation(c.Raw())
	}
}

// addCitation adds the source of the open text. Citations of documents have no address.
func (d *Decoder) addCitation(raw json.RawMessage) {
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Object {
		return
	}
	if at := d.source(readSource(c)); at >= 0 && !slices.Contains(d.open.cited, at) {
		d.open.cited = append(d.open.cited, at)
	}
}

// support emits the sources of a text that has ended.
func (d *Decoder) support(b *receivedBlock) {
	if len(b.cited) == 0 {
		return
	}
	d.found += int64(len(b.text))
	d.ground.Supports = append(d.ground.Supports, perigee.Support{Start: d.length - b.length, End: d.length,
		Text: string(b.text), Sources: b.cited})
	d.emitGrounding()
}

// emitGrounding emits all searches so far. Readers replace an earlier list by a later one that
// covers it.
func (d *Decoder) emitGrounding() {
	g := &perigee.Grounding{Queries: slices.Clip(d.ground.Queries), Sources: slices.Clip(d.ground.Sources), Supports: slices.Clip(d.ground.Supports)}
	d.emit(perigee.Event{Kind: perigee.EventGrounding, Grounding: g})
}
