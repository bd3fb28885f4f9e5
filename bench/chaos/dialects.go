package main

import "encoding/json"

// A dialect is how one API is asked, and how its answers are read.
type dialect struct {
	name string
	path func(c *call) string
	body func(c *call) object
	// event reads one event of a stream into the answer.
	event func(data []byte, a *answer)
	// whole reads an answer in one piece.
	whole func(data []byte, a *answer)
	// failure returns the message of an error in this API's own form; empty means it is none.
	failure func(data []byte) string
}

var (
	geminiAPI = &dialect{"gemini", geminiPath, geminiBody, geminiEvent, geminiEvent, geminiFailure}
	chatAPI   = &dialect{"chat", fixed("/v1/chat/completions"), chatBody, chatEvent, chatWhole, openaiFailure}
	responses = &dialect{"responses", fixed("/v1/responses"), responsesBody, responsesEvent, responsesWhole, openaiFailure}
	messages  = &dialect{"messages", fixed("/v1/messages"), messagesBody, messagesEvent, messagesWhole, anthropicFailure}
)

func fixed(path string) func(*call) string { return func(*call) string { return path } }

// schema is of the arguments of the one function.
var schema = object{"type": "object", "properties": object{"at": object{"type": "string"}}, "required": []string{"at"}}

func geminiPath(c *call) string {
	method := ":generateContent"
	if c.stream {
		method = ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + c.model + method
}

func geminiBody(c *call) object {
	b := object{"contents": []object{{"role": "user", "parts": []object{{"text": c.prompt()}}}}}
	if c.tools {
		b["tools"] = []object{{"functionDeclarations": []object{{"name": "look", "parameters": schema}}}}
	}
	return b
}

type geminiAnswer struct {
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text         string
				FunctionCall *struct{ Args json.RawMessage }
			}
		}
		FinishReason string
	}
	Error *struct {
		Code            int
		Message, Status string
	}
}

func geminiEvent(data []byte, a *answer) {
	var m geminiAnswer
	if err := json.Unmarshal(data, &m); err != nil {
		a.failure = "an event that is no JSON" // the client of this dialect breaks off
		return
	}
	if m.Error != nil {
		a.failure = m.Error.Message
	}
	for _, c := range m.Candidates {
		for _, p := range c.Content.Parts {
			a.text += p.Text
			if p.FunctionCall != nil {
				a.text += string(p.FunctionCall.Args)
			}
		}
		a.ended = a.ended || c.FinishReason != ""
	}
}

func geminiFailure(data []byte) string {
	var m geminiAnswer
	if json.Unmarshal(data, &m) != nil || m.Error == nil || m.Error.Status == "" || m.Error.Code == 0 {
		return ""
	}
	return m.Error.Message
}

func chatBody(c *call) object {
	b := object{"model": c.model, "stream": c.stream, "messages": []object{{"role": "user", "content": c.prompt()}}}
	if c.tools {
		b["tools"] = []object{{"type": "function", "function": object{"name": "look", "parameters": schema}}}
	}
	return b
}

type chatChoice struct {
	Content   string
	ToolCalls []struct {
		Function struct{ Arguments string }
	} `json:"tool_calls"`
}

func (c chatChoice) text() string {
	text := c.Content
	for _, call := range c.ToolCalls {
		text += call.Function.Arguments
	}
	return text
}

type chatAnswer struct {
	Choices []struct {
		Delta, Message chatChoice
		Finish         string `json:"finish_reason"`
	}
	Error *struct{ Message, Type string }
}

func chatEvent(data []byte, a *answer) {
	if string(data) == "[DONE]" {
		a.ended = a.status == finishSeen
		return
	}
	var m chatAnswer
	if err := json.Unmarshal(data, &m); err != nil {
		a.failure = "an event that is no JSON"
		return
	}
	if m.Error != nil {
		a.failure = m.Error.Message
	}
	for _, c := range m.Choices {
		a.text += c.Delta.text()
		if c.Finish != "" {
			a.status = finishSeen
		}
	}
}

// finishSeen is the status of an answer while its stream has told why it ends and has not ended.
const finishSeen = 299

func chatWhole(data []byte, a *answer) {
	var m chatAnswer
	if json.Unmarshal(data, &m) == nil && len(m.Choices) > 0 {
		a.text, a.ended = m.Choices[0].Message.text(), m.Choices[0].Finish != ""
	}
}

func openaiFailure(data []byte) string {
	var m chatAnswer
	if json.Unmarshal(data, &m) != nil || m.Error == nil || m.Error.Type == "" {
		return ""
	}
	return m.Error.Message
}

func messagesBody(c *call) object {
	b := object{"model": c.model, "stream": c.stream, "max_tokens": 4000, "messages": []object{{"role": "user", "content": c.prompt()}}}
	if c.tools {
		b["tools"] = []object{{"name": "look", "input_schema": schema}}
	}
	return b
}

type messagesAnswer struct {
	Type  string
	Delta struct {
		Text, Stop string
		JSON       string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	}
	Content []struct {
		Text  string
		Input json.RawMessage
	}
	StopReason string `json:"stop_reason"`
	Error      *struct{ Type, Message string }
}

func messagesEvent(data []byte, a *answer) {
	var m messagesAnswer
	if err := json.Unmarshal(data, &m); err != nil {
		a.failure = "an event that is no JSON"
		return
	}
	switch m.Type {
	case "content_block_delta":
		a.text += m.Delta.Text + m.Delta.JSON
	case "message_delta":
		if m.Delta.StopReason != "" {
			a.status = finishSeen
		}
	case "message_stop":
		a.ended = a.status == finishSeen
	case "error":
		a.failure = m.Error.Message
	}
}

func messagesWhole(data []byte, a *answer) {
	var m messagesAnswer
	if json.Unmarshal(data, &m) != nil {
		return
	}
	for _, block := range m.Content {
		a.text += block.Text + string(block.Input)
	}
	a.ended = m.StopReason != ""
}

func anthropicFailure(data []byte) string {
	var m messagesAnswer
	if json.Unmarshal(data, &m) != nil || m.Type != "error" || m.Error == nil || m.Error.Type == "" {
		return ""
	}
	return m.Error.Message
}
