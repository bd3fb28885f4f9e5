package anthropic

import (
	"bytes"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// RewriteModel returns a body in pieces, with another name of the model. All other bytes stay, and
// the pieces alias the body.
func RewriteModel(body []byte, model string) [][]byte {
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		if string(key) != "model" {
			continue
		}
		start, end := c.Span()
		name := rawjson.AppendString(nil, model)
		if bytes.Equal(name, body[start:end]) {
			return [][]byte{body}
		}
		return [][]byte{body[:start], name, body[end:]}
	}
	start, _ := rawjson.NewCursor(body).Span()
	member := append(rawjson.AppendString([]byte(`"model":`), model), ',')
	for range rawjson.NewCursor(body).Object() {
		return [][]byte{body[:start+1], member, body[start+1:]}
	}
	return [][]byte{body[:start+1], member[:len(member)-1], body[start+1:]}
}

// EncodeThinking returns the values of the members thinking and output_config.effort, or nil for a
// member that is left out.
func EncodeThinking(t *perigee.Thinking) (thinking, effort []byte) {
	w := requestWriter{}
	w.Object()
	w.thinking(t)
	if start, end, ok := rawjson.Find(w.EndObject().Buf, "thinking"); ok {
		thinking = w.Buf[start:end]
	}
	if t != nil && t.Level != "" {
		effort = rawjson.AppendString(nil, t.Level)
	}
	return thinking, effort
}

// WithoutThinking returns a body without the thinking that another provider has made: blocks with a
// signature for which foreign returns true, with no signature, or with one that perigee made. All
// other bytes stay. A message that would be empty is removed. changed is false if there is no such
// block; then the result is body.
func WithoutThinking(body []byte, foreign func(signatures []string) map[string]bool) (rest []byte, changed bool) {
	var blocks []thinkingBlock
	var signatures []string
	eachThinking(body, func(b thinkingBlock) {
		blocks = append(blocks, b)
		if b.signature != "" && !b.own {
			signatures = append(signatures, b.signature)
		}
	})
	if len(blocks) == 0 {
		return body, false
	}
	known := map[string]bool{}
	if foreign != nil && len(signatures) > 0 {
		known = foreign(signatures)
	}
	drop := map[int]bool{} // by the offset of a block
	for _, b := range blocks {
		if b.own || b.signature == "" || known[b.signature] {
			drop[b.at] = true
		}
	}
	if len(drop) == 0 {
		return body, false
	}
	start, end, _ := rawjson.Find(body, "messages")
	w := rawjson.Writer{Buf: append(make([]byte, 0, len(body)), body[:start]...)}
	w.Array()
	c := rawjson.NewCursor(body[start:end])
	for range c.Array() {
		at := start + c.Offset()
		if message := withoutBlocks(c.Raw(), at, drop); message != nil {
			w.Raw(message)
		}
	}
	return append(w.EndArray().Buf, body[end:]...), true
}

// A thinkingBlock is a block of thinking, or of redacted thinking.
type thinkingBlock struct {
	at        int    // its offset in the body
	signature string // or the data of redacted thinking
	own       bool   // perigee made the signature
}

// eachThinking visits the blocks of thinking in the messages of a body.
func eachThinking(body []byte, visit func(b thinkingBlock)) {
	c := rawjson.NewCursor(body)
	for key := range members(c) {
		if string(key) != "messages" || c.Kind() != rawjson.Array {
			continue
		}
		for range c.Array() {
			for key := range members(c) {
				if string(key) != "content" || c.Kind() != rawjson.Array {
					continue
				}
				for range c.Array() {
					b := thinkingBlock{at: c.Offset()}
					if readThinkingBlock(c, &b) {
						visit(b)
					}
				}
			}
		}
	}
}

// readThinkingBlock reads a block, and reports whether it is one of thinking.
func readThinkingBlock(c *rawjson.Cursor, b *thinkingBlock) (thinks bool) {
	signature, data := "", ""
	kind := ""
	for key := range members(c) {
		switch string(key) {
		case "type":
			kind = textOf(c)
		case "signature":
			signature = textOf(c)
		case "data":
			if kind == "redacted_thinking" || kind == "" {
				data = textOf(c)
			}
		}
	}
	b.signature = signature
	if kind == "redacted_thinking" {
		b.signature = data
	}
	b.own = strings.HasPrefix(b.signature, carrier)
	return kind == "thinking" || kind == "redacted_thinking"
}

// withoutBlocks returns a message that begins at an offset of the body without the blocks at the
// given offsets, or nil if no block is left.
func withoutBlocks(message []byte, at int, drop map[int]bool) []byte {
	start, end, ok := rawjson.Find(message, "content")
	c := rawjson.NewCursor(message[start:end])
	if !ok || c.Kind() != rawjson.Array {
		return message
	}
	w := rawjson.Writer{Buf: append([]byte{}, message[:start]...)}
	w.Array()
	kept, dropped := 0, 0
	for range c.Array() {
		offset := at + start + c.Offset()
		block := c.Raw()
		if drop[offset] {
			dropped++
			continue
		}
		kept++
		w.Raw(block)
	}
	switch {
	case dropped == 0:
		return message
	case kept == 0:
		return nil
	}
	return append(w.EndArray().Buf, message[end:]...)
}
