package anthropic

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// The methods in this file write blocks in both forms. Text and thinking are opened, extended and
// closed; all other blocks are whole.

// frame begins an event. Its data is an object without line ends, so it fits on one line.
func frame(w *rawjson.Writer, name string) *rawjson.Writer {
	return w.Lit("event: ").Lit(name).Lit("\ndata: {\"type\":\"").Lit(name).Lit(`"`)
}

// eventEnd ends the data of an event, and the event.
const eventEnd = "}\n\n"

// about begins an event about the open block.
func (e *encoder) about(name string) *rawjson.Writer {
	return frame(&e.w, name).Key("index").Int(int64(e.index))
}

// delta writes a change of the open block that is one string. change is the beginning of it. Most
// events of a stream are deltas.
func (e *encoder) delta(change, s string) {
	e.w.Lit("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":").Int(int64(e.index))
	e.w.Lit(change).String(s).Lit("}" + eventEnd)
}

func (e *encoder) openBlock() {
	block := `{"type":"text","text":""`
	if e.kind == thought {
		block = `{"type":"thinking","thinking":""`
	}
	switch {
	case !e.stream:
		e.w.Members(block)
	case e.kind == thought:
		e.about("content_block_start").Key("content_block").Members(block).Members(`"signature":""`).Lit("}" + eventEnd)
	default:
		e.about("content_block_start").Key("content_block").Members(block).Lit("}" + eventEnd)
	}
}

func (e *encoder) extend(s string) {
	switch {
	case !e.stream: // the string at the end of the content grows
		e.w.Buf = append(rawjson.AppendInner(e.w.Buf[:len(e.w.Buf)-1], s), '"')
	case e.kind == thought:
		e.delta(`,"delta":{"type":"thinking_delta","thinking":`, s)
	case e.kind == toolCall:
		e.delta(inputDelta, s)
	default:
		e.delta(`,"delta":{"type":"text_delta","text":`, s)
	}
}

// sign writes the signature of the open thinking.
func (e *encoder) sign(signature string) {
	e.signed = true
	if e.stream {
		e.delta(`,"delta":{"type":"signature_delta","signature":`, signature)
	} else {
		e.w.Key("signature").String(signature)
	}
}

// citeSource adds the source of a passage of the open text. encrypted_index is empty, because the
// provider has nothing like it.
func (e *encoder) citeSource(from *perigee.Source, cited string) {
	switch {
	case e.stream:
		e.about("content_block_delta").Key("delta").Object().Members(`"type":"citations_delta"`).Key("citation")
	case !e.citing:
		e.w.Key("citations").Array()
	}
	e.citing = true
	e.w.Object().Members(`"type":"web_search_result_location"`).Key("cited_text").String(cited)
	e.w.Key("url").String(from.URL).Key("title").String(from.Title).Members(`"encrypted_index":""`).EndObject()
	if e.stream {
		e.w.Lit("}" + eventEnd)
	}
}

func (e *encoder) closeBlock() {
	if e.stream {
		e.about("content_block_stop").Lit(eventEnd)
		return
	}
	if e.citing {
		e.w.EndArray()
	}
	if e.kind == thought && !e.signed {
		e.w.Members(`"signature":""`)
	}
	e.w.EndObject()
}

// A toolBlock is a call of a tool.
type toolBlock struct {
	kind, id, name string
	input          []byte
}

// inputDelta is the beginning of a change of the input of a call.
const inputDelta = `,"delta":{"type":"input_json_delta","partial_json":`

// use writes a call of a tool. No block is open.
func (e *encoder) use(b *toolBlock) {
	if e.stream {
		e.openUse(b)
		e.delta(inputDelta, string(b.input))
		e.closeBlock()
	} else {
		b.write(&e.w, b.input)
	}
	e.index++
}

// openUse begins a call of a tool in a stream.
func (e *encoder) openUse(b *toolBlock) {
	b.write(e.about("content_block_start").Key("content_block"), []byte("{}"))
	e.w.Lit(eventEnd)
}

func (b *toolBlock) write(w *rawjson.Writer, input []byte) {
	w.Object().Key("type").String(b.kind).Key("id").String(b.id).Key("name").String(b.name).Key("input").Raw(input).EndObject()
}

// writeRedacted writes a block of redacted thinking. No block is open.
func (e *encoder) writeRedacted(data string) {
	if e.stream {
		e.about("content_block_start").Key("content_block")
	}
	e.w.Object().Members(`"type":"redacted_thinking"`).Key("data").String(data).EndObject()
	if e.stream {
		e.w.Lit(eventEnd)
		e.closeBlock()
	}
}

// result writes the result of the provider's last tool. No block is open.
func (e *encoder) result(kind string, content []byte) {
	if e.stream {
		e.about("content_block_start").Key("content_block")
	}
	e.w.Object().Key("type").String(kind).Key("tool_use_id").String(e.server).Key("content").Raw(content).EndObject()
	if e.stream {
		e.w.Lit(eventEnd)
		e.closeBlock()
	}
	e.index++
}
