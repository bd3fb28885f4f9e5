package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

var messageMembers = map[string][]string{
	"system":    {"role", "content", "name"},
	"developer": {"role", "content", "name"},
	"user":      {"role", "content", "name"},
	"assistant": {"role", "content", "name", "tool_calls", "refusal", "audio", "function_call", "annotations"},
	"tool":      {"role", "content", "tool_call_id", "name"},
	"function":  {"role", "content", "name"},
}

var contentKinds = map[string][]string{
	"system":    {"text"},
	"developer": {"text"},
	"user":      {"text", "image_url", "input_audio", "file"},
	"assistant": {"text", "refusal"},
	"tool":      {"text"},
	"function":  {"text"},
}

// messages reads the conversation and pairs calls with results.
func (c *chatCheck) messages() {
	if c.root["messages"] == nil {
		c.fail(missing("messages"))
		return
	}
	list := c.array(c.root, "", "messages")
	if c.err == nil && len(list) == 0 {
		c.fail(badValue("messages", "empty_array", "empty array. Expected an array with minimum length 1, but got an empty array instead."))
	}
	var open []string // calls without a result so far
	last := ""
	for i, each := range list {
		path := at("messages", i)
		m := c.object(each, path)
		if c.err != nil {
			return
		}
		role := c.required(m, path, "role")
		c.oneOf(m, path, "role", "system", "assistant", "user", "function", "tool", "developer")
		if c.err != nil {
			return
		}
		c.known(m, path, messageMembers[role]...)
		if role != "tool" {
			c.unanswered(open, i)
			open = nil
		}
		switch role {
		case "system", "developer":
			text := textOf(c.content(m, path, role))
			c.Parsed.System = strings.TrimPrefix(c.Parsed.System+"\n"+text, "\n")
			c.Parsed.TextBytes += len(text)
		case "user":
			c.add("user", c.content(m, path, role))
		case "assistant":
			open = c.assistant(m, path)
		case "tool":
			open = c.result(m, path, open)
		case "function":
			c.add("user", []rules.Part{{Response: &rules.Response{Name: c.required(m, path, "name"), Response: Encode(textOf(c.content(m, path, role)))}}})
		}
		last = role
		if c.err != nil {
			return
		}
	}
	c.unanswered(open, len(list))
	if c.profile.CheckIDs && last == "assistant" && list[len(list)-1].(object)["prefix"] != true {
		c.fail(&Error{Status: 400, Type: "invalid_request_message_order", Code: "3230", Rule: "message_order",
			Message: "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"})
	}
}

// add puts an entry into the conversation and counts its text.
func (c *chatCheck) add(role string, parts []rules.Part) {
	c.Parsed.Contents = append(c.Parsed.Contents, rules.Content{Role: role, Parts: parts})
	c.Parsed.TextBytes += textBytes(parts)
}

func textBytes(parts []rules.Part) int {
	n := 0
	for _, p := range parts {
		n += len(p.Text)
		if p.Call != nil {
			n += len(p.Call.Name) + len(p.Call.Args)
		}
		if p.Response != nil {
			n += len(p.Response.Name) + len(p.Response.Response)
		}
	}
	return n
}

// unanswered refuses calls without results before message i. Local servers accept them.
func (c *chatCheck) unanswered(open []string, i int) {
	if len(open) == 0 || c.profile.Keyless {
		return
	}
	if c.profile.CheckIDs {
		c.fail(&Error{Status: 400, Type: "invalid_request_message_order", Code: "3230", Rule: "call_without_result",
			Message: "Not the same number of function calls and responses"})
		return
	}
	c.fail(objection("call_without_result", fmt.Sprintf("messages.[%d].role", i),
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", ")))
}

// result reads a tool message and returns the calls that are still open.
func (c *chatCheck) result(m object, path string, open []string) []string {
	id := c.required(m, path, "tool_call_id")
	parts := c.content(m, path, "tool")
	if c.err != nil {
		return nil
	}
	i := slices.Index(open, id)
	if i < 0 && !c.profile.Keyless {
		c.fail(objection("result_without_call", strings.Replace(path, "[", ".[", 1)+".role",
			"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."))
		return nil
	}
	response := &rules.Response{ID: id, Name: c.names[id], Response: Encode(textOf(parts))}
	for _, p := range parts {
		if p.Blob != nil || p.File != nil {
			response.Parts = append(response.Parts, p)
		}
	}
	c.add("user", []rules.Part{{Response: response}})
	if i < 0 {
		return open
	}
	return slices.Delete(slices.Clone(open), i, i+1)
}

// assistant reads a reply of the model and returns the ids of its calls.
func (c *chatCheck) assistant(m object, path string) []string {
	parts := c.content(m, path, "assistant")
	c.text(m, path, "refusal")
	calls := c.array(m, path, "tool_calls")
	if m["tool_calls"] != nil && len(calls) == 0 && c.profile.Strict {
		c.fail(badValue(path+".tool_calls", "empty_array", "empty array. Expected an array with minimum length 1, but got an empty array instead."))
	}
	if m["content"] == nil && len(calls) == 0 && m["function_call"] == nil && m["refusal"] == nil && m["audio"] == nil && !c.profile.Keyless {
		c.fail(objection("empty_message", strings.Replace(path, "[", ".[", 1)+".content", "Invalid value for 'content': expected a string, got null."))
	}
	var ids []string
	for i, each := range calls {
		call := c.call(each, fmt.Sprintf("%s.tool_calls[%d]", path, i))
		if c.err != nil {
			return nil
		}
		ids = append(ids, call.ID)
		c.names[call.ID] = call.Name
		parts = append(parts, rules.Part{Call: call})
	}
	if old := c.inner(m, path, "function_call"); old != nil {
		parts = append(parts, rules.Part{Call: &rules.Call{Name: c.required(old, path+".function_call", "name"), Args: Encode(c.text(old, path+".function_call", "arguments"))}})
	}
	c.reasoning(m, path, len(calls) > 0)
	c.add("model", parts)
	return ids
}

// call reads one tool call of the history.
func (c *chatCheck) call(v any, path string) *rules.Call {
	o := c.object(v, path)
	c.known(o, path, "id", "type", "function", "custom")
	id := c.required(o, path, "id")
	if c.profile.CheckIDs && c.err == nil && !nineLetters(id) {
		c.fail(&Error{Status: 400, Type: "invalid_function_call", Code: "3280", Rule: "call_id",
			Message: fmt.Sprintf("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)})
	}
	kind := "function"
	if c.profile.Strict {
		kind = c.required(o, path, "type")
		c.oneOf(o, path, "type", "function", "custom")
	}
	if o[kind] == nil {
		c.fail(missing(join(path, kind)))
		return nil
	}
	inner := c.inner(o, path, kind)
	path = join(path, kind)
	call := &rules.Call{ID: id, Name: c.required(inner, path, "name")}
	c.called(call, join(path, "name"), strings.TrimSuffix(path, kind)+"id", maxChatID)
	if kind == "custom" {
		call.Args = Encode(c.required(inner, path, "input"))
		return call
	}
	if _, isObject := inner["arguments"].(object); isObject && c.profile.Keyless {
		call.Args = Encode(inner["arguments"])
		return call
	}
	arguments := c.required(inner, path, "arguments")
	call.Args = Encode(arguments)
	if json.Valid([]byte(arguments)) {
		call.Args = json.RawMessage(arguments)
	}
	return call
}

func nineLetters(id string) bool {
	return len(id) == 9 && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
}

// reasoning checks the reasoning that an assistant message brings back.
func (c *chatCheck) reasoning(m object, path string, calls bool) {
	_, given := m["reasoning_content"].(string)
	c.text(m, path, "reasoning_content")
	switch {
	case c.Model.Forgets && given:
		c.fail(objection("reasoning_content", "", "The reasoning_content is not allowed in the input messages: %s.", path))
	case c.profile.KeepReasoning && !c.Model.Forgets && c.Parsed.Config.Thinking.Include && calls && len(c.Parsed.Functions) > 0 && !given:
		c.fail(&Error{Status: 400, Type: invalidRequest, Code: invalidRequest, Rule: "lost_reasoning",
			Message: "The `reasoning_content` in the thinking mode must be passed back to the API."})
	}
	if !c.profile.Details {
		return
	}
	for i, each := range c.array(m, path, "reasoning_details") {
		where := fmt.Sprintf("%s.reasoning_details[%d]", path, i)
		detail := c.object(each, where)
		for _, name := range []string{"signature", "data"} {
			if sealed := c.text(detail, where, name); sealed != "" && !c.in.Sealer.opens(detailOrg, sealed) {
				c.fail(objection("foreign_reasoning", "", "%s: Invalid `%s` in `reasoning_details`", where, name))
			}
		}
	}
}

// detailOrg is the organization of reasoning_details, which every key may return.
const detailOrg = "reasoning_details"

// content reads the content of a message: a string or an array of parts.
func (c *chatCheck) content(m object, path, role string) []rules.Part {
	path = join(path, "content")
	switch v := m["content"].(type) {
	case string:
		return []rules.Part{{Text: v, HasText: true}}
	case []any:
		if len(v) == 0 && c.profile.Strict && role != "assistant" {
			c.fail(badValue(path, "empty_array", "empty array. Expected an array with minimum length 1, but got an empty array instead."))
		}
		var parts []rules.Part
		for i, each := range v {
			parts = append(parts, c.part(each, at(path, i), role)...)
		}
		return parts
	case nil:
		if role != "assistant" {
			c.fail(objection("empty_message", path, "Invalid value for 'content': expected a string, got null."))
		}
	default:
		c.fail(invalidType(path, "one of a string or array of objects", v))
	}
	return nil
}

// part reads one content part. Servers other than OpenAI have more kinds, which count nothing here.
func (c *chatCheck) part(v any, path, role string) []rules.Part {
	o := c.object(v, path)
	kind := c.required(o, path, "type")
	if c.err != nil {
		return nil
	}
	if c.profile.Strict && !slices.Contains(contentKinds[role], kind) {
		if kind == "image_url" {
			message := strings.TrimSuffix(path, path[strings.LastIndex(path, ".content"):])
			c.fail(&Error{Status: 400, Type: invalidRequest, Param: message, Code: "invalid_value", Rule: "content_kind",
				Message: fmt.Sprintf("Invalid '%s'. Image URLs are only allowed for messages with role 'user', but this message with role '%s' contains an image URL.", message, role)})
			return nil
		}
		c.fail(invalidValue(path+".type", kind, contentKinds[role]...))
		return nil
	}
	switch kind {
	case "text", "refusal":
		return []rules.Part{{Text: c.required(o, path, kind), HasText: true}}
	case "thinking":
		return nil
	case "image_url":
		address, ok := o["image_url"].(string)
		if !ok || c.profile.Strict {
			if o["image_url"] == nil {
				c.fail(missing(path + ".image_url"))
				return nil
			}
			inner := c.inner(o, path, "image_url")
			path += ".image_url"
			c.known(inner, path, "url", "detail")
			c.oneOf(inner, path, "detail", "auto", "low", "high", "original")
			address = c.required(inner, path, "url")
			path += ".url"
		}
		return c.image(address, path)
	case "input_audio":
		inner := c.inner(o, path, "input_audio")
		c.required(inner, path+".input_audio", "data")
		return []rules.Part{{Blob: &rules.Blob{MIME: "audio/" + c.required(inner, path+".input_audio", "format")}}}
	case "file":
		inner := c.inner(o, path, "file")
		data, id := c.text(inner, path+".file", "file_data"), c.text(inner, path+".file", "file_id")
		if data == "" && id == "" {
			c.fail(missing(path + ".file.file_id"))
		}
		return []rules.Part{{Blob: &rules.Blob{MIME: "application/pdf", Size: len(data)}}}
	}
	return nil
}

var imageTypes = []string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}

// image reads the address of an image.
func (c *checker) image(address, path string) []rules.Part {
	if c.err != nil {
		return nil
	}
	rest, isData := strings.CutPrefix(address, "data:")
	if !isData {
		switch {
		case c.profile.NoImageURLs:
			c.fail(objection("image_url", "", "invalid image input"))
		case !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://"):
			c.fail(&Error{Status: 400, Type: invalidRequest, Param: path, Code: "invalid_value", Rule: "image_url",
				Message: fmt.Sprintf("Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", path)})
		}
		return []rules.Part{{File: &rules.File{URI: address}}}
	}
	mime, data, ok := strings.Cut(rest, ";base64,")
	size := base64.StdEncoding.DecodedLen(len(data))
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		ok = false
	}
	if !ok || !slices.Contains(imageTypes, mime) && (c.profile.Strict || mime != "") {
		c.fail(&Error{Status: 400, Type: invalidRequest, Param: path, Code: "invalid_value", Rule: "image_data",
			Message: fmt.Sprintf("Invalid '%s'. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got an invalid value.", path)})
	}
	return []rules.Part{{Blob: &rules.Blob{MIME: mime, Size: size, Data: data}}}
}

// textOf joins the texts of parts.
func textOf(parts []rules.Part) string {
	var texts []string
	for _, p := range parts {
		if p.HasText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
