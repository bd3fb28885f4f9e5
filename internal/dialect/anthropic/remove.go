package anthropic

import (
	"bytes"
	"slices"
	"strings"

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

// RemoveTools returns the edits of a body that remove the tools with types that begin with prefix, and
// these types. kept is set if another tool stays.
func RemoveTools(body []byte, prefix string) (edits []rawjson.Edit, types []string, kept bool) {
	start, _, found := rawjson.Find(body, "tools")
	if !found || body[start] != '[' {
		return nil, nil, false
	}
	c := rawjson.NewCursor(body[start:])
	list := rawjson.Removal{Text: body, End: start + 1}
	for range c.Array() {
		at := start + c.Offset()
		tool := c.Raw()
		from, to, _ := rawjson.Find(tool, "type")
		kind := strings.Trim(string(tool[from:to]), `"`)
		if strings.HasPrefix(kind, prefix) {
			types = append(types, kind)
			edits = list.Drop(edits, at+len(tool))
			continue
		}
		list.Keep(edits, at)
		list.End, kept = at+len(tool), true
	}
	return edits, types, kept
}

// RemoveFromMarks returns the edits of a body after which no mark for the cache has the member.
func RemoveFromMarks(body []byte, member string) []rawjson.Edit {
	if !bytes.Contains(body, []byte(`"`+member+`"`)) {
		return nil
	}
	var edits []rawjson.Edit
	var walk func(c *rawjson.Cursor)
	object := func(c *rawjson.Cursor, inside ...string) {
		for key := range c.Object() {
			switch {
			case string(key) == "cache_control" && c.Kind() == rawjson.Object:
				mark := rawjson.Removal{Text: body, End: c.Offset() + 1}
				for key := range c.Object() {
					drop, start := string(key) == member, c.Offset()
					if c.Skip(); drop {
						edits = mark.Drop(edits, c.Offset())
						continue
					}
					mark.Keep(edits, start)
					mark.End = c.Offset()
				}
			case slices.Contains(inside, string(key)):
				walk(c)
			default:
				c.Skip()
			}
		}
	}
	walk = func(c *rawjson.Cursor) {
		switch c.Kind() {
		case rawjson.Array:
			for range c.Array() {
				walk(c)
			}
		case rawjson.Object:
			object(c, "content")
		default:
			c.Skip()
		}
	}
	object(rawjson.NewCursor(body), "tools", "system", "messages")
	return edits
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
