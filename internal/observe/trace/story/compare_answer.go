package story

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee"
)

// An Answer has the parts of the answer to a call that are compared.
type Answer struct {
	Text  string
	Calls []AnswerCall
	Usage perigee.Usage
	Notes []string
	Error string // empty if there was none
}

// An AnswerCall is a function call. Args are JSON with sorted members.
type AnswerCall struct{ Name, Args string }

// ReadAnswer returns the text, the tool calls and the error in the body of an answer. Usage and
// Notes come from the record, which has them in every dialect.
func ReadAnswer(body []byte, record *perigee.Trace) Answer {
	r := reader{texts: map[int]*strings.Builder{}, calls: map[string]*AnswerCall{}}
	for _, chunk := range chunks(body) {
		var c message
		if json.Unmarshal(chunk, &c) == nil {
			r.read(&c)
		}
	}
	a := Answer{Error: r.failed}
	for _, candidate := range slices.Sorted(maps.Keys(r.texts)) {
		a.Text += r.texts[candidate].String()
	}
	for _, key := range r.order {
		call := *r.calls[key]
		call.Args = canonical(call.Args)
		a.Calls = append(a.Calls, call)
	}
	if record != nil {
		a.Usage = perigee.Usage{Input: record.InputTokens, Cached: record.CachedTokens, Output: record.OutputTokens, Thinking: record.ThinkingTokens}
		a.Notes = record.Notes
		if a.Error == "" {
			a.Error = record.Error
		}
	}
	return a
}

// Redacted returns the answer without secrets. A secret that was spelled over several deltas is in
// one piece only here.
func (a Answer) Redacted(redact func(string) string) Answer {
	a.Text, a.Error = redact(a.Text), redact(a.Error)
	a.Calls, a.Notes = slices.Clone(a.Calls), slices.Clone(a.Notes)
	for i := range a.Calls {
		a.Calls[i] = AnswerCall{redact(a.Calls[i].Name), redact(a.Calls[i].Args)}
	}
	for i := range a.Notes {
		a.Notes[i] = redact(a.Notes[i])
	}
	return a
}

// chunks are the JSON values of a body: the events of a stream, the elements of an array, or one
// value.
func chunks(body []byte) (list []json.RawMessage) {
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("[")) && json.Unmarshal(body, &list) == nil {
		return list
	}
	if bytes.HasPrefix(body, []byte("{")) {
		return []json.RawMessage{body}
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			list = append(list, json.RawMessage(bytes.TrimSpace(data)))
		}
	}
	return list
}

// A message is a body or a chunk of one. It has the members of all dialects.
type message struct {
	Type  string
	Index int
	Error json.RawMessage

	// OpenAI, Chat Completions
	Choices []struct {
		Index          int
		Message, Delta struct {
			Content   json.RawMessage
			ToolCalls []struct {
				Index    *int
				Function function
			} `json:"tool_calls"`
		}
	}

	// OpenAI, Responses. A stream ends with the whole response.
	Response *struct {
		Output []item
		Error  json.RawMessage
	}
	Output []item

	// Anthropic
	Content      []item
	ContentBlock *item `json:"content_block"`
	Delta        json.RawMessage

	// Gemini
	Candidates []struct {
		Index   int
		Content struct {
			Parts []struct {
				Text         string
				Thought      bool
				FunctionCall *struct {
					Name string
					Args json.RawMessage
				}
			}
		}
	}
}

type function struct{ Name, Arguments string }

// An item is a block of content, or an item of the output.
type item struct {
	Type, Text, Name, Arguments string
	Input                       json.RawMessage
	Content                     []item
}

// A reader collects the contents of chunks.
type reader struct {
	texts  map[int]*strings.Builder // by candidate
	calls  map[string]*AnswerCall
	order  []string // of calls
	failed string
}

func (r *reader) text(candidate int, s string) {
	if r.texts[candidate] == nil {
		r.texts[candidate] = &strings.Builder{}
	}
	r.texts[candidate].WriteString(s)
}

// call returns the call of a key, which chunks that continue it have in common.
func (r *reader) call(key string) *AnswerCall {
	if r.calls[key] == nil {
		r.calls[key] = &AnswerCall{}
		r.order = append(r.order, key)
	}
	return r.calls[key]
}

func (r *reader) newCall(name, args string) {
	*r.call(fmt.Sprint("new ", len(r.order))) = AnswerCall{name, args}
}

func (r *reader) read(m *message) {
	r.fail(m.Error)
	r.readChat(m)
	r.readGemini(m)
	if m.Response != nil {
		r.fail(m.Response.Error)
		if m.Type != "response.created" && m.Type != "response.in_progress" {
			r.readItems(m.Response.Output)
		}
	}
	r.readItems(m.Output)
	r.readItems(m.Content)
	r.readBlocks(m)
}

// fail records the message of the first error.
func (r *reader) fail(raw json.RawMessage) {
	var e struct{ Message string }
	if r.failed == "" && len(raw) > 0 && json.Unmarshal(raw, &e) == nil {
		r.failed = e.Message
	}
}

func (r *reader) readChat(m *message) {
	for _, choice := range m.Choices {
		for _, part := range []json.RawMessage{choice.Message.Content, choice.Delta.Content} {
			var text string
			if json.Unmarshal(part, &text) == nil {
				r.text(choice.Index, text)
			}
		}
		for _, call := range choice.Message.ToolCalls {
			r.newCall(call.Function.Name, call.Function.Arguments)
		}
		for _, call := range choice.Delta.ToolCalls {
			index := 0
			if call.Index != nil {
				index = *call.Index
			}
			c := r.call(fmt.Sprint("choice ", choice.Index, " ", index))
			c.Name += call.Function.Name
			c.Args += call.Function.Arguments
		}
	}
}

func (r *reader) readGemini(m *message) {
	for _, candidate := range m.Candidates {
		for _, part := range candidate.Content.Parts {
			if part.FunctionCall != nil {
				r.newCall(part.FunctionCall.Name, string(part.FunctionCall.Args))
			} else if !part.Thought {
				r.text(candidate.Index, part.Text)
			}
		}
	}
}

// readItems reads the blocks of an answer of Anthropic, or the output of a response.
func (r *reader) readItems(items []item) {
	for _, it := range items {
		switch it.Type {
		case "text", "output_text":
			r.text(0, it.Text)
		case "message":
			r.readItems(it.Content)
		case "tool_use":
			r.newCall(it.Name, string(it.Input))
		case "function_call":
			r.newCall(it.Name, it.Arguments)
		}
	}
}

// readBlocks reads the events of a stream of Anthropic.
func (r *reader) readBlocks(m *message) {
	key := fmt.Sprint("block ", m.Index)
	switch m.Type {
	case "content_block_start":
		if m.ContentBlock != nil && m.ContentBlock.Type == "tool_use" {
			r.call(key).Name = m.ContentBlock.Name
		}
	case "content_block_delta":
		var delta struct {
			Text        string
			PartialJSON string `json:"partial_json"`
		}
		if json.Unmarshal(m.Delta, &delta) != nil {
			return
		}
		r.text(0, delta.Text)
		if r.calls[key] != nil {
			r.calls[key].Args += delta.PartialJSON
		}
	}
}

// canonical writes JSON with sorted members and without spaces. Text that is not JSON is returned
// unchanged.
func canonical(args string) string {
	if strings.TrimSpace(args) == "" {
		return "{}"
	}
	var value any
	decoder := json.NewDecoder(strings.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return args
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return args
	}
	return strings.TrimSpace(b.String())
}
