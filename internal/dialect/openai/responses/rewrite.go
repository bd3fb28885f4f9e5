package responses

import (
	"bytes"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// OwnItems are the items in the input of a body that not every provider can read: reasoning, and
// references to items that a provider has stored.
type OwnItems struct {
	Stateless bool // the body forbids the provider to store the answer
	List      []OwnItem
	body      []byte
}

// An OwnItem is one of OwnItems. It points into the body.
type OwnItem struct {
	Kind, ID  string
	Encrypted string // its encrypted_content; empty if it has none
	Content   bool   // it has readable content, beside its summary

	index       int // in the input
	before, end int // where the item before it ends, or the bracket, and where the item ends
}

// IsBare reports whether an item only names something that the provider would have to have stored:
// a reference, or reasoning without any content.
func (i *OwnItem) IsBare() bool {
	return i.Kind == itemReference || i.Kind == "reasoning" && i.ID != "" && i.Encrypted == "" && !i.Content
}

// Sealed returns the encrypted content of a reasoning item, and reports whether perigee made it, which
// no provider can read, also if the client has changed it; empty for a reference.
func (i *OwnItem) Sealed() (content string, own bool) {
	if i.Kind != "reasoning" {
		return "", false
	}
	return i.Encrypted, strings.HasPrefix(i.Encrypted, carrierStart)
}

// FindOwnItems reads a body. index is of the body, or nil.
func FindOwnItems(index *rawjson.Document, body []byte) *OwnItems {
	o := &OwnItems{body: body}
	c := index.Value(body)
	for key := range c.Object() {
		switch {
		case string(key) == "store":
			o.Stateless = string(c.Raw()) == "false"
		case string(key) == "input" && c.Kind() == rawjson.Array:
			o.read(c)
		}
	}
	return o
}

// read reads the items of an input.
func (o *OwnItems) read(c *rawjson.Cursor) {
	before := c.Offset() + 1
	for i := range c.Array() {
		if kind := kindOf(*c); kind == "reasoning" || kind == itemReference {
			item := OwnItem{Kind: kind, index: i, before: before}
			item.read(c)
			item.end = c.Offset()
			o.List = append(o.List, item)
		} else {
			c.Skip()
		}
		before = c.Offset()
	}
}

// kindOf returns the type of the item that c reads next, or "" for a value that is no object.
func kindOf(c rawjson.Cursor) string {
	if c.Kind() != rawjson.Object {
		return ""
	}
	for key := range c.Object() {
		if string(key) == "type" {
			return c.StringAlias()
		}
	}
	return ""
}

// read reads the members of the next item.
func (i *OwnItem) read(c *rawjson.Cursor) {
	for key := range c.Object() {
		switch string(key) {
		case "id":
			i.ID = c.StringAlias()
		case "encrypted_content":
			i.Encrypted = c.StringAlias()
		case "content":
			i.Content = c.Kind() == rawjson.String || c.Kind() == rawjson.Array && !isEmptyList(c.Raw())
		}
	}
}

// Without returns the body without the items for which drop returns true. All other bytes stay, but
// for the comma beside an item. It returns the body itself if there is none.
func (o *OwnItems) Without(drop func(item *OwnItem) bool) []byte {
	var edits []rawjson.Edit
	from := 0 // the end of the last edit
	for i := range o.List {
		item := &o.List[i]
		if !drop(item) {
			continue
		}
		edit := rawjson.Edit{Start: max(item.before, from), End: item.end} // with the comma before it
		if item.index == len(edits) {                                      // no item is left before it
			if rest, ok := bytes.CutPrefix(bytes.TrimLeft(o.body[item.end:], " \t\r\n"), []byte(",")); ok {
				edit.End = len(o.body) - len(rest)
			}
		}
		edits, from = append(edits, edit), edit.End
	}
	if len(edits) == 0 {
		return o.body
	}
	return rawjson.Splice(o.body, edits...)
}

// EncodeEffort returns the value of reasoning.effort, or nil if a request has none.
func EncodeEffort(t *perigee.Thinking) json.RawMessage {
	if t == nil || t.Level == "" {
		return nil
	}
	return rawjson.AppendString(nil, t.Level)
}

// EncodeTokenCount returns the answer to a request that counts tokens: the provider's own if it is
// in this API.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	if count.Raw != nil {
		return count.Raw
	}
	var w rawjson.Writer
	return w.Object().Members(`"object":"response.input_tokens"`).Key("input_tokens").Int(count.Total).EndObject().Buf
}
