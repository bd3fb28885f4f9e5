package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// An inputItem is one item of the conversation with its raw members: their meaning depends on the
// type, which may come last. It points into the text that it was read from.
type inputItem struct {
	kind      string
	role      string
	id        []byte
	callID    []byte
	name      []byte
	namespace []byte
	added     bool            // the content is in the conversation already
	status    bool            // it has a status
	body      json.RawMessage // content, arguments, input, action …
	output    json.RawMessage
	summary   json.RawMessage
	encrypted json.RawMessage // encrypted_content
	tools     json.RawMessage
	other     []string // members that the API does not have

	apart bool // its stored form differs from the input: content without parts, or null members
}

// items reads an array of items.
func (d *decoder) items(c *rawjson.Cursor) {
	for i := range c.Array() {
		if d.wrong != nil {
			return
		}
		from := c.Offset()
		d.turns.Reserve(c)
		if d.keeping {
			d.out.given = rawjson.Reserve(c, d.out.given)
		}
		if c.Kind() == rawjson.String { // a list of plain questions
			d.turns.UserPart(perigee.Part{Kind: perigee.PartText, Text: perigee.Escaped(c.Inside())})
			d.keepItem(from, c.Offset(), &inputItem{apart: true})
			continue
		}
		var item inputItem
		for key := range c.Object() {
			switch {
			case c.Kind() == rawjson.Null:
				item.apart = item.apart || string(key) == "id" || string(key) == "type" || string(key) == "status"
			case string(key) == "content" && item.kind == "message" && item.role != "":
				// The type usually precedes the content, which can then be read in place.
				item.added, item.apart = true, item.apart || c.Kind() == rawjson.String
				d.message(i, item.role, c)
			default:
				item.find(key, c)
			}
		}
		if c.Err() == nil {
			d.keepItem(from, c.Offset(), &item)
			d.item(i, &item)
		}
	}
}

// keepItem records the type and the position of an item of the request's own input, so that it can
// be stored without being read again.
func (d *decoder) keepItem(from, to int, item *inputItem) {
	if d.keeping {
		apart := item.apart || item.kind == "" || item.kind == itemReference || item.kind == "message" && !item.added
		d.out.given = append(d.out.given,
			givenItem{raw: d.out.input[from:to:to], kind: item.kind, id: item.id, status: item.status, apart: apart})
	}
}

// readItem finds the members of the next item.
func readItem(c *rawjson.Cursor) inputItem {
	var item inputItem
	for key := range c.Object() {
		if c.Kind() != rawjson.Null {
			item.find(key, c)
		}
	}
	return item
}

// find takes one member of the item.
func (item *inputItem) find(key []byte, c *rawjson.Cursor) {
	switch string(key) {
	case "type":
		item.kind = word(c)
	case "role":
		item.role = word(c)
	case "id":
		item.id = c.Bytes()
	case "call_id":
		item.callID = c.Bytes()
	case "name":
		item.name = c.Bytes()
	case "namespace":
		item.namespace = c.Bytes()
	case "content", "arguments", "input", "action", "operation", "result":
		item.body = c.Raw()
	case "output":
		item.output = c.Raw()
	case "summary":
		item.summary = c.Raw()
	case "encrypted_content":
		item.encrypted = c.Raw()
	case "tools":
		item.tools = c.Raw()
	case "status":
		item.status = true
	case "phase", "execution", "caller", "created_by", "parsed_arguments", "max_output_length",
		"pending_safety_checks", "acknowledged_safety_checks", "async",
		"output_format", "background", "quality", "size", "revised_prompt":
		// Members that perigee's answers or SDKs add to an item, and that the model does not need.
	default:
		item.other = append(item.other, string(key))
	}
}

// words are the most frequent types and roles.
var words = [...]string{
	"function_call", "function_call_output", "message", "reasoning", "user", "assistant", "input_text", "output_text",
	"function", "custom_tool_call", "custom_tool_call_output", "developer", "system",
}

// word reads a type or a role. It does not allocate for frequent ones.
func word(c *rawjson.Cursor) string {
	raw := c.Bytes()
	for _, word := range words {
		if string(raw) == word {
			return word
		}
	}
	return string(raw)
}

// item adds one item to the conversation.
func (d *decoder) item(i int, item *inputItem) {
	known := true
	switch item.kind {
	case "message", "":
		d.wholeMessage(i, item)
	case "function_call":
		d.functionCall(i, item)
	case "custom_tool_call":
		d.call(item, d.nameOf(item), openai.Wrap("input", d.jsonText(i, "input", item.body)))
	case "function_call_output", "custom_tool_call_output":
		d.toolOutput(i, item)
	case "reasoning":
		d.reasoningItem(i, item)
	case itemReference:
		d.reference(i, item)
	case "additional_tools":
		d.nested(i, "tools", item.tools, func(c *rawjson.Cursor) { d.toolList(c, "") })
	case "tool_search_call":
		d.call(item, d.out.tools.flat("", "tool_search"), asObject(item.body))
	case "tool_search_output":
		d.toolSearchOutput(i, item)
	case "image_generation_call":
		if data := d.textOf(i, "result", item.body); len(data) > 0 {
			d.turns.ModelPart(perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: string(data)}})
		}
	default:
		known = d.hostedItem(i, item)
	}
	if known {
		for _, name := range item.other {
			d.notes.Unknown("input[].", []byte(name))
		}
	}
}

// hosted are the calls of tools that only the vendor's models have. The model gets them as calls of
// functions, so that their results are not lost.
var hosted = map[string]string{
	"local_shell_call": "local_shell", "shell_call": "shell", "apply_patch_call": "apply_patch", "computer_call": "computer",
}

// hostedItem adds an item of one of the vendor's tools. It returns false for other types of items.
func (d *decoder) hostedItem(i int, item *inputItem) bool {
	if name, ok := hosted[item.kind]; ok {
		d.notes.Mapped("input[" + item.kind + "]")
		d.call(item, name, asObject(item.body))
		return true
	}
	if call, ok := strings.CutSuffix(item.kind, "_output"); ok && hosted[call] != "" {
		d.notes.Mapped("input[" + item.kind + "]")
		if len(item.callID) == 0 {
			item.callID = item.id // local_shell_call_output has no other
		}
		d.toolOutput(i, item)
		return true
	}
	d.notes.Unknown("input", []byte("["+openai.Brief(item.kind)+"]"))
	return false
}

// nested reads the value of one member of an item.
func (d *decoder) nested(i int, member string, raw json.RawMessage, read func(c *rawjson.Cursor)) {
	if raw == nil {
		return
	}
	c := d.doc.Value(raw)
	read(c)
	if err := c.Err(); err != nil {
		d.refuse(invalidBody(fmt.Sprintf("input[%d].%s", i, member), err))
	}
}

// textOf reads a member that has to be a string. The result may point into raw.
func (d *decoder) textOf(i int, member string, raw json.RawMessage) []byte {
	if raw == nil {
		return nil
	}
	c := d.doc.Value(raw)
	text := c.Bytes()
	if err := c.Err(); err != nil {
		d.refuse(invalidBody(fmt.Sprintf("input[%d].%s", i, member), err))
	}
	return text
}

// jsonText is the same, but returns JSON, for text that is written into other JSON.
func (d *decoder) jsonText(i int, member string, raw json.RawMessage) json.RawMessage {
	if len(raw) > 0 && raw[0] == '"' {
		return raw
	}
	return rawjson.AppendString(nil, string(d.textOf(i, member, raw))) // empty, or an error
}

// wholeMessage adds a message after all of its members were found, unless it was added on the way.
func (d *decoder) wholeMessage(i int, item *inputItem) {
	switch {
	case item.added:
	case item.body == nil:
		d.checkRole(i, item.role)
	default:
		d.nested(i, "content", item.body, func(c *rawjson.Cursor) { d.message(i, item.role, c) })
	}
}

// message adds a message of a role, with the content that c reads next.
func (d *decoder) message(i int, role string, c *rawjson.Cursor) {
	d.checkRole(i, role)
	d.content(c, role) // also of an unknown role, because it is checked
}

// checkRole refuses a role that the API does not have.
func (d *decoder) checkRole(i int, role string) {
	switch role {
	case "user", "assistant", "system", "developer":
	default:
		d.refuse(openai.Wrong(fmt.Sprintf("input[%d].role", i), "there is no role %q", openai.Brief(role)).
			WithHint("use user, assistant, system or developer"))
	}
}

// addPart adds a part of a message.
func (d *decoder) addPart(role string, p perigee.Part) {
	switch role {
	case "user":
		d.turns.UserPart(p)
	case "assistant":
		d.turns.ModelPart(p)
	default:
		d.instructPart(role, p)
	}
}

// instructPart adds a part of a system message: to the system instruction, or to the conversation
// if that has begun. No provider accepts anything but text there.
func (d *decoder) instructPart(role string, p perigee.Part) {
	switch {
	case p.Kind != perigee.PartText:
		d.notes.Mapped("input[].role")
		d.turns.UserPart(p)
	case d.turns.Started():
		d.turns.InstructionPart(role, p)
	default:
		d.instruct(p.Text)
	}
}

func (d *decoder) functionCall(i int, item *inputItem) {
	object, repaired := openai.Arguments(d.textOf(i, "arguments", item.body))
	if repaired {
		d.notes.Repaired("input[].arguments")
	}
	d.call(item, d.nameOf(item), object)
}

// nameOf returns the name under which the model gets the tool of a call.
func (d *decoder) nameOf(item *inputItem) string {
	// This is flat without a string for each call: the result of find does not refer to its
	// arguments.
	if tool := d.out.tools.find(string(item.namespace), string(item.name)); tool != nil {
		return tool.flat
	}
	return flatName(string(item.namespace), string(item.name))
}

// call adds a call to the model's turn, under the model's name for the tool and with the signature
// that the client sent back.
func (d *decoder) call(item *inputItem, name string, args json.RawMessage) {
	id := string(item.callID)
	if id == "" {
		id = string(item.id)
	}
	d.turns.ModelPart(perigee.Part{
		Kind:      perigee.PartCall,
		Call:      &perigee.FunctionCall{ID: id, Name: name, Args: args},
		Signature: d.signatures[id],
	})
}

// asObject is a value as the arguments of a call, which are an object.
func asObject(raw json.RawMessage) json.RawMessage {
	switch {
	case raw == nil:
		return openai.EmptyArgs
	case rawjson.NewCursor(raw).Kind() == rawjson.Object:
		return raw
	}
	return openai.Wrap("arguments", raw)
}

func (d *decoder) toolOutput(i int, item *inputItem) {
	text := item.output // most results are strings, which are passed on unchanged
	var media []perigee.Part
	switch {
	case text == nil:
		text = json.RawMessage(`""`)
	case text[0] != '"':
		d.nested(i, "output", item.output, func(c *rawjson.Cursor) { text, media = d.output(c) })
	}
	d.answer(item, text, media)
}

// answer adds a tool's answer, a JSON string, to the user's turn.
func (d *decoder) answer(item *inputItem, text json.RawMessage, media []perigee.Part) {
	r := &perigee.FunctionResponse{Output: text, Media: media}
	match := d.turns.Take(item.callID, "")
	if match.Call != nil {
		r.ID, r.Name = match.Call.ID, match.Call.Name
	} else {
		r.ID = string(item.callID)
	}
	if r.Name == "" {
		r.Name = cmp.Or(d.nameOf(item), r.ID)
	}
	d.turns.Result(match, r, nil)
}

// toolSearchOutput adds the tools that a search has found to those that the model may call.
func (d *decoder) toolSearchOutput(i int, item *inputItem) {
	before := len(d.out.tools.list)
	d.nested(i, "tools", item.tools, func(c *rawjson.Cursor) { d.toolList(c, "") })
	var found strings.Builder
	found.WriteString("tools found:")
	for _, t := range d.out.tools.list[before:] {
		found.WriteString(" " + t.flat)
	}
	d.answer(item, rawjson.AppendString(nil, found.String()), nil)
}
