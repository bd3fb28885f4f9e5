package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// ID returns the id of the response to a call. The ids of its items have the call's id in them,
// too, so that an item alone is enough to find the response again.
func ID(call string) string { return "resp_" + call }

// storedElsewhere is the object of a record of a response that is stored at an upstream.
const storedElsewhere = "response.elsewhere"

// Elsewhere returns what is stored here of a response that an upstream stores: its name.
func Elsewhere(upstream string) json.RawMessage {
	var w rawjson.Writer
	return w.Object().Key("object").String(storedElsewhere).Key("upstream").String(upstream).EndObject().Buf
}

// StoredAt returns the upstream that stores a response, or "" for a response that is stored here.
func StoredAt(response json.RawMessage) string {
	var object, upstream string
	rawjson.NewCursor(response).Read(nil, "object", &object, "upstream", &upstream)
	if object != storedElsewhere {
		return ""
	}
	return upstream
}

// responseOf returns the id of the response that an item of this id belongs to, or "" if the id is
// not one of perigee.
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

// itemExtra is the maximum number of bytes added to an item, without the name of the call.
const itemExtra = 128

// InputItems returns all input of the model as an array of items with ids: the conversation that
// the request continues, then its own input.
func (r *Request) InputItems(call string) json.RawMessage {
	if r.items != nil {
		return r.items
	}
	// Most items have no id and get one; strings become messages.
	size := len(r.earlier[0]) + len(r.earlier[1]) + len(r.input) + len(r.given)*(itemExtra+len(call)) + 1024
	w := rawjson.Writer{Buf: make([]byte, 0, size)}
	w.Array()
	for _, items := range r.earlier {
		w.Elements(bytes.TrimSuffix(bytes.TrimPrefix(items, []byte("[")), []byte("]")))
	}
	c := rawjson.NewCursor(r.input)
	references := r.references
	switch {
	case r.given != nil:
		for i := range r.given {
			if g := &r.given[i]; !g.write(&w, call, i) {
				references = writeItem(&w, rawjson.NewCursor(g.raw), itemName{call, i}, references)
			}
		}
	case c.Kind() == rawjson.String:
		writeQuestion(&w, itemName{call, 0}, c.Raw())
	default:
		for i := range c.Array() {
			references = writeItem(&w, c, itemName{call, i}, references)
		}
	}
	return w.EndArray().Buf
}

// KeepItems computes the result of InputItems, and drops the data that it was made from.
func (r *Request) KeepItems(call string) {
	items := r.InputItems(call)
	r.Detach()
	r.items = items
}

// Detach copies the members of the request that the answer repeats, and drops the rest: the memory
// that it was decoded from may then be reused. InputItems must not be called after it.
func (r *Request) Detach() {
	for i, value := range r.echo {
		r.echo[i] = bytes.Clone(value)
	}
	r.dropInput()
}

func (r *Request) dropInput() {
	r.input, r.given, r.earlier, r.references, r.tools.declared = nil, nil, [2]json.RawMessage{}, nil, nil
}

// forget drops all data of the request, for an answer that repeats nothing of it because it is the
// provider's own. The memory that it was decoded from may then be reused.
func (r *Request) forget() {
	r.echo = [len(echoes)]json.RawMessage{}
	r.dropInput()
}

// writeQuestion writes an input that is a string as an item.
func writeQuestion(w *rawjson.Writer, name itemName, text json.RawMessage) {
	name.write(w.Object(), "message")
	w.Lit(`,"type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":`).Raw(text).Lit(`}]}`)
}

// A givenItem is an item of a request's input: its raw bytes, and the members that are needed to
// store it.
type givenItem struct {
	raw    json.RawMessage
	kind   string
	id     []byte // nil if it has none
	status bool
	apart  bool // it has to be read again to be stored
}

// write writes an item as writeItem does, but without reading it, if it begins as clients write
// items: with its type, or with its id and its type. Otherwise it writes nothing.
func (g *givenItem) write(w *rawjson.Writer, call string, i int) bool {
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
	w.Object()
	if g.id == nil {
		itemName{call, i}.write(w, g.kind)
	} else {
		w.Key("id").Quoted(g.id)
	}
	w.Lit(`,"type":"`).Lit(g.kind).Lit(`"`)
	if g.kind == "message" && !g.status {
		w.Members(`"status":"completed"`)
	}
	w.Buf = append(w.Buf, rest...) // the rest of the object
	return true
}

// cutAll removes the parts from the beginning of text, one after the other, and reports whether all
// were there.
func cutAll(text []byte, parts ...string) (rest []byte, ok bool) {
	for _, part := range parts {
		if len(text) < len(part) || string(text[:len(part)]) != part {
			return nil, false
		}
		text = text[len(part):]
	}
	return text, true
}

// An itemName has the data for the id of an item without one: the call and the index in its input.
// It needs no escapes.
type itemName struct {
	call string
	i    int
}

// write writes the member id of an item of a type.
func (n itemName) write(w *rawjson.Writer, kind string) {
	w.Lit(`"id":"`).Lit(idPrefix(kind)).Lit("_").Lit(n.call).Lit("_i").Int(int64(n.i)).Lit(`"`)
}

// writeItem writes the next item of c with an id and a type. A reference is replaced by its item;
// the remaining references are returned.
func writeItem(w *rawjson.Writer, c *rawjson.Cursor, name itemName, references []json.RawMessage) []json.RawMessage {
	if c.Kind() == rawjson.String {
		writeQuestion(w, name, c.Raw())
		return references
	}
	at := *c
	item := readItem(&at)
	if item.kind == itemReference && len(references) > 0 {
		c.Skip()
		w.Raw(references[0])
		return references[1:]
	}
	if item.kind == "" {
		item.kind = "message"
	}
	w.Object()
	if len(item.id) > 0 {
		w.Key("id").String(string(item.id))
	} else {
		name.write(w, item.kind)
	}
	w.Key("type").String(item.kind)
	if item.kind == "message" && !item.status {
		w.Members(`"status":"completed"`)
	}
	for key := range c.Object() {
		if name := string(key); name != "id" && name != "type" && (name != "status" || item.status) {
			writeItemMember(w.AnyKey(name), name, &item, c)
		}
	}
	w.EndObject()
	return references
}

// writeItemMember writes the value of a member. The content of a message is always an array of
// parts.
func writeItemMember(w *rawjson.Writer, name string, item *inputItem, c *rawjson.Cursor) {
	if item.kind != "message" || name != "content" || c.Kind() != rawjson.String {
		w.Raw(c.Raw())
		return
	}
	kind := "input_text"
	if item.role == "assistant" {
		kind = "output_text"
	}
	w.Array().Object().Key("type").String(kind).Key("text").Raw(c.Raw()).EndObject().EndArray()
}

var idPrefixes = map[string]string{
	"message": "msg", "function_call": "fc", "function_call_output": "fco", "custom_tool_call": "ctc",
	"custom_tool_call_output": "ctco", "reasoning": "rs", "additional_tools": "at",
}

// idPrefix returns the prefix of the ids of items of a type.
func idPrefix(kind string) string {
	if prefix, ok := idPrefixes[kind]; ok {
		return prefix
	}
	return "item"
}

// An ItemsQuery asks for a page of items.
type ItemsQuery struct {
	Limit     int
	After     string // the id of the last item of the previous page; empty means from the start
	Ascending bool   // oldest first
}

// PageItems returns one page of an array of items as the API's list, and false if there is no item
// After.
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
	first, last := "", ""
	if len(list) > 0 {
		first, last = itemID(list[0]), itemID(list[len(list)-1])
	}
	var w rawjson.Writer
	w.Object().Members(`"object":"list"`).Key("data").Array()
	for _, item := range list {
		w.Raw(item)
	}
	w.EndArray().Key("first_id").StringOrNull(first).Key("last_id").StringOrNull(last)
	return w.Key("has_more").Bool(more).EndObject().Buf, true
}

// Deleted returns the answer to the deletion of a response.
func Deleted(id string) []byte {
	var w rawjson.Writer
	return w.Object().Key("id").String(id).Members(`"object":"response","deleted":true`).EndObject().Buf
}

// A State has the members of a response that its storage depends on.
type State struct {
	Pending    bool // it was not finished when it was stored
	Background bool
}

// StateOf reads the state of a response.
func StateOf(response json.RawMessage) State {
	var s State
	c := rawjson.NewCursor(response)
	var is string
	c.Read(nil, "status", &is, "background", &s.Background)
	s.Pending = status(is) == statusQueued || status(is) == statusInProgress
	return s
}

// CutOff returns an abandoned response with the status failed.
func CutOff(response json.RawMessage) json.RawMessage {
	return withMembers(response, map[string]string{
		"status": `"failed"`,
		"error":  `{"code":"server_error","message":"perigee ended before the response did"}`,
	})
}

// withMembers returns an object with the given values in place of its own. Members that it does not
// have are not added.
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
