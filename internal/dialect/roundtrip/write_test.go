package roundtrip

import (
	"bytes"
	"encoding/json"
	"slices"
)

type (
	members = map[string]any
	list    = []any
)

// write is json.Marshal that leaves raw JSON inside as it is.
func write(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("roundtrip: " + err.Error()) // our own generator made it
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// set adds what is common to the dialects' settings, under the names that they have there.
func (s *settings) set(body members, temperature, topP, limit, stop string) {
	if s.temperature != nil {
		body[temperature] = *s.temperature
	}
	if s.topP != nil {
		body[topP] = *s.topP
	}
	if s.limit != nil {
		body[limit] = *s.limit
	}
	if len(s.stop) > 0 && stop != "" {
		body[stop] = s.stop
	}
}

func dataURL(p piece) string { return "data:" + p.mime + ";base64," + p.data }

// asChat writes the conversation for Chat Completions.
func (c *conversation) asChat() []byte {
	var messages list
	for _, text := range c.system {
		messages = append(messages, members{"role": "system", "content": text})
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		for _, message := range r.said {
			messages = append(messages, members{"role": "user", "content": chatContent(message)})
		}
		if r.text == "" && len(r.calls) == 0 {
			continue
		}
		answer := members{"role": "assistant", "content": nil}
		if r.text != "" {
			answer["content"] = r.text
		}
		var calls list
		for _, call := range r.calls {
			calls = append(calls, members{"id": call.id, "type": "function", "function": members{"name": call.name, "arguments": call.args}})
		}
		if calls != nil {
			answer["tool_calls"] = calls
		}
		messages = append(messages, answer)
		for _, n := range r.arrival {
			call := &r.calls[n]
			messages = append(messages, members{"role": "tool", "tool_call_id": call.id, "content": chatResult(&call.result)})
		}
	}
	body := members{"model": "m", "messages": messages}
	var tools list
	for _, t := range c.tools {
		tools = append(tools, members{"type": "function", "function": members{"name": t.name, "description": t.description, "parameters": raw(t.schema)}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch c.choice {
	case "":
	case "auto", "none":
		body["tool_choice"] = c.choice
	case "any":
		body["tool_choice"] = "required"
	default:
		body["tool_choice"] = members{"type": "function", "function": members{"name": c.choice}}
	}
	c.settings.set(body, "temperature", "top_p", "max_completion_tokens", "stop")
	if s := c.settings.schema; s != "" {
		body["response_format"] = members{"type": "json_schema", "json_schema": members{"name": "a", "schema": raw(s)}}
	}
	return write(body)
}

func chatContent(message []piece) any {
	if len(message) == 1 && message[0].mime == "" {
		return message[0].text
	}
	var parts list
	for _, p := range message {
		switch p.mime {
		case "":
			parts = append(parts, members{"type": "text", "text": p.text})
		case "application/pdf":
			parts = append(parts, members{"type": "file", "file": members{"filename": "a.pdf", "file_data": dataURL(p)}})
		default:
			parts = append(parts, members{"type": "image_url", "image_url": members{"url": dataURL(p)}})
		}
	}
	return parts
}

func chatResult(r *result) any {
	if len(r.texts) < 2 && len(r.files) == 0 {
		return r.text()
	}
	var pieces []piece
	for _, text := range r.texts {
		pieces = append(pieces, piece{text: text})
	}
	parts, isList := chatContent(slices.Concat(pieces, r.files)).(list)
	if !isList {
		panic("roundtrip: a result of several parts became one")
	}
	return parts
}

// asResponses writes the conversation for Responses, which knows no stop sequences.
func (c *conversation) asResponses() []byte {
	var items list
	body := members{"model": "m", "store": false}
	for i, text := range c.system {
		if i == 0 {
			body["instructions"] = text
			continue
		}
		items = append(items, members{"role": "developer", "content": text})
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		for _, message := range r.said {
			items = append(items, members{"type": "message", "role": "user", "content": responsesContent(message)})
		}
		if r.text != "" {
			items = append(items, members{"type": "message", "role": "assistant", "content": list{members{"type": "output_text", "text": r.text, "annotations": list{}}}})
		}
		for _, call := range r.calls {
			items = append(items, members{"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.args})
		}
		for _, n := range r.arrival {
			call := &r.calls[n]
			items = append(items, members{"type": "function_call_output", "call_id": call.id, "output": responsesResult(&call.result)})
		}
	}
	body["input"] = items
	var tools list
	for _, t := range c.tools {
		tools = append(tools, members{"type": "function", "name": t.name, "description": t.description, "parameters": raw(t.schema), "strict": false})
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch c.choice {
	case "":
	case "auto", "none":
		body["tool_choice"] = c.choice
	case "any":
		body["tool_choice"] = "required"
	default:
		body["tool_choice"] = members{"type": "function", "name": c.choice}
	}
	c.settings.set(body, "temperature", "top_p", "max_output_tokens", "")
	if s := c.settings.schema; s != "" {
		body["text"] = members{"format": members{"type": "json_schema", "name": "a", "schema": raw(s)}}
	}
	return write(body)
}

func responsesContent(message []piece) any {
	if len(message) == 1 && message[0].mime == "" {
		return message[0].text
	}
	return responsesParts(message)
}

func responsesParts(pieces []piece) list {
	parts := list{}
	for _, p := range pieces {
		switch p.mime {
		case "":
			parts = append(parts, members{"type": "input_text", "text": p.text})
		case "application/pdf":
			parts = append(parts, members{"type": "input_file", "filename": "a.pdf", "file_data": dataURL(p)})
		default:
			parts = append(parts, members{"type": "input_image", "image_url": dataURL(p)})
		}
	}
	return parts
}

func responsesResult(r *result) any {
	if len(r.texts) < 2 && len(r.files) == 0 {
		return r.text()
	}
	var pieces []piece
	for _, text := range r.texts {
		pieces = append(pieces, piece{text: text})
	}
	return responsesParts(slices.Concat(pieces, r.files))
}

// asAnthropic writes the conversation for Messages. What the user says after results stands in the
// same message.
func (c *conversation) asAnthropic() []byte {
	var messages, waiting list
	flush := func() {
		if waiting != nil {
			messages = append(messages, members{"role": "user", "content": waiting})
			waiting = nil
		}
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		for _, message := range r.said {
			if waiting == nil && len(message) == 1 && message[0].mime == "" {
				messages = append(messages, members{"role": "user", "content": message[0].text})
				continue
			}
			for _, p := range message {
				waiting = append(waiting, anthropicBlock(p))
			}
			flush()
		}
		flush()
		var blocks list
		if r.text != "" {
			blocks = append(blocks, members{"type": "text", "text": r.text})
		}
		for _, call := range r.calls {
			blocks = append(blocks, members{"type": "tool_use", "id": call.id, "name": call.name, "input": raw(call.args)})
		}
		if blocks != nil {
			messages = append(messages, members{"role": "assistant", "content": blocks})
		}
		for _, n := range r.arrival {
			waiting = append(waiting, anthropicResult(&r.calls[n]))
		}
	}
	flush()
	body := members{"model": "m", "messages": messages}
	if len(c.system) == 1 {
		body["system"] = c.system[0]
	} else if len(c.system) > 1 {
		var blocks list
		for _, text := range c.system {
			blocks = append(blocks, members{"type": "text", "text": text})
		}
		body["system"] = blocks
	}
	var tools list
	for _, t := range c.tools {
		tools = append(tools, members{"name": t.name, "description": t.description, "input_schema": raw(t.schema)})
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch c.choice {
	case "":
	case "auto", "any", "none":
		body["tool_choice"] = members{"type": c.choice}
	default:
		body["tool_choice"] = members{"type": "tool", "name": c.choice}
	}
	c.settings.set(body, "temperature", "top_p", "max_tokens", "stop_sequences")
	if s := c.settings.schema; s != "" {
		body["output_config"] = members{"format": members{"type": "json_schema", "schema": raw(s)}}
	}
	return write(body)
}

func anthropicBlock(p piece) members {
	kind := "image"
	switch p.mime {
	case "":
		return members{"type": "text", "text": p.text}
	case "application/pdf":
		kind = "document"
	}
	return members{"type": kind, "source": members{"type": "base64", "media_type": p.mime, "data": p.data}}
}

func anthropicResult(c *call) members {
	block := members{"type": "tool_result", "tool_use_id": c.id, "content": c.result.text()}
	if len(c.result.texts) > 1 || len(c.result.files) > 0 {
		blocks := list{}
		for _, text := range c.result.texts {
			blocks = append(blocks, anthropicBlock(piece{text: text}))
		}
		for _, p := range c.result.files {
			blocks = append(blocks, anthropicBlock(p))
		}
		block["content"] = blocks
	}
	if c.result.failed {
		block["is_error"] = true
	}
	return block
}

// asGemini writes the conversation for generateContent, with the results in the order of their
// calls.
func (c *conversation) asGemini() []byte {
	var contents, waiting list
	flush := func() {
		if waiting != nil {
			contents = append(contents, members{"role": "user", "parts": waiting})
			waiting = nil
		}
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		for _, message := range r.said {
			for _, p := range message {
				waiting = append(waiting, geminiPart(p))
			}
			flush()
		}
		flush()
		var parts list
		if r.text != "" {
			parts = append(parts, members{"text": r.text})
		}
		for _, call := range r.calls {
			parts = append(parts, members{"functionCall": members{"id": call.id, "name": call.name, "args": raw(call.args)}})
		}
		if parts != nil {
			contents = append(contents, members{"role": "model", "parts": parts})
		}
		for n := range r.calls {
			call := &r.calls[n]
			member := "output"
			if call.result.failed {
				member = "error"
			}
			response := members{"id": call.id, "name": call.name, "response": members{member: call.result.text()}}
			if len(call.result.files) > 0 {
				var parts list
				for _, p := range call.result.files {
					parts = append(parts, geminiPart(p))
				}
				response["parts"] = parts
			}
			waiting = append(waiting, members{"functionResponse": response})
		}
	}
	flush()
	body := members{"contents": contents}
	if len(c.system) > 0 {
		var parts list
		for _, text := range c.system {
			parts = append(parts, members{"text": text})
		}
		body["systemInstruction"] = members{"parts": parts}
	}
	var functions list
	for _, t := range c.tools {
		functions = append(functions, members{"name": t.name, "description": t.description, "parametersJsonSchema": raw(t.schema)})
	}
	if functions != nil {
		body["tools"] = list{members{"functionDeclarations": functions}}
	}
	switch c.choice {
	case "":
	case "auto", "any", "none":
		mode := map[string]string{"auto": "AUTO", "any": "ANY", "none": "NONE"}[c.choice]
		body["toolConfig"] = members{"functionCallingConfig": members{"mode": mode}}
	default:
		body["toolConfig"] = members{"functionCallingConfig": members{"mode": "ANY", "allowedFunctionNames": list{c.choice}}}
	}
	generation := members{}
	c.settings.set(generation, "temperature", "topP", "maxOutputTokens", "stopSequences")
	if s := c.settings.schema; s != "" {
		generation["responseMimeType"], generation["responseJsonSchema"] = "application/json", raw(s)
	}
	body["generationConfig"] = generation
	return write(body)
}

func geminiPart(p piece) members {
	if p.mime == "" {
		return members{"text": p.text}
	}
	return members{"inlineData": members{"mimeType": p.mime, "data": p.data}}
}
