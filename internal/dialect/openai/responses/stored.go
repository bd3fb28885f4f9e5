package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/rawjson"
)

// ID is the id of the response to a call. The ids of its items have the call's id in them, too, so that an
// item alone is enough to find the response again.
func ID(call string) string { return "resp_" + call }

// responseOf is the id of the response that an item belongs to, if we named the item.
func responseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	if i := strings.LastIndexByte(rest, '_'); i > 0 {
		return ID(rest[:i])
	}
	return ""
}

func split(items json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	c := rawjson.NewCursor(items)
	for range c.Array() {
		list = append(list, c.Raw())
	}
	return list
}

func itemID(item json.RawMessage) (id string) {
	c := rawjson.NewCursor(item)
	for key := range c.Object() {
		if string(key) == "id" && c.Kind() == rawjson.String {
			return c.String()
		}
	}
	return ""
}

// itemExtra is by how much an item gets longer at most, beside the name of the call.
const itemExtra = 128

// InputItems returns everything that the model was given, as an array of items that all have ids: the conversation
// that was gone on from, then this request's own input.
func (r *Request) InputItems(call string) json.RawMessage {
	if r.items != nil {
		return r.items
	}
	// Most items come without an id and get one, and plain questions all that makes a message of them.
	size := len(r.earlier[0]) + len(r.earlier[1]) + len(r.input) + len(r.given)*(itemExtra+len(call)) + 1024
	w := writer{buf: append(make([]byte, 0, size), '[')}
	for _, items := range r.earlier {
		w.elements(bytes.TrimSuffix(bytes.TrimPrefix(items, []byte("[")), []byte("]")))
	}
	c := rawjson.NewCursor(r.input)
	references := r.references
	switch {
	case r.given != nil:
		for i := range r.given {
			if g := &r.given[i]; !w.givenItem(g, call, i) {
				references = w.inputItem(rawjson.NewCursor(g.raw), call, i, references)
			}
		}
	case c.Kind() == rawjson.String:
		w.comma()
		w.message(call, 0, c.Raw())
	default:
		for i := range c.Array() {
			references = w.inputItem(c, call, i, references)
		}
	}
	w.lit("]")
	return w.buf
}

// KeepItems makes what InputItems returns, and drops what that was made of.
func (r *Request) KeepItems(call string) {
	items := r.InputItems(call)
	r.Detach()
	r.items = items
}

// Detach copies what the answer repeats of the request, and drops the rest: the memory that it was decoded from may then be used for
// something else. InputItems must not be called after it.
func (r *Request) Detach() {
	for i, value := range r.echo {
		r.echo[i] = bytes.Clone(value)
	}
	r.input, r.given, r.earlier, r.references, r.tools.declared = nil, nil, [2]json.RawMessage{}, nil, nil
}

// comma appends what separates elements of the array that is open.
func (w *writer) comma() {
	if w.buf[len(w.buf)-1] != '[' {
		w.lit(",")
	}
}

// elements appends one or more elements to the array that is open.
func (w *writer) elements(list []byte) {
	if len(list) > 0 {
		w.comma()
		w.raw(list)
	}
}

// message appends a plain question as the item that it stands for.
func (w *writer) message(call string, i int, text json.RawMessage) {
	w.lit(`{"id":"`)
	w.itemName("message", call, i)
	w.lit(`","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":`)
	w.raw(text)
	w.lit(`}]}`)
}

// A givenItem is an item of a request's input: its bytes as they came, and what of it has to be known to store it.
type givenItem struct {
	raw    json.RawMessage
	kind   string
	id     []byte // nil: it has none
	status bool
	apart  bool // it has to be read again
}

// givenItem appends an item as inputItem does, but without reading it, if it begins as clients write items: with its type,
// or with its id and its type. Otherwise it appends nothing.
func (w *writer) givenItem(g *givenItem, call string, i int) bool {
	if g.apart {
		return false
	}
	var rest []byte
	var ok bool
	if g.id == nil {
		rest, ok = cutAll(g.raw, `{"type":"`, g.kind, `"`)
	} else {
		rest, ok = cutAll(g.raw, `{"id":"`, string(g.id), `","type":"`, g.kind, `"`)
		ok = ok && len(g.id) > 0
	}
	if !ok {
		return false
	}
	w.comma()
	w.lit(`{"id":"`)
	if g.id == nil {
		w.itemName(g.kind, call, i)
	} else {
		w.raw(g.id)
	}
	w.lit(`","type":"`)
	w.lit(g.kind)
	w.lit(`"`)
	if g.kind == "message" && !g.status {
		w.lit(`,"status":"completed"`)
	}
	w.raw(rest)
	return true
}

// cutAll returns what follows the parts that text begins with, one behind the other.
func cutAll(text []byte, parts ...string) (rest []byte, ok bool) {
	for _, part := range parts {
		if len(text) < len(part) || string(text[:len(part)]) != part {
			return nil, false
		}
		text = text[len(part):]
	}
	return text, true
}

// itemName appends the id of an item that came without one, which needs no escapes.
func (w *writer) itemName(kind, call string, i int) {
	w.lit(idPrefix(kind))
	w.lit("_")
	w.lit(call)
	w.lit("_i")
	w.int(int64(i))
}

// inputItem appends the next item of c with an id and a type. A reference becomes what it stands for; the rest of
// the references is returned.
func (w *writer) inputItem(c *rawjson.Cursor, call string, i int, references []json.RawMessage) []json.RawMessage {
	w.comma()
	if c.Kind() == rawjson.String {
		w.message(call, i, c.Raw())
		return references
	}
	at := *c
	item := readItem(&at)
	if item.kind == "item_reference" && len(references) > 0 {
		c.Skip()
		w.raw(references[0])
		return references[1:]
	}
	if item.kind == "" {
		item.kind = "message"
	}
	w.lit(`{"id":`)
	if len(item.id) > 0 {
		w.str(string(item.id))
	} else {
		w.lit(`"`)
		w.itemName(item.kind, call, i)
		w.lit(`"`)
	}
	w.lit(`,"type":`)
	w.str(item.kind)
	if item.kind == "message" && !item.status {
		w.lit(`,"status":"completed"`)
	}
	for key := range c.Object() {
		if name := string(key); name != "id" && name != "type" && (name != "status" || item.status) {
			w.lit(",")
			w.str(name)
			w.lit(":")
			w.itemMember(name, &item, c)
		}
	}
	w.lit("}")
	return references
}

// itemMember appends the value of a member. The content of a message is always an array of parts.
func (w *writer) itemMember(name string, item *inputItem, c *rawjson.Cursor) {
	if item.kind != "message" || name != "content" || c.Kind() != rawjson.String {
		w.raw(c.Raw())
		return
	}
	kind := "input_text"
	if item.role == "assistant" {
		kind = "output_text"
	}
	w.lit(`[{"type":"` + kind + `","text":`)
	w.raw(c.Raw())
	w.lit(`}]`)
}

var idPrefixes = map[string]string{
	"message": "msg", "function_call": "fc", "function_call_output": "fco", "custom_tool_call": "ctc",
	"custom_tool_call_output": "ctco", "reasoning": "rs", "additional_tools": "at",
}

// idPrefix is what the ids of items of a type begin with.
func idPrefix(kind string) string {
	if prefix, ok := idPrefixes[kind]; ok {
		return prefix
	}
	return "item"
}

// An ItemsQuery asks for a page of items.
type ItemsQuery struct {
	Limit     int
	After     string // the id of the last item of the page before; empty: from the start
	Ascending bool   // oldest first
}

// PageItems returns one page of an array of items as the API's list. It is false when there is no item After.
func PageItems(items json.RawMessage, q ItemsQuery) ([]byte, bool) {
	list := split(items)
	if !q.Ascending {
		slices.Reverse(list)
	}
	if q.After != "" {
		i := slices.IndexFunc(list, func(item json.RawMessage) bool { return itemID(item) == q.After })
		if i < 0 {
			return nil, false
		}
		list = list[i+1:]
	}
	more := len(list) > q.Limit
	if more {
		list = list[:q.Limit]
	}
	w := writer{}
	w.lit(`{"object":"list","data":[`)
	for _, item := range list {
		w.elements(item)
	}
	w.lit(`],"first_id":`)
	w.endID(list, 0)
	w.lit(`,"last_id":`)
	w.endID(list, len(list)-1)
	w.lit(`,"has_more":`)
	w.lit(fmt.Sprint(more))
	w.lit(`}`)
	return w.buf, true
}

func (w *writer) endID(list []json.RawMessage, i int) {
	if len(list) == 0 {
		w.lit(`null`)
		return
	}
	w.str(itemID(list[i]))
}

// Deleted says that a response is no more.
func Deleted(id string) []byte {
	w := writer{}
	w.lit(`{"id":`)
	w.str(id)
	w.lit(`,"object":"response","deleted":true}`)
	return w.buf
}

// A State is what the keeper of responses has to know of one.
type State struct {
	Pending    bool // it was not finished when it was stored
	Background bool
}

// StateOf reads the state of a response.
func StateOf(response json.RawMessage) State {
	var s State
	c := rawjson.NewCursor(response)
	for key := range c.Object() {
		switch string(key) {
		case "status":
			status := status(c.String())
			s.Pending = status == statusQueued || status == statusInProgress
		case "background":
			s.Background = c.Bool()
		}
	}
	return s
}

// CutOff returns a response that nobody works on any more as what it is: failed.
func CutOff(response json.RawMessage) json.RawMessage {
	return withMembers(response, map[string]string{
		"status": `"failed"`,
		"error":  `{"code":"server_error","message":"perigee ended before the response did"}`,
	})
}

// withMembers returns an object with other values for those of the members that it has.
func withMembers(object json.RawMessage, values map[string]string) json.RawMessage {
	var edits []rawjson.Edit
	for name, value := range values {
		if start, end, ok := rawjson.Find(object, name); ok {
			edits = append(edits, rawjson.Edit{Start: start, End: end, New: []byte(value)})
		}
	}
	slices.SortFunc(edits, func(a, b rawjson.Edit) int { return a.Start - b.Start })
	return rawjson.Splice(object, edits...)
}
