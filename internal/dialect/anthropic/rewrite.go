package anthropic

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// ThinkingMembers returns the members about how much to think, by their paths. The value of a member
// that must not be there is nil. How thinking is shown stays as the body has it.
func ThinkingMembers(t *perigee.Thinking) map[string]json.RawMessage {
	members := map[string]json.RawMessage{"output_config.effort": nil}
	if t != nil && t.Level != "" {
		members["output_config.effort"] = rawjson.AppendString(nil, t.Level)
	}
	kind := thinkingType(t)
	if kind == "" {
		members["thinking"] = nil
		return members
	}
	members["thinking.type"], members["thinking.budget_tokens"] = rawjson.AppendString(nil, kind), nil
	switch kind {
	case "enabled":
		members["thinking.budget_tokens"] = strconv.AppendInt(nil, *t.Budget, 10)
	case "disabled":
		members["thinking.display"] = nil
	}
	return members
}

// A ThinkingChange is what RewriteThinking has changed, or could not.
type ThinkingChange struct {
	Dropped bool // there was thinking of another provider
	Lost    bool // another provider began the tool loop, and the request turns thinking on with a budget
}

// RewriteThinking returns the edits of a body after which it has the thinking that the provider
// takes, in order. Blocks of thinking of another provider are left out: those that recall knows to be
// foreign, those without a signature, and those with one that perigee made. If thinking is on,
// messages of the current tool loop that have lost their thinking get it back. A message that would be
// empty is removed.
//
// index is of the body, of a text that the body is a part of, or nil. byDefault is set if the model thinks unless the body turns that off.
func RewriteThinking(index *rawjson.Document, body []byte, recall perigee.Recall, byDefault bool) (edits []rawjson.Edit, change ThinkingChange) {
	messages, mode := thinkingMessages(index.Value(body))
	drop := foreignBlocks(messages, recall)
	change.Dropped = len(drop) > 0
	insert := map[int][]byte{} // by the offset of a message
	if recall != nil && (mode == "enabled" || mode == "adaptive" || mode == "" && byDefault) {
		var foreign bool
		insert, foreign = restoredThinking(messages, drop, recall)
		change.Lost = foreign && mode == "enabled"
	}
	if len(drop) == 0 && len(insert) == 0 {
		return nil, change
	}
	start, end, _ := rawjson.Find(body, "messages")
	c := rawjson.NewCursor(body[start:end])
	list := rawjson.Removal{Text: body, End: start + 1}
	for range c.Array() {
		at := start + c.Offset()
		message := c.Raw()
		blocks, empty := blockEdits(body, at, at+len(message), drop, insert[at])
		if empty {
			edits = list.Drop(edits, at+len(message))
			continue
		}
		list.Keep(edits, at)
		edits = append(edits, blocks...)
		list.End = at + len(message)
	}
	return edits, change
}

// CloseRound returns a body in which the open round of tools is over: the turn of the assistant ends
// after the results, and the user asks it to continue. All other bytes stay. ok is false if the last
// message has no results.
func CloseRound(body []byte) (closed []byte, ok bool) {
	messages, _ := thinkingMessages(rawjson.NewCursor(body))
	if n := len(messages); n == 0 || !messages[n-1].results {
		return body, false
	}
	_, end, _ := rawjson.Find(body, "messages")
	const closing = `,{"role":"assistant","content":"[The tools have answered.]"},{"role":"user","content":"Continue."}`
	return rawjson.Splice(body, rawjson.Edit{Start: end - 1, End: end - 1, New: []byte(closing)}), true
}

// A thinkingMessage is a message in a body, and what of it concerns thinking.
type thinkingMessage struct {
	at        int // its offset in the body
	assistant bool
	results   bool     // it has results of tools
	calls     []string // the ids of its calls
	blocks    []thinkingBlock
}

// A thinkingBlock is a block of thinking, or of redacted thinking.
type thinkingBlock struct {
	at        int    // its offset in the body
	signature string // or the data of redacted thinking
	own       bool   // perigee made the signature
}

// thinkingMessages returns the messages of the body before a cursor, and the type of thinking that it asks for.
func thinkingMessages(c *rawjson.Cursor) (list []thinkingMessage, mode string) {
	if c.Kind() != rawjson.Object {
		return nil, ""
	}
	for key := range c.Object() {
		switch {
		case string(key) == "thinking" && c.Kind() == rawjson.Object:
			for key := range c.Object() {
				if string(key) == "type" {
					mode = c.StringAlias()
				}
			}
		case string(key) == "messages" && c.Kind() == rawjson.Array:
			for range c.Array() {
				list = append(list, thinkingMessage{at: c.Offset()})
				list[len(list)-1].read(c)
			}
		}
	}
	return list, mode
}

func (m *thinkingMessage) read(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		return
	}
	for key := range c.Object() {
		switch {
		case string(key) == "role":
			m.assistant = c.StringAlias() == "assistant"
		case string(key) == "content" && c.Kind() == rawjson.Array:
			for range c.Array() {
				m.block(c)
			}
		}
	}
}

// block reads a block of the content.
func (m *thinkingMessage) block(c *rawjson.Cursor) {
	b := thinkingBlock{at: c.Offset()}
	kind, id, data := "", "", ""
	if c.Kind() != rawjson.Object {
		return
	}
	for key := range c.Object() {
		switch string(key) {
		case "type":
			kind = c.StringAlias()
		case "signature":
			b.signature = c.StringAlias()
		case "id":
			id = c.StringAlias()
		case "data":
			if kind == "redacted_thinking" || kind == "" {
				data = c.StringAlias()
			}
		}
	}
	switch kind {
	case "tool_use":
		m.calls = append(m.calls, id)
	case "tool_result":
		m.results = true
	case "redacted_thinking":
		b.signature = data
		fallthrough
	case "thinking":
		b.own = strings.HasPrefix(b.signature, carrier)
		m.blocks = append(m.blocks, b)
	}
}

// foreignBlocks returns the offsets of blocks of thinking that another provider has made.
func foreignBlocks(messages []thinkingMessage, recall perigee.Recall) map[int]bool {
	var signatures []string
	for i := range messages {
		for _, b := range messages[i].blocks {
			if b.signature != "" && !b.own {
				signatures = append(signatures, b.signature)
			}
		}
	}
	var known map[string]bool
	if recall != nil && signatures != nil {
		known = recall.Foreign(signatures)
	}
	drop := map[int]bool{}
	for i := range messages {
		for _, b := range messages[i].blocks {
			if b.own || b.signature == "" || known[b.signature] {
				drop[b.at] = true
			}
		}
	}
	return drop
}

// restoredThinking returns the blocks of thinking that messages of the current tool loop have lost,
// by the offset of the message, each followed by a comma. foreign is set if another provider began
// the loop.
func restoredThinking(messages []thinkingMessage, drop map[int]bool, recall perigee.Recall) (insert map[int][]byte, foreign bool) {
	start := len(messages)
	for start > 0 && (messages[start-1].assistant || messages[start-1].results) {
		start--
	}
	if start == len(messages) || messages[len(messages)-1].assistant {
		return nil, false // no loop is open
	}
	var lost []*thinkingMessage
	var list []perigee.Recalled
	for i := range messages[start:] {
		m := &messages[start+i]
		kept := slices.ContainsFunc(m.blocks, func(b thinkingBlock) bool { return !drop[b.at] })
		if m.assistant && len(m.calls) > 0 && !kept {
			lost, list = append(lost, m), append(list, perigee.Recalled{Calls: m.calls})
		}
	}
	if lost == nil {
		return nil, false
	}
	recall.Messages(list)
	insert = map[int][]byte{}
	for i, m := range lost {
		if list[i].Known != nil {
			w := requestWriter{}
			w.Array()
			w.elements(list[i].Known)
			insert[m.at] = append(w.EndArray().Buf[1:len(w.Buf)-1], ',')
		} else if m == firstOf(messages[start:]) {
			foreign = list[i].Foreign
		}
	}
	return insert, foreign
}

// firstOf returns the first message of the assistant, of which there is one.
func firstOf(loop []thinkingMessage) *thinkingMessage {
	return &loop[slices.IndexFunc(loop, func(m thinkingMessage) bool { return m.assistant })]
}

// blockEdits returns the edits of a message, between two offsets of the body, that remove the blocks
// at the given offsets and insert blocks before the first one. empty is set if no block is left.
func blockEdits(body []byte, at, stop int, drop map[int]bool, insert []byte) (edits []rawjson.Edit, empty bool) {
	start, end, ok := rawjson.Find(body[at:stop], "content")
	start, end = at+start, at+end
	c := rawjson.NewCursor(body[start:end])
	if !ok || c.Kind() != rawjson.Array {
		return nil, false
	}
	if insert != nil {
		edits = append(edits, rawjson.Edit{Start: start + 1, End: start + 1, New: insert})
	}
	blocks := rawjson.Removal{Text: body, End: start + 1}
	kept, dropped := 0, 0
	for range c.Array() {
		offset := start + c.Offset()
		c.Skip()
		if drop[offset] {
			edits = blocks.Drop(edits, start+c.Offset())
			dropped++
			continue
		}
		blocks.Keep(edits, offset)
		blocks.End = start + c.Offset()
		kept++
	}
	return edits, kept == 0 && (dropped > 0 || insert != nil)
}
