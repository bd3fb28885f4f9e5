package anthropic

import (
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A Collector makes one whole message out of a stream of events, for callers that do not stream. If
// the provider sent a frame, that is the answer.
type Collector struct {
	frame   []byte
	encoder encoder
	pieces  [][]byte // the beginning of the content, where that is long
	moved   int      // bytes in pieces
}

// NewCollector returns the collector for an answer.
func NewCollector(answer *Answer) *Collector { return &Collector{encoder: encoder{answer: answer}} }

// The content is stored in pieces of longContent, because a growing array leaves several times its
// size as garbage. An open block changes only the last bytes, fewer than openEnd.
const (
	longContent = 512 << 10
	openEnd     = 64
)

// Add takes the next event.
func (c *Collector) Add(ev *perigee.Event) {
	if ev.Kind == perigee.EventFrame && ev.Dialect == perigee.DialectAnthropic {
		c.frame = slices.Clone(ev.Frame)
	}
	if c.frame != nil {
		return // everything is in there
	}
	e := &c.encoder
	answering := e.answering
	e.event(ev)
	if e.answering && !answering {
		e.before += c.moved
	}
	if content := e.w.Buf; len(content)-openEnd >= longContent {
		cut := len(content) - openEnd
		c.pieces = append(c.pieces, content[:cut:cut])
		c.moved += cut
		e.w.Buf = append(make([]byte, 0, longContent+longContent/4), content[cut:]...)
	}
}

// Bytes returns the message.
func (c *Collector) Bytes() []byte {
	if c.frame != nil {
		return c.frame
	}
	e := &c.encoder
	searches := c.searchesFirst()
	w := rawjson.Writer{Buf: make([]byte, 0, c.moved+len(e.w.Buf)+len(searches)+512)}
	e.head(w.Object())
	w.Key("content").Array()
	from := len(w.Buf)
	w.Elements(append(c.pieces, e.w.Buf)...)
	w.Buf = slices.Insert(w.Buf, from+e.before, searches...)
	e.writeStop(w.EndArray())
	writeUsage(&w, &e.usage, e.searches, true)
	return w.EndObject().Buf
}

// searchesFirst ends the content, and returns it with the searches before the text that is based on
// them, as in this API, however late the provider reported them.
func (c *Collector) searchesFirst() []byte {
	e := &c.encoder
	e.close()
	if !e.answering {
		return nil // then they are in place already
	}
	content, last := e.w, e.index
	e.w, e.index = rawjson.Writer{}, e.placeOf
	if e.placeOf > 0 {
		e.w.Lit(",") // behind the blocks before them
	}
	e.writeSearches()
	found := e.index > e.placeOf
	if e.placeOf == 0 && found {
		e.w.Lit(",") // the former first element has no comma before it
	}
	searches := e.w.Buf
	e.w, e.index = content, e.index+last-e.placeOf
	if !found {
		return nil
	}
	return searches
}
