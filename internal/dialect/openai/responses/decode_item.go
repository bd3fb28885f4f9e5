package responses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A receivedItem is an item of the output while it arrives.
type receivedItem struct {
	kind     string
	callID   string
	name     string
	id       string
	input    []byte           // of a call: the arguments so far, or the text
	parts    map[partKey]bool // of which content was emitted
	thinking bool             // a piece of its thinking was emitted
	done     bool
	final    bool // it was found in the response at the end
}

// A partKey is one part of an item, and what of it.
type partKey struct {
	kind  contentKind
	index int64
}

type contentKind uint8

const (
	textContent contentKind = iota
	refusalContent
	summaryContent
	reasoningContent
	logprobsContent
)

// itemOf returns the item of an event. Some servers give each event another id, and some give all
// items the same index, so an unknown id is of the item with the index while that is not done. An
// event without both is about the last item of the kind.
func (d *Decoder) itemOf(index int64, id, kind string) *receivedItem {
	if item := d.byID[id]; item != nil {
		return item
	}
	if item := d.byIndex[index]; item != nil && !item.done {
		return item
	}
	if index < 0 && id == "" && len(d.items) > 0 {
		if last := d.items[len(d.items)-1]; last.kind == kind && !last.done {
			return last
		}
	}
	return d.newItem(index, id, kind)
}

func (d *Decoder) newItem(index int64, id, kind string) *receivedItem {
	item := &receivedItem{kind: kind, id: id, parts: map[partKey]bool{}}
	if index < 0 {
		index = int64(len(d.items))
	}
	d.items = append(d.items, item)
	d.kept += itemSize + int64(len(id))
	d.byIndex[index] = item
	if id != "" {
		d.byID[id] = item
	}
	return item
}

// added reads the beginning of an item.
func (d *Decoder) added(e *receivedChunk) {
	c := objectCursor(e.item)
	if c == nil {
		return
	}
	item := readOutput(c)
	received := d.byID[item.id]
	if received == nil {
		received = d.newItem(e.index, item.id, item.kind)
	}
	received.learn(&item)
}

// An outputItem has the members of an item of the provider.
type outputItem struct {
	kind, id, callID, name, encrypted, format string
	input                                     string // arguments, or the text of a custom tool
	result                                    string
	content, summary, action                  json.RawMessage
}

func readOutput(c *rawjson.Cursor) outputItem {
	var item outputItem
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			item.kind = text(c)
		case "id":
			item.id = text(c)
		case "call_id":
			item.callID = text(c)
		case "name":
			item.name = text(c)
		case "arguments", "input":
			if c.Kind() == rawjson.Object { // which some servers send instead of a string
				item.input = string(c.Raw())
			} else {
				item.input = text(c)
			}
		case "encrypted_content":
			item.encrypted = text(c)
		case "result":
			item.result = text(c)
		case "output_format":
			item.format = text(c)
		case "content":
			item.content = c.Raw()
		case "summary":
			item.summary = c.Raw()
		case "action":
			item.action = c.Raw()
		}
	}
	return item
}

// learn takes the type and the names of an item, which deltas do not have.
func (r *receivedItem) learn(item *outputItem) {
	r.kind, r.id = cmp.Or(item.kind, r.kind), cmp.Or(item.id, r.id)
	r.callID, r.name = cmp.Or(item.callID, r.callID), cmp.Or(item.name, r.name)
}

// whole takes an item that is done: the content that did not come in pieces, and everything that
// only comes at the end.
func (d *Decoder) whole(r *receivedItem, item *outputItem) {
	if r.done {
		return
	}
	r.learn(item)
	switch r.kind {
	case "message":
		d.eachPart(item.content, func(i int64, p *outputPart) { d.messagePart(r, i, p) })
	case "reasoning":
		d.eachPart(item.summary, func(i int64, p *outputPart) { d.missingThinking(r, partKey{summaryContent, i}, p.text) })
		d.eachPart(item.content, func(i int64, p *outputPart) { d.missingThinking(r, partKey{reasoningContent, i}, p.text) })
		d.sign(r, item.encrypted)
	case "function_call", "custom_tool_call":
		if len(r.input) == 0 || r.kind == "function_call" && rawjson.Check(r.input) != nil {
			d.kept += int64(len(item.input) - len(r.input))
			r.input = []byte(item.input)
		}
	case "web_search_call":
		d.search(item.action)
	case "image_generation_call":
		if item.result != "" {
			image := &perigee.Blob{MIME: "image/" + cmp.Or(item.format, "png"), Data: item.result}
			d.emit(perigee.Event{Kind: perigee.EventBlob, Blob: image})
		}
	}
	d.complete(r)
}

// complete ends an item. A call is emitted with the arguments so far.
func (d *Decoder) complete(r *receivedItem) {
	if r.done {
		return
	}
	d.kept -= int64(len(r.input))
	input := r.input
	r.done, r.parts, r.input = true, nil, nil
	custom := r.kind == "custom_tool_call"
	if !custom && r.kind != "function_call" || r.name == "" {
		return
	}
	args, _ := openai.Arguments(input)
	if custom {
		args = openai.Wrap("input", rawjson.AppendString(nil, string(input)))
	}
	own := d.call == r
	if own {
		if custom {
			d.piece(r, `"}`)
		}
		d.call = nil
	}
	d.emit(perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: cmp.Or(r.callID, r.id), Name: r.name, Args: args}})
	if own {
		for i := range d.held {
			d.kept -= itemSize + d.held[i].Size()
		}
		d.events, d.held = append(d.events, d.held...), nil
	}
}

// callPiece takes a piece of the arguments of a call, or of the text of a custom tool, and emits it
// if the call has its names and no other one is being emitted. The text is emitted inside the
// object that the arguments are.
func (d *Decoder) callPiece(r *receivedItem, delta string) {
	if r.done || delta == "" {
		return
	}
	r.input = append(r.input, delta...)
	d.kept += int64(len(delta))
	if d.call == nil && r.callID != "" && r.name != "" {
		d.call, delta = r, string(r.input)
		if r.kind == "custom_tool_call" {
			d.piece(r, `{"input":"`)
		}
	}
	if d.call != r {
		return
	}
	if r.kind == "custom_tool_call" {
		delta = string(rawjson.AppendInner(nil, delta))
	}
	d.piece(r, delta)
}

func (d *Decoder) piece(r *receivedItem, piece string) {
	d.events = append(d.events, perigee.Event{Kind: perigee.EventCallPart, Text: piece,
		Call: &perigee.FunctionCall{ID: r.callID, Name: r.name}})
}

// textPiece emits a piece of text or of a refusal.
func (d *Decoder) textPiece(r *receivedItem, part partKey, piece string) {
	if r.done || piece == "" {
		return
	}
	r.parts[part] = true
	d.emit(perigee.Event{Kind: perigee.EventText, Text: piece})
}

// thinkingPiece emits a piece of thinking. Each part after the first one is a paragraph.
func (d *Decoder) thinkingPiece(r *receivedItem, part partKey, piece string) {
	if r.done || piece == "" {
		return
	}
	if r.thinking && !r.parts[part] {
		piece = "\n\n" + piece
	}
	r.parts[part], r.thinking = true, true
	d.emit(perigee.Event{Kind: perigee.EventThinking, Text: piece})
}

// missingThinking emits a part of the thinking that did not come in pieces.
func (d *Decoder) missingThinking(r *receivedItem, part partKey, whole string) {
	if !r.parts[part] {
		d.thinkingPiece(r, part, whole)
	}
}

// sign emits the encrypted reasoning as the signature of the thinking of the item. Without visible
// thinking it is the signature of an empty one, so that it is not taken for the signature of the
// block before.
func (d *Decoder) sign(r *receivedItem, encrypted string) {
	switch {
	case encrypted == "":
	case r.thinking:
		d.emit(perigee.Event{Kind: perigee.EventSignature, Signature: encrypted})
	default:
		d.emit(perigee.Event{Kind: perigee.EventThinking, Signature: encrypted})
	}
}

// An outputPart is a part of the content or of the summary of an item.
type outputPart struct {
	kind, text, refusal   string
	annotations, logprobs json.RawMessage
}

// eachPart reads a list of parts.
func (d *Decoder) eachPart(raw json.RawMessage, take func(i int64, p *outputPart)) {
	if raw == nil {
		return
	}
	c := rawjson.NewCursor(raw)
	if c.Kind() != rawjson.Array {
		return
	}
	for i := range c.Array() {
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		var p outputPart
		for key := range c.Object() {
			switch string(key) {
			case "type":
				p.kind = text(c)
			case "text":
				p.text = text(c)
			case "refusal":
				p.refusal = text(c)
			case "annotations":
				p.annotations = c.Raw()
			case "logprobs":
				p.logprobs = c.Raw()
			}
		}
		take(int64(i), &p)
	}
}

// messagePart takes a part of a message that is done.
func (d *Decoder) messagePart(r *receivedItem, i int64, p *outputPart) {
	if key := (partKey{textContent, i}); !r.parts[key] {
		d.textPiece(r, key, p.text)
	}
	if key := (partKey{refusalContent, i}); !r.parts[key] {
		d.textPiece(r, key, p.refusal)
	}
	if !r.parts[partKey{logprobsContent, i}] {
		d.logprobs(r, i, p.logprobs)
	}
	d.citations(p)
}

// logprobs emits the log probabilities of a piece of text, or of the whole part if no piece had
// any.
func (d *Decoder) logprobs(r *receivedItem, part int64, raw json.RawMessage) {
	if raw == nil || r.done {
		return
	}
	l := dialect.ReadLogprobs(rawjson.NewCursor(raw))
	if len(l.Chosen) == 0 {
		return
	}
	r.parts[partKey{logprobsContent, part}] = true
	d.emit(perigee.Event{Kind: perigee.EventLogprobs, Logprobs: l})
}

// citations emits the web pages that a text cites. The API counts characters, and a Support bytes.
func (d *Decoder) citations(p *outputPart) {
	c := rawjson.NewCursor(p.annotations)
	if p.annotations == nil || c.Kind() != rawjson.Array {
		return
	}
	g := &perigee.Grounding{}
	at, index := byteCounter{text: p.text}, map[string]int64{}
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		var start, end int64
		source, kind := perigee.Source{}, ""
		for key := range c.Object() {
			switch string(key) {
			case "type":
				kind = text(c)
			case "url":
				source.URL = text(c)
			case "title":
				source.Title = text(c)
			case "start_index":
				start = number(c, 0)
			case "end_index":
				end = number(c, 0)
			}
		}
		if kind != "url_citation" || source.URL == "" {
			continue
		}
		i, known := index[source.URL]
		if !known {
			i = int64(len(g.Sources))
			index[source.URL], g.Sources = i, append(g.Sources, source)
		}
		from := at.of(start)
		to := max(from, at.of(end))
		g.Supports = append(g.Supports, perigee.Support{Start: from, End: to, Text: p.text[from:to], Sources: []int64{i}})
	}
	if len(g.Sources) > 0 {
		d.emit(perigee.Event{Kind: perigee.EventGrounding, Grounding: g})
	}
}

// A byteCounter turns character offsets into byte offsets. Offsets that grow cost one walk over the
// text.
type byteCounter struct {
	text  string
	runes int64
	bytes int
}

func (b *byteCounter) of(runes int64) int {
	if runes < b.runes {
		b.runes, b.bytes = 0, 0
	}
	for b.runes < runes && b.bytes < len(b.text) {
		_, size := utf8.DecodeRuneInString(b.text[b.bytes:])
		b.runes, b.bytes = b.runes+1, b.bytes+size
	}
	return b.bytes
}

// search emits the queries of a web search and its sources.
func (d *Decoder) search(action json.RawMessage) {
	c := objectCursor(action)
	if c == nil {
		return
	}
	g := &perigee.Grounding{}
	query := ""
	for key := range c.Object() {
		switch {
		case string(key) == "query":
			query = text(c)
		case string(key) == "queries" && c.Kind() == rawjson.Array:
			for range c.Array() {
				g.Queries = append(g.Queries, text(c))
			}
		case string(key) == "sources" && c.Kind() == rawjson.Array:
			for range c.Array() {
				if url := memberOf(c, "url"); url != "" {
					g.Sources = append(g.Sources, perigee.Source{URL: url})
				}
			}
		}
	}
	if query != "" && len(g.Queries) == 0 {
		g.Queries = []string{query}
	}
	g.Queries = slices.DeleteFunc(g.Queries, func(q string) bool { return strings.TrimSpace(q) == "" })
	if len(g.Queries) > 0 {
		d.emit(perigee.Event{Kind: perigee.EventGrounding, Grounding: g})
	}
}
