package pages

import (
	"encoding/json"
	"fmt"
	"strings"

	"perigee"
)

// A Conversation is the readable part of a client's request, as far as its format is known. The
// file has everything.
type Conversation struct {
	Turns   []Turn
	Earlier int64 // turns before those
	Tools   []string
	Raw     string // the request itself, where it has no conversation
}

// A Turn is a message, or a part of one.
type Turn struct {
	Role, Text string
	Cut        bool
}

// Bounds of the parts of a call that are shown. Files have their whole content.
const (
	maxShown = 24 << 10 // bytes of one text
	maxTurns = 12       // of the conversation, the last ones
)

// maxTools is how many names of tools are listed.
const maxTools = 60

// ReadConversation reads a request of any dialect. Redact replaces secrets.
func ReadConversation(body []byte, redact func(string) string) (c Conversation) {
	var request map[string]json.RawMessage
	if json.Unmarshal(body, &request) == nil {
		for _, name := range []string{"system", "systemInstruction", "system_instruction", "instructions"} {
			if text := textOf(request[name], 0); text != "" {
				c.add(redact, "system", text)
			}
		}
		for _, name := range []string{"messages", "contents", "input"} {
			c.addAll(redact, request[name])
		}
		c.Tools = toolNames(request["tools"], redact)
	}
	if len(c.Turns) == 0 {
		c.Raw, _ = Shown(redact, string(body))
	}
	if extra := len(c.Turns) - maxTurns; extra > 0 {
		c.Turns, c.Earlier = c.Turns[extra:], int64(extra)
	}
	return c
}

func (c *Conversation) add(redact func(string) string, role, text string) {
	t := Turn{Role: redact(perigee.Clip(role, 30))}
	t.Text, t.Cut = Shown(redact, text)
	c.Turns = append(c.Turns, t)
}

// addAll adds the messages of a list, or a single text.
func (c *Conversation) addAll(redact func(string) string, raw json.RawMessage) {
	var messages []json.RawMessage
	if json.Unmarshal(raw, &messages) != nil {
		if text := textOf(raw, 0); text != "" {
			c.add(redact, "user", text)
		}
		return
	}
	for _, message := range messages {
		var m struct{ Role, Type string }
		_ = json.Unmarshal(message, &m) // an item without a role is named by its type
		role := m.Role
		if role == "" {
			role = strings.ReplaceAll(m.Type, "_", " ")
		}
		if role == "" {
			role = "user"
		}
		text := textOf(message, 0)
		if text == "" {
			continue
		}
		c.add(redact, role, text)
	}
}

// maxDepth is how deep texts are looked for.
const maxDepth = 8

// textOf collects the texts of a message: its content, parts, calls of functions and their results.
func textOf(raw json.RawMessage, depth int) string {
	if len(raw) == 0 || depth > maxDepth {
		return ""
	}
	switch raw[0] {
	case '"':
		var text string
		_ = json.Unmarshal(raw, &text)
		return text
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list)
		var parts []string
		for _, item := range list {
			if text := textOf(item, depth+1); text != "" {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, "\n")
	case '{':
		return textOfObject(raw, depth)
	}
	return ""
}

func textOfObject(raw json.RawMessage, depth int) string {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	var kind struct{ Name string }
	_ = json.Unmarshal(raw, &kind)
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	for _, name := range []string{"text", "thinking", "content", "parts", "output", "summary"} {
		add(textOf(o[name], depth+1))
	}
	for _, name := range []string{"input", "arguments", "args"} {
		if value, ok := o[name]; ok && kind.Name != "" {
			add(fmt.Sprintf("→ %s %s", kind.Name, plainJSON(value)))
		}
	}
	for _, name := range []string{"tool_calls", "function", "functionCall", "functionResponse"} {
		add(textOf(o[name], depth+1))
	}
	if value, ok := o["response"]; ok && kind.Name != "" {
		add(fmt.Sprintf("← %s %s", kind.Name, plainJSON(value)))
	}
	for _, name := range []string{"source", "image_url", "inlineData", "inline_data", "input_audio", "file"} {
		if _, ok := o[name]; ok {
			add("[" + strings.ReplaceAll(name, "_", " ") + "]")
		}
	}
	return strings.Join(parts, "\n")
}

// plainJSON returns the text of a JSON string, and other JSON unchanged.
func plainJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// toolNames lists the tools of a request.
func toolNames(raw json.RawMessage, redact func(string) string) (names []string) {
	var tools []struct {
		Name     string
		Type     string
		Function struct{ Name string }
		Declared []struct{ Name string } `json:"functionDeclarations"`
	}
	if json.Unmarshal(raw, &tools) != nil {
		return nil
	}
	for _, t := range tools {
		list := []string{t.Name, t.Function.Name}
		if t.Name == "" && t.Function.Name == "" && len(t.Declared) == 0 {
			list = append(list, t.Type)
		}
		for _, f := range t.Declared {
			list = append(list, f.Name)
		}
		for _, name := range list {
			if name != "" && len(names) < maxTools {
				names = append(names, redact(perigee.Clip(name, 80)))
			}
		}
	}
	return names
}
