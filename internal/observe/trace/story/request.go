package story

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
)

// request writes a summary of the client's request.
func (p *printer) request() {
	tr := p.story.Trace
	if tr == nil {
		return
	}
	target, _, _ := strings.Cut(tr.Meta.Path, "?")
	how := ""
	if p.story.Call.Stream {
		how = "streamed"
	}
	if target != "" {
		p.line("", "", "%s", terminal.Joined(strings.TrimSpace(tr.Meta.Method+" "+target), how))
	}
	raw, err := tr.Read(trace.ClientRequestName)
	if err != nil {
		return
	}
	var body map[string]any
	if json.Unmarshal(raw, &body) != nil {
		p.line("", terminal.Warning, "the body is not a JSON object")
		return
	}
	r := readRequest(body)
	if r.system != "" {
		p.line("", "", "system prompt, %s: %s", terminal.Size(int64(len(r.system))), p.quote(r.system))
	}
	if len(r.roles) > 0 {
		p.line("", "", "%s", r.conversation())
	}
	if r.last != "" {
		p.line("", "", "last user message: %s", p.quote(r.last))
	}
	if len(r.tools) > 0 {
		p.line("", "", "%s", toolList(r.tools))
	}
	if len(r.settings) > 0 {
		p.line("", "", "%s", strings.Join(r.settings, ", "))
	}
}

// A request is the summary of a request body.
type request struct {
	system   string
	roles    []string // of the messages
	results  int      // of tools
	media    int
	last     string // text of the user
	tools    []string
	settings []string // "temperature 0.5"
}

// readRequest reads a body in any of the dialects.
func readRequest(body map[string]any) (r request) {
	for _, name := range []string{"system", "instructions", "systemInstruction", "system_instruction"} {
		if text := r.textOf(body[name]); text != "" && r.system == "" {
			r.system = text
		}
	}
	r.media, r.results = 0, 0 // count only those in the conversation
	for _, name := range []string{"messages", "contents", "input"} {
		switch list := body[name].(type) {
		case []any:
			for _, m := range list {
				r.message(m)
			}
		case string: // the short form of the Responses API
			r.roles, r.last = append(r.roles, "user"), list
		}
	}
	for _, t := range asList(body["tools"]) {
		r.tool(t)
	}
	settings := maps.Clone(body)
	for _, name := range []string{"generationConfig", "generation_config"} {
		if inner, ok := body[name].(map[string]any); ok {
			maps.Copy(settings, inner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch value := settings[name].(type) {
		case float64, bool:
			r.settings = append(r.settings, fmt.Sprint(name, " ", value))
		case string:
			if name != "model" && name != "input" && name != "system" && name != "instructions" && name != "prompt" {
				r.settings = append(r.settings, name+" "+clipped(value, 40))
			}
		}
	}
	return r
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

// message counts a message, or an item of the input.
func (r *request) message(value any) {
	m, ok := value.(map[string]any)
	if !ok { // the inputs of embeddings are strings
		r.roles = append(r.roles, "input")
		return
	}
	role, _ := m["role"].(string)
	before := r.results
	text := r.textOf(m["content"]) + r.textOf(m["parts"])
	switch kind, _ := m["type"].(string); {
	case role == "system" || role == "developer":
		r.system += text
		return
	case role == "tool" || kind == "function_call_output":
		r.results++
		return
	case role == "" && kind != "" && kind != "message":
		return // calls and reasoning, which belong to the messages around them
	}
	if role == "" {
		role = "user"
	}
	if role == "user" && r.results > before && text == "" {
		return // only results of tools
	}
	r.roles = append(r.roles, role)
	if role == "user" && text != "" {
		r.last = text
	}
}

// textOf returns the text of a message, a block or a list of blocks. It counts media and results.
func (r *request) textOf(value any) (text string) {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		for _, part := range v {
			text += r.textOf(part)
		}
	case map[string]any:
		switch kind, _ := v["type"].(string); {
		case kind == "tool_result" || v["functionResponse"] != nil || v["function_response"] != nil:
			r.results++
			return ""
		case kind == "image" || kind == "image_url" || kind == "input_image" || v["inlineData"] != nil || v["inline_data"] != nil || v["fileData"] != nil:
			r.media++
			return ""
		}
		text, _ = v["text"].(string)
		if parts, ok := v["parts"]; ok {
			text += r.textOf(parts)
		}
	}
	return text
}

// tool adds the names of a tool.
func (r *request) tool(value any) {
	t, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{"functionDeclarations", "function_declarations"} {
		for _, f := range asList(t[name]) {
			r.tool(f)
		}
		if t[name] != nil {
			return
		}
	}
	if f, ok := t["function"].(map[string]any); ok {
		t = f
	}
	for _, name := range []string{"name", "type"} {
		if s, _ := t[name].(string); s != "" {
			r.tools = append(r.tools, s)
			return
		}
	}
	r.tools = append(r.tools, slices.Sorted(maps.Keys(t))...) // a tool of the provider's: {"googleSearch": {}}
}

// conversation is how many messages of each role there are.
func (r *request) conversation() string {
	counts := map[string]int{}
	for _, role := range r.roles {
		counts[role]++
	}
	var words []string
	for _, role := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprint(counts[role], " ", role))
	}
	text := terminal.Number(len(r.roles), "message", "messages") +
		" (" + strings.Join(words, ", ") + ")"
	if r.results > 0 {
		text += ", " + terminal.Number(r.results, "tool result", "tool results")
	}
	if r.media > 0 {
		text += ", " + terminal.Number(r.media, "attachment", "attachments")
	}
	return text
}

// shownTools is how many tools are named.
const shownTools = 8

func toolList(names []string) string {
	text := terminal.Number(len(names), "tool", "tools") + ": "
	for i, name := range names {
		if i == shownTools {
			return text + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += clipped(name, 40)
	}
	return text
}
