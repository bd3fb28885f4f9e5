package anthropic

import (
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// A Collector makes one whole message out of a stream of events, for callers that do not stream.
type Collector struct {
	encoder encoder
	pieces  [][]byte // the beginning of the content, where that is long
	moved   int      // bytes in pieces
	content []byte   // the rest of it
}

// NewCollector returns the collector for an answer.
func NewCollector(answer *Answer) *Collector {
	return &Collector{encoder: encoder{answer: answer, out: &whole{}}}
}

// The content is put aside in pieces of longContent, because an array that grows leaves several times its size behind as garbage.
// Blocks that go on change no more than the last bytes, fewer than openEnd.
const (
	longContent = 512 << 10
	openEnd     = 64
)

// Add takes the next event.
func (c *Collector) Add(ev *perigee.Event) {
	e := &c.encoder
	spoken := e.spoken
	c.content = e.event(c.content, ev)
	if e.spoken && !spoken {
		e.before += c.moved
	}
	if cut := len(c.content) - openEnd; cut >= longContent {
		c.pieces = append(c.pieces, c.content[:cut:cut])
		c.moved += cut
		c.content = append(make([]byte, 0, longContent+longContent/4), c.content[cut:]...)
	}
}

// Bytes returns the message.
func (c *Collector) Bytes() []byte {
	e := &c.encoder
	searches := c.searchesFirst()
	dst := make([]byte, 0, c.moved+len(c.content)+len(searches)+512)
	dst = append(dst, '{')
	dst = e.appendHead(dst)
	dst = append(dst, `,"content":[`...)
	from := len(dst)
	for _, piece := range append(c.pieces, c.content) {
		dst = append(dst, piece...)
	}
	if len(searches) > 0 {
		dst = slices.Insert(dst, from+e.before, searches...)
	}
	dst = append(dst, `],`...)
	dst = e.appendStop(dst)
	dst = append(dst, `,"usage":`...)
	return append(appendUsage(dst, &e.usage, e.searches, true), '}')
}

// searchesFirst ends the content, and returns the searches that belong where this API has them: before the text that rests on them,
// however late the provider told of them.
func (c *Collector) searchesFirst() []byte {
	e := &c.encoder
	c.content = e.close(c.content)
	if !e.spoken {
		return nil // then they stand where they were made
	}
	last := e.index
	e.index = e.placeOf
	searches := e.searched(nil)
	if e.placeOf == 0 && e.index > 0 {
		searches = append(searches, ',') // what was first has none before it
	}
	e.index += last - e.placeOf
	return searches
}

// appendHead appends the members with which every message begins.
func (e *encoder) appendHead(dst []byte) []byte {
	model := e.model
	if model == "" {
		model = e.answer.Model
	}
	dst = append(dst, `"id":`...)
	dst = rawjson.AppendString(dst, "msg_"+e.answer.ID)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	return rawjson.AppendString(dst, model)
}

// appendStop appends why the answer ended. A refusal says in the provider's words what it was about.
func (e *encoder) appendStop(dst []byte) []byte {
	reason, sequence := e.stop()
	dst = append(dst, `"stop_reason":`...)
	dst = rawjson.AppendString(dst, reason)
	dst = append(dst, `,"stop_sequence":`...)
	if sequence == "" {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, sequence)
	}
	if reason == "refusal" {
		dst = append(dst, `,"stop_details":{"type":"refusal","category":null,"explanation":`...)
		why := e.finish.Reason
		if e.finish.Message != "" {
			why += ": " + e.finish.Message
		}
		dst = append(rawjson.AppendString(dst, why), '}')
	}
	return dst
}

// appendUsage appends what was spent. What came from the provider's cache is counted apart. The usage of a message says more than
// that at the end of a stream.
func appendUsage(dst []byte, u *perigee.Usage, searches int, message bool) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, max(0, u.Input-u.Cached), 10)
	dst = append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	if message { // the provider's cache is its own, and costs nothing to fill
		dst = append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}`...)
	}
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	if u.Thinking > 0 {
		dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
		dst = append(strconv.AppendInt(dst, u.Thinking, 10), '}')
	}
	if searches > 0 {
		dst = append(dst, `,"server_tool_use":{"web_search_requests":`...)
		dst = strconv.AppendInt(dst, int64(searches), 10)
		dst = append(dst, `,"web_fetch_requests":0}`...)
	}
	if message {
		dst = append(dst, `,"service_tier":"standard"`...)
	}
	return append(dst, '}')
}

// whole is the sink that writes blocks as the elements of content.
type whole struct{ cited, sealed bool }

func (w *whole) comma(dst []byte, index int) []byte {
	w.cited, w.sealed = false, false
	if index > 0 {
		dst = append(dst, ',')
	}
	return dst
}

func (w *whole) open(dst []byte, index int, kind blockKind) []byte {
	dst = w.comma(dst, index)
	if kind == thought {
		return append(dst, `{"type":"thinking","thinking":""`...)
	}
	return append(dst, `{"type":"text","text":""`...)
}

// more lets the string at the end of dst grow.
func (w *whole) more(dst []byte, _ int, _ blockKind, s string) []byte {
	// The opening quote of the new piece falls on the last byte before the closing quote of the old one,
	// which is put back.
	last := len(dst) - 2
	kept := dst[last]
	dst = rawjson.AppendString(dst[:last], s)
	dst[last] = kept
	return dst
}

func (w *whole) seal(dst []byte, _ int, signature string) []byte {
	w.sealed = true
	dst = append(dst, `,"signature":`...)
	return rawjson.AppendString(dst, signature)
}

func (w *whole) cite(dst []byte, _ int, from *perigee.Source, cited string) []byte {
	if w.cited {
		dst = append(dst, ',')
	} else {
		dst = append(dst, `,"citations":[`...)
	}
	w.cited = true
	return appendCitation(dst, from, cited)
}

func (w *whole) close(dst []byte, _ int, kind blockKind) []byte {
	if w.cited {
		dst = append(dst, ']')
	}
	if kind == thought && !w.sealed {
		dst = append(dst, `,"signature":""`...)
	}
	return append(dst, '}')
}

func (w *whole) call(dst []byte, index int, kind, id, name string, input []byte) []byte {
	dst = append(w.comma(dst, index), '{')
	dst = append(appendCall(dst, kind, id, name), input...)
	return append(dst, '}')
}

func (w *whole) result(dst []byte, index int, kind, id string, content []byte) []byte {
	return appendResult(w.comma(dst, index), kind, id, content)
}

// appendCall appends the members of a tool_use block up to the value of its input.
func appendCall(dst []byte, kind, id, name string) []byte {
	dst = append(dst, `"type":`...)
	dst = rawjson.AppendString(dst, kind)
	dst = append(dst, `,"id":`...)
	dst = rawjson.AppendString(dst, id)
	dst = append(dst, `,"name":`...)
	dst = rawjson.AppendString(dst, name)
	return append(dst, `,"input":`...)
}

func appendResult(dst []byte, kind, id string, content []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = rawjson.AppendString(dst, kind)
	dst = append(dst, `,"tool_use_id":`...)
	dst = rawjson.AppendString(dst, id)
	dst = append(dst, `,"content":`...)
	dst = append(dst, content...)
	return append(dst, '}')
}
