package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/rawjson"
)

// A responsesItem is one item of the conversation, its members found but not yet read: what they mean depends on
// the type, which may come last.
type responsesItem struct {
	kind      string
	id        string
	role      string
	callID    string
	name      string
	namespace string
	body      json.RawMessage // content, arguments, input, action …: what the item is about
	output    json.RawMessage
	summary   json.RawMessage
	sealed    json.RawMessage // encrypted_content
	tools     json.RawMessage
	other     []string // members that no item has
}

// items reads an array of items.
func (d *responsesDecoder) items(c *rawjson.Cursor) {
	for i := range c.Array() {
		if d.err != nil {
			return
		}
		if c.Kind() == rawjson.String { // a list of plain questions
			d.turns.user(perigee.Part{Kind: perigee.PartText, Text: c.String()})
			continue
		}
		item := responsesReadItem(c)
		if c.Err() == nil {
			d.item(i, &item)
		}
	}
}

func responsesReadItem(c *rawjson.Cursor) responsesItem {
	var item responsesItem
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			item.kind = c.String()
		case "id":
			item.id = c.String()
		case "role":
			item.role = c.String()
		case "call_id":
			item.callID = c.String()
		case "name":
			item.name = c.String()
		case "namespace":
			item.namespace = c.String()
		case "content", "arguments", "input", "action", "operation", "result":
			item.body = c.Raw()
		case "output":
			item.output = c.Raw()
		case "summary":
			item.summary = c.Raw()
		case "encrypted_content":
			item.sealed = c.Raw()
		case "tools":
			item.tools = c.Raw()
		case "status", "phase", "execution", "caller", "created_by", "parsed_arguments", "max_output_length",
			"pending_safety_checks", "acknowledged_safety_checks", "async",
			"output_format", "background", "quality", "size", "revised_prompt":
			// What an answer of ours, or an SDK, says about an item: nothing that the model would need again.
		default:
			item.other = append(item.other, string(key))
		}
	}
	return item
}

// item adds one item to the conversation.
func (d *responsesDecoder) item(i int, item *responsesItem) {
	known := true
	switch item.kind {
	case "message", "":
		d.message(i, item)
	case "function_call":
		d.functionCall(i, item)
	case "custom_tool_call":
		d.call(item, d.out.tools.flat(item.namespace, item.name), wrap("input", d.jsonText(i, "input", item.body)))
	case "function_call_output", "custom_tool_call_output":
		d.toolOutput(i, item)
	case "reasoning":
		d.reasoningItem(i, item)
	case "item_reference":
		d.reference(i, item)
	case "additional_tools":
		d.nested(i, "tools", item.tools, func(c *rawjson.Cursor) { d.toolList(c, "") })
	case "tool_search_call":
		d.call(item, d.out.tools.flat("", "tool_search"), responsesObject(item.body))
	case "tool_search_output":
		d.toolSearchOutput(i, item)
	case "image_generation_call":
		if data := d.textOf(i, "result", item.body); data != "" {
			d.turns.model(perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: data}})
		}
	default:
		known = d.hostedItem(i, item)
	}
	if known {
		for _, name := range item.other {
			d.notes.unknown("input[].", []byte(name))
		}
	}
}

// responsesHosted are the calls of tools that only the vendor's models have. The model is shown them as calls of
// functions, so that what came of them is not lost.
var responsesHosted = map[string]string{
	"local_shell_call": "local_shell", "shell_call": "shell", "apply_patch_call": "apply_patch", "computer_call": "computer",
}

// hostedItem adds an item of a tool of the vendor's. It says whether there was anything to add.
func (d *responsesDecoder) hostedItem(i int, item *responsesItem) bool {
	if name, ok := responsesHosted[item.kind]; ok {
		d.notes.mapped("input[" + item.kind + "]")
		d.call(item, name, responsesObject(item.body))
		return true
	}
	if call, ok := strings.CutSuffix(item.kind, "_output"); ok && responsesHosted[call] != "" {
		d.notes.mapped("input[" + item.kind + "]")
		if item.callID == "" {
			item.callID = item.id // local_shell_call_output has no other
		}
		d.toolOutput(i, item)
		return true
	}
	d.notes.unknown("input", []byte("["+brief(item.kind)+"]"))
	return false
}

// nested reads the value of one member of an item.
func (d *responsesDecoder) nested(i int, member string, raw json.RawMessage, read func(c *rawjson.Cursor)) {
	if raw == nil {
		return
	}
	c := rawjson.NewCursor(raw)
	read(c)
	if err := c.Err(); err != nil && d.err == nil {
		d.err = responsesInvalid(fmt.Sprintf("input[%d].%s", i, member), err)
	}
}

func (d *responsesDecoder) textOf(i int, member string, raw json.RawMessage) (text string) {
	d.nested(i, member, raw, func(c *rawjson.Cursor) { text = c.String() })
	return text
}

// jsonText is the same, still as JSON: what goes on inside other JSON need not be read.
func (d *responsesDecoder) jsonText(i int, member string, raw json.RawMessage) json.RawMessage {
	if len(raw) > 0 && raw[0] == '"' {
		return raw
	}
	return rawjson.AppendString(nil, d.textOf(i, member, raw)) // empty, or an error
}

func (d *responsesDecoder) message(i int, item *responsesItem) {
	var add func(perigee.Part)
	switch item.role {
	case "user":
		add = d.turns.user
	case "assistant":
		add = d.turns.model
	case "system", "developer":
		if d.turns.begun() {
			d.notes.mapped("input[].role " + item.role)
		}
		add = d.instructPart
	default:
		d.refuse(fmt.Sprintf("input[%d].role", i), "there is no role %q", "use user, assistant, system or developer", brief(item.role))
		return
	}
	d.nested(i, "content", item.body, func(c *rawjson.Cursor) { d.content(c, add) })
}

// instructPart adds a part of a system message. The provider takes only words there.
func (d *responsesDecoder) instructPart(p perigee.Part) {
	if p.Kind != perigee.PartText {
		d.notes.mapped("input[].role")
		d.turns.user(p)
		return
	}
	d.instruct(p.Text)
}

func (d *responsesDecoder) functionCall(i int, item *responsesItem) {
	var args []byte
	d.nested(i, "arguments", item.body, func(c *rawjson.Cursor) { args = c.Bytes() })
	object, repaired := arguments(args)
	if repaired {
		d.notes.repaired("input[].arguments")
	}
	d.call(item, d.out.tools.flat(item.namespace, item.name), object)
}

// call adds a call to the model's turn, under the name that the model knows and with the seal that came back for it.
func (d *responsesDecoder) call(item *responsesItem, name string, args json.RawMessage) {
	if item.callID == "" {
		item.callID = item.id
	}
	d.turns.call(perigee.Part{
		Kind:      perigee.PartCall,
		Call:      &perigee.FunctionCall{ID: item.callID, Name: name, Args: args},
		Signature: d.seals[item.callID],
	})
}

// responsesObject is a value as the arguments of a call, which are an object.
func responsesObject(raw json.RawMessage) json.RawMessage {
	switch {
	case raw == nil:
		return emptyArgs
	case rawjson.NewCursor(raw).Kind() == rawjson.Object:
		return raw
	}
	return wrap("arguments", raw)
}

func (d *responsesDecoder) toolOutput(i int, item *responsesItem) {
	text := json.RawMessage(`""`)
	d.nested(i, "output", item.output, func(c *rawjson.Cursor) { text = d.output(c) })
	d.answer(item, text)
}

// answer adds a tool's answer, a JSON string, to the user's turn.
func (d *responsesDecoder) answer(item *responsesItem, text json.RawMessage) {
	name := d.turns.nameOf(item.callID)
	if name == "" {
		name = d.out.tools.flat(item.namespace, item.name)
	}
	if name == "" {
		name = item.callID
	}
	d.turns.answer(perigee.Part{
		Kind:     perigee.PartResponse,
		Response: &perigee.FunctionResponse{ID: item.callID, Name: name, Response: wrap("output", text)},
	})
}

// toolSearchOutput adds the tools that a search has found to those that the model may call.
func (d *responsesDecoder) toolSearchOutput(i int, item *responsesItem) {
	before := len(d.out.tools.list)
	d.nested(i, "tools", item.tools, func(c *rawjson.Cursor) { d.toolList(c, "") })
	var found strings.Builder
	found.WriteString("tools found:")
	for _, t := range d.out.tools.list[before:] {
		found.WriteString(" " + t.flat)
	}
	d.answer(item, rawjson.AppendString(nil, found.String()))
}

// reference adds the item that a reference stands for.
func (d *responsesDecoder) reference(i int, item *responsesItem) {
	raw, err := d.findItem(item.id)
	if err != nil {
		if d.err == nil {
			d.err = err
		}
		return
	}
	if err := d.recall(item.id, len(raw)); err != nil {
		if d.err == nil {
			d.err = err
		}
		return
	}
	d.out.references = append(d.out.references, raw)
	var meant responsesItem
	d.nested(i, "id", raw, func(c *rawjson.Cursor) { meant = responsesReadItem(c) })
	if meant.kind == "item_reference" { // stored items are not, so this one is damaged
		return
	}
	d.item(i, &meant)
}

// maxRecalled is how much of what is stored one request may bring back. A reference is short and what it stands for is
// not, so the limit on bodies does not cover it.
const maxRecalled = 64 << 20

// recall counts what a request brings back from the store, each item once.
func (d *responsesDecoder) recall(id string, size int) error {
	if d.recalled[id] {
		return &perigee.Error{Class: perigee.ClassInvalid, Message: fmt.Sprintf("Item with id '%s' is referenced twice.", brief(id)),
			Next: "reference each item once", Cause: &responsesProblem{param: "input"}}
	}
	if d.recalled == nil {
		d.recalled = map[string]bool{}
	}
	d.recalled[id] = true
	if d.recalledSize += size; d.recalledSize > maxRecalled {
		return &perigee.Error{Class: perigee.ClassInvalid, Status: 413, Message: fmt.Sprintf("The stored conversation is larger than %d MiB.", maxRecalled>>20),
			Next: "start a new one with a summary of it", Cause: &responsesProblem{param: "input"}}
	}
	return nil
}

// findItem finds a stored item: in the response that is gone on from, or in the one whose id is in the item's.
func (d *responsesDecoder) findItem(id string) (json.RawMessage, error) {
	if d.known == nil {
		d.known = responsesIndex{}
		d.known.add(d.out.earlier[0])
		d.known.add(d.out.earlier[1])
	}
	if raw, ok := d.known[id]; ok {
		return raw, nil
	}
	missing := &perigee.Error{Class: perigee.ClassNotFound, Message: fmt.Sprintf("Item with id '%s' not found.", brief(id)),
		Next: "send the item itself, or leave store: false out of the request that made it", Cause: &responsesProblem{param: "input"}}
	response := responsesIDOfItem(id)
	if response == "" || d.find == nil {
		return nil, missing
	}
	stored, err := d.find(response)
	if e := perigee.AsError(err); e != nil {
		if e.Class == perigee.ClassNotFound {
			return nil, missing
		}
		return nil, e
	}
	d.known.add(stored.Output)
	d.known.add(stored.Input)
	if raw, ok := d.known[id]; ok {
		return raw, nil
	}
	return nil, missing
}

// A responsesIndex finds items by their ids, so that many references into one response cost one look at it.
type responsesIndex map[string]json.RawMessage

func (x responsesIndex) add(items json.RawMessage) {
	for _, item := range responsesSplit(items) {
		if id := responsesItemID(item); id != "" {
			x[id] = item
		}
	}
}
