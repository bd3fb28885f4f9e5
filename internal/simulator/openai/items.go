package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// itemMembers are the kinds of input items and their members. Kinds with nil are not read further.
var itemMembers = map[string][]string{
	"message":                 {"type", "role", "content", "id", "status", "phase"},
	"reasoning":               {"type", "id", "summary", "content", "encrypted_content", "status"},
	"function_call":           {"type", "id", "call_id", "name", "arguments", "status", "namespace", "async", "caller"},
	"function_call_output":    {"type", "id", "call_id", "output", "status", "name", "namespace", "caller"},
	"custom_tool_call":        {"type", "id", "call_id", "name", "input", "status", "namespace", "async", "caller"},
	"custom_tool_call_output": {"type", "id", "call_id", "output", "status", "caller"},
	"item_reference":          {"type", "id"},
	"additional_tools":        {"type", "id", "role", "tools"},
	"file_search_call":        nil, "computer_call": nil, "computer_call_output": nil, "web_search_call": nil, "tool_search_call": nil, "tool_search_output": nil,
	"configuration_update": nil, "compaction": nil, "compaction_trigger": nil, "image_generation_call": nil, "code_interpreter_call": nil,
	"local_shell_call": nil, "local_shell_call_output": nil, "shell_call": nil, "shell_call_output": nil, "apply_patch_call": nil, "apply_patch_call_output": nil,
	"mcp_list_tools": nil, "mcp_approval_request": nil, "mcp_approval_response": nil, "mcp_call": nil, "program": nil, "program_output": nil,
}

// idPrefixes are the beginnings of the ids of items.
var idPrefixes = map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}

// conversation reads the input after the conversation that it continues.
func (c *responseCheck) conversation() {
	previous := c.text(c.root, "", "previous_response_id")
	if previous != "" && c.root["conversation"] != nil {
		c.fail(unsupported("previous_response_id", "mutually_exclusive_parameters", "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Only one of them may be provided."))
		return
	}
	if c.root["conversation"] != nil {
		c.fail(&Error{Status: 404, Type: invalidRequest, Param: "conversation", Rule: "conversation_not_found", Message: fmt.Sprintf("Conversation with id '%v' not found.", c.root["conversation"])})
		return
	}
	if previous != "" {
		items, ok := c.in.Store.conversation(c.in.Org, previous)
		if !ok {
			c.fail(unsupported("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", previous))
			return
		}
		for _, item := range items {
			c.item(item, "input")
		}
	}
	switch v := c.root["input"].(type) {
	case nil:
		if c.root["prompt"] == nil {
			c.fail(missing("input"))
		}
		return
	case string:
		c.input = []any{object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": v}}}}
	case []any:
		if len(v) == 0 && previous == "" && c.profile.Strict {
			c.fail(objection("empty_input", "", "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided."))
		}
		c.input = v
	default:
		c.fail(invalidType("input", "one of a string or array of items", v))
	}
	for i, item := range c.input {
		if c.item(item, at("input", i)); c.err != nil {
			return
		}
		c.followed(i)
	}
	c.unanswered()
}

// unanswered refuses calls without an output. Local servers accept them.
func (c *responseCheck) unanswered() {
	for _, kind := range []string{"function call", "custom tool call"} {
		for _, id := range slices.Sorted(maps.Keys(c.calls)) {
			if c.calls[id] == kind && !c.profile.Keyless {
				c.fail(objection("call_without_output", "input", "No tool output found for %s %s.", kind, id))
			}
		}
	}
}

// followed refuses a reasoning item without the item that it belongs to, and a stored item without
// its reasoning.
func (c *responseCheck) followed(i int) {
	item, _ := c.input[i].(object)
	id, _ := item["id"].(string)
	if item["type"] == "reasoning" && c.profile.Limited {
		next := object{}
		if i+1 < len(c.input) {
			next, _ = c.input[i+1].(object)
		}
		kind, _ := next["type"].(string)
		if kind != "reasoning" && kind != "item_reference" && !strings.HasSuffix(kind, "_call") && next["role"] != "assistant" {
			c.fail(objection("reasoning_alone", "input", "Item '%s' of type 'reasoning' was provided without its required following item.", id))
		}
		return
	}
	if id == "" || item["type"] == "item_reference" {
		return
	}
	_, before := c.in.Store.item(c.in.Org, id)
	if before == nil {
		return
	}
	previous := object{}
	if i > 0 {
		previous, _ = c.input[i-1].(object)
	}
	if previous["id"] != before["id"] {
		c.fail(objection("reasoning_missing", "input", "Item '%s' of type '%v' was provided without its required 'reasoning' item: '%v'.", id, item["type"], before["id"]))
	}
}

// item reads one item.
func (c *responseCheck) item(v any, path string) {
	o := c.object(v, path)
	if c.err != nil {
		return
	}
	kind := c.text(o, path, "type")
	if kind == "" && o["role"] != nil {
		kind = "message"
	}
	allowed, known := itemMembers[kind]
	switch {
	case c.err != nil:
		return
	case kind == "":
		c.fail(missing(path + ".type"))
		return
	case !known && c.profile.Strict:
		c.fail(invalidValue(path, kind, slices.Sorted(maps.Keys(itemMembers))...))
		return
	case allowed != nil:
		c.known(o, path, allowed...)
	}
	if id, prefix := c.text(o, path, "id"), idPrefixes[kind]; id != "" && c.profile.Limited && !strings.HasPrefix(id, prefix) {
		c.fail(&Error{Status: 400, Type: invalidRequest, Param: path + ".id", Code: "invalid_value", Rule: "item_id",
			Message: fmt.Sprintf("Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", path, id, prefix)})
	}
	switch kind {
	case "message":
		c.message(o, path)
	case "reasoning":
		c.reasoning(o, path)
	case "function_call", "custom_tool_call":
		c.call(o, path, kind)
	case "function_call_output", "custom_tool_call_output":
		c.output(o, path, strings.TrimSuffix(kind, "_output"))
	case "item_reference":
		c.reference(o, path)
	case "additional_tools":
		for i, tool := range c.array(o, path, "tools") {
			c.tool(tool, at(path+".tools", i))
		}
	case "compaction":
		c.sealed(c.required(o, path, "encrypted_content"))
	}
}

// add puts parts into the conversation. Adjacent items of the model are one reply.
func (c *responseCheck) add(role string, parts ...rules.Part) {
	c.Parsed.TextBytes += textBytes(parts)
	contents := c.Parsed.Contents
	if n := len(contents); n > 0 && role == "model" && contents[n-1].Role == "model" {
		contents[n-1].Parts = append(contents[n-1].Parts, parts...)
		return
	}
	c.Parsed.Contents = append(contents, rules.Content{Role: role, Parts: parts})
}

func (c *responseCheck) message(o object, path string) {
	role := c.required(o, path, "role")
	c.oneOf(o, path, "role", "assistant", "system", "developer", "user")
	var parts []rules.Part
	switch v := o["content"].(type) {
	case nil:
		c.fail(missing(path + ".content"))
	case string:
		parts = []rules.Part{{Text: v, HasText: true}}
	case []any:
		kinds := []string{"input_text", "input_image", "input_file", "input_audio"}
		if role == "assistant" {
			kinds = []string{"output_text", "refusal"}
		}
		for i, each := range v {
			parts = append(parts, c.part(each, at(path+".content", i), kinds)...)
		}
	default:
		c.fail(invalidType(path+".content", "one of a string or array of objects", v))
	}
	switch role {
	case "assistant":
		c.add("model", parts...)
	case "user":
		c.add("user", parts...)
	default:
		text := textOf(parts)
		c.Parsed.System = strings.TrimPrefix(c.Parsed.System+"\n"+text, "\n")
		c.Parsed.TextBytes += len(text)
	}
}

var partMembers = map[string][]string{
	"input_text":  {"type", "text", "prompt_cache_breakpoint"},
	"input_image": {"type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"},
	"input_file":  {"type", "file_id", "file_data", "file_url", "filename", "detail", "prompt_cache_breakpoint"},
	"input_audio": {"type", "input_audio"},
	"output_text": {"type", "text", "annotations", "logprobs"},
	"refusal":     {"type", "refusal"},
}

func (c *responseCheck) part(v any, path string, kinds []string) []rules.Part {
	o := c.object(v, path)
	kind := c.required(o, path, "type")
	if c.err != nil {
		return nil
	}
	if !slices.Contains(kinds, kind) {
		if c.profile.Strict {
			c.fail(invalidValue(path, kind, kinds...))
		}
		return nil
	}
	c.known(o, path, partMembers[kind]...)
	switch kind {
	case "input_text", "output_text":
		return []rules.Part{{Text: c.required(o, path, "text"), HasText: true}}
	case "refusal":
		return []rules.Part{{Text: c.required(o, path, "refusal"), HasText: true}}
	case "input_image":
		c.oneOf(o, path, "detail", "auto", "low", "high", "original")
		address, file := c.text(o, path, "image_url"), c.text(o, path, "file_id")
		if address == "" && file == "" {
			c.fail(missing(path + ".image_url"))
		}
		if address != "" {
			return c.image(address, path+".image_url")
		}
	case "input_file":
		if c.text(o, path, "file_id")+c.text(o, path, "file_data")+c.text(o, path, "file_url") == "" {
			c.fail(missing(path + ".file_id"))
		}
	}
	return []rules.Part{{File: &rules.File{}}}
}

// reasoning reads a reasoning item: sealed, or stored here.
func (c *responseCheck) reasoning(o object, path string) {
	id, sealed := c.text(o, path, "id"), c.text(o, path, "encrypted_content")
	if _, ok := o["summary"].([]any); !ok && c.profile.Strict {
		if o["summary"] == nil {
			c.fail(missing(path + ".summary"))
			return
		}
		c.fail(invalidType(path+".summary", "an array", o["summary"]))
		return
	}
	switch {
	case sealed != "":
		c.sealed(sealed)
	case !c.profile.Limited:
	case id == "":
		c.fail(missing(path + ".id"))
	default:
		c.reference(o, path)
	}
	c.add("model")
}

// sealed refuses encrypted content that was not made here for this organization.
func (c *responseCheck) sealed(content string) {
	if c.err != nil || content == "" || !c.profile.Limited && !c.profile.Stateless || c.in.Sealer.opens(c.in.Org, content) {
		return
	}
	short := content
	if runes := []rune(short); len(runes) > 12 {
		short = string(runes[:8]) + "..." + string(runes[len(runes)-4:])
	}
	c.fail(unsupported("input", "invalid_encrypted_content", "The encrypted content %s could not be verified. Reason: Encrypted content could not be decrypted or parsed.", short))
}

// reference finds an item that is stored here.
func (c *responseCheck) reference(o object, path string) {
	id := c.required(o, path, "id")
	if c.err != nil {
		return
	}
	found, _ := c.in.Store.item(c.in.Org, id)
	if found == nil {
		message := "Item with id '%s' not found."
		if c.root["store"] == false || c.profile.Stateless {
			message += " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
		}
		c.fail(&Error{Status: 404, Type: invalidRequest, Param: "input", Rule: "item_not_found", Message: fmt.Sprintf(message, id)})
		return
	}
	if o["type"] == "item_reference" && found["type"] != "reasoning" {
		c.item(found, path)
	}
}

// call reads a call of the model.
func (c *responseCheck) call(o object, path, kind string) {
	id, name := c.required(o, path, "call_id"), c.required(o, path, "name")
	input := "arguments"
	if kind == "custom_tool_call" {
		input = "input"
	}
	text := c.required(o, path, input)
	if c.err != nil {
		return
	}
	args := json.RawMessage(Encode(text))
	if kind == "function_call" && json.Valid([]byte(text)) {
		args = json.RawMessage(text)
	}
	call := &rules.Call{ID: id, Name: name, Args: args}
	c.called(call, path+".name", path+".call_id", maxResponseID)
	c.calls[id], c.names[id] = strings.ReplaceAll(kind, "_", " "), name
	c.add("model", rules.Part{Call: call})
}

// output reads the result of a call.
func (c *responseCheck) output(o object, path, kind string) {
	id := c.required(o, path, "call_id")
	if c.err != nil {
		return
	}
	words := strings.ReplaceAll(kind, "_", " ")
	if c.calls[id] != words && !c.profile.Keyless {
		c.fail(objection("output_without_call", "input", "No tool call found for %s output with call_id %s.", words, id))
		return
	}
	delete(c.calls, id)
	response := &rules.Response{ID: id, Name: c.names[id]}
	switch v := o["output"].(type) {
	case nil:
		c.fail(missing(path + ".output"))
	case string:
		response.Response = Encode(v)
	case []any:
		var parts []rules.Part
		for i, each := range v {
			parts = append(parts, c.part(each, at(path+".output", i), []string{"input_text", "input_image", "input_file"})...)
		}
		response.Response, response.Parts = Encode(textOf(parts)), parts
	default:
		c.fail(invalidType(path+".output", "one of a string or array of objects", v))
	}
	c.add("user", rules.Part{Response: response})
}
