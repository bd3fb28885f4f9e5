package anthropic

import (
	"slices"

	"perigee/internal/lib/rawjson"
)

// RemoveFromMessages returns the edits of a body after which no message has one of the members, or a
// block of one of the types, and what they remove. A type may be followed by a space and the name of
// the block. A message that would be empty is removed.
func RemoveFromMessages(body []byte, members, types []string) (edits []rawjson.Edit, removed []string) {
	start, _, found := rawjson.Find(body, "messages")
	if !found || body[start] != '[' || len(members)+len(types) == 0 {
		return nil, nil
	}
	r := remover{body: body, members: members, types: types}
	c := rawjson.NewCursor(body[start:])
	list := rawjson.Removal{Text: body, End: start + 1}
	for range c.Array() {
		at := start + c.Offset()
		stop := at + len(c.Raw())
		inside, empty := r.message(at, stop)
		if empty {
			edits = list.Drop(edits, stop)
			continue
		}
		list.Keep(edits, at)
		edits, list.End = append(edits, inside...), stop
	}
	return edits, r.removed
}

// A remover removes parts of messages.
type remover struct {
	body           []byte
	members, types []string
	removed        []string // each once
}

func (r *remover) note(what string) {
	if !slices.Contains(r.removed, what) {
		r.removed = append(r.removed, what)
	}
}

// message returns the edits of the message between two offsets. empty is set if no block is left.
func (r *remover) message(at, stop int) (edits []rawjson.Edit, empty bool) {
	c := rawjson.NewCursor(r.body[at:stop])
	if c.Kind() != rawjson.Object {
		return nil, false
	}
	members := rawjson.Removal{Text: r.body, End: at + 1}
	for key := range c.Object() {
		name, start, isList := string(key), at+c.Offset(), c.Kind() == rawjson.Array
		c.Skip()
		end := at + c.Offset()
		if slices.Contains(r.members, name) {
			r.note("messages[]." + name)
			edits = members.Drop(edits, end)
			continue
		}
		members.Keep(edits, start)
		if name == "content" && isList {
			drop := r.blocks(start, end)
			var blocks []rawjson.Edit
			blocks, empty = blockEdits(r.body, at, stop, drop, nil)
			edits = append(edits, blocks...)
		}
		members.End = end
	}
	return edits, empty
}

// blocks returns the offsets of the blocks of a list that are removed.
func (r *remover) blocks(start, end int) map[int]bool {
	drop := map[int]bool{}
	c := rawjson.NewCursor(r.body[start:end])
	for range c.Array() {
		at := start + c.Offset()
		if c.Kind() != rawjson.Object {
			c.Skip()
			continue
		}
		kind, name := "", ""
		for key := range c.Object() {
			switch text := c.Kind() == rawjson.String; {
			case text && string(key) == "type":
				kind = c.String()
			case text && string(key) == "name":
				name = c.String()
			default:
				c.Skip()
			}
		}
		if slices.Contains(r.types, kind) || slices.Contains(r.types, kind+" "+name) {
			r.note("block " + kind)
			drop[at] = true
		}
	}
	return drop
}
