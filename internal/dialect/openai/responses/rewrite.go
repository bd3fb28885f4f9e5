package responses

import (
	"bytes"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// An OwnItem is an item of the input of a body, for WithoutItems.
type OwnItem struct {
	Kind, ID  string
	Encrypted string // its encrypted_content; empty if it has none
	Content   bool   // it has readable content, beside its summary
}

// Stateless reports whether the body of a request forbids the provider to store the answer. index is
// of the body, or nil.
func Stateless(index *rawjson.Document, body []byte) bool {
	c := index.Value(body)
	for key := range c.Object() {
		if string(key) == "store" {
			return string(c.Raw()) == "false"
		}
	}
	return false
}

// IsBare reports whether an item only names something that the provider would have to have stored:
// a reference, or reasoning without any content.
func (i *OwnItem) IsBare() bool {
	return i.Kind == "item_reference" || i.Kind == "reasoning" && i.ID != "" && i.Encrypted == "" && !i.Content
}

// Sealed returns the encrypted content of a reasoning item, and reports whether perigee made it, which
// no provider can read, also if the client has changed it; empty for all other items.
func (i *OwnItem) Sealed() (content string, own bool) {
	if i.Kind != "reasoning" {
		return "", false
	}
	return i.Encrypted, strings.HasPrefix(i.Encrypted, carrierStart)
}

// WithoutItems returns a body without the items of its input for which drop returns true. All other
// bytes stay, but for the comma beside an item. It returns body itself if there is none. index is of
// the body, or nil.
func WithoutItems(index *rawjson.Document, body []byte, drop func(item *OwnItem) bool) []byte {
	var edits []rawjson.Edit
	c := index.Value(body)
	for key := range c.Object() {
		if string(key) != "input" || c.Kind() != rawjson.Array {
			continue
		}
		end := c.Offset() + 1 // of the last item, or of the bracket
		kept, removed := false, false
		for range c.Array() {
			start := c.Offset()
			item := readOwnItem(c)
			if item != nil && drop(item) {
				edits = append(edits, rawjson.Edit{Start: end, End: c.Offset()}) // with the comma before it
				removed = true
			} else {
				if removed && !kept { // the comma before this item separates it from none
					edits[len(edits)-1].End += bytes.IndexByte(body[end:start], ',') + 1
				}
				kept = true
			}
			end = c.Offset()
		}
	}
	if c.Err() != nil || len(edits) == 0 {
		return body
	}
	return rawjson.Splice(body, edits...)
}

// readOwnItem reads the next item. It returns nil for a value that is no object.
func readOwnItem(c *rawjson.Cursor) *OwnItem {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return nil
	}
	var item OwnItem
	for key := range c.Object() {
		switch string(key) {
		case "type":
			item.Kind = text(c)
		case "id":
			item.ID = text(c)
		case "encrypted_content":
			item.Encrypted = text(c)
		case "content":
			item.Content = c.Kind() == rawjson.String || c.Kind() == rawjson.Array && !isEmptyList(c.Raw())
		}
	}
	return &item
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
