package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Request has the parts of an accepted request that an answer needs. Raw values alias the body.
type Request struct {
	Model     Model // the zero value if the model is unknown
	Name      string
	MaxTokens int
	Stream    bool
	System    string // texts joined by newlines
	Messages  []Turn
	Tools     []Tool
	Choice    string // auto, any, tool, none; empty if not given
	Chosen    string // the tool that Choice names
	Parallel  bool   // several calls in one answer are legal
	Thinking  Thinking
	Stop      []string
	Format    json.RawMessage // the JSON schema of the answer, or nil
	Edits     bool            // the request has context_management
	Thread    bool            // the request begins or continues a thread
	Tokens    int             // estimate of the whole prompt
	Body      []byte          // with the messages of the thread that it continues

	in     Input
	root   node
	effort string
	turns  []merged
}

// Thinking is the effective configuration.
type Thinking struct {
	Type   string // as given: enabled, adaptive, disabled or empty
	Budget int
	On     bool
	Shown  bool // summarized, not omitted
}

// Turn is one message.
type Turn struct {
	Role   string
	Blocks []Block
}

// Block is one content block. A content that is a string is one text.
type Block struct {
	Type      string
	Text      string // of text and thinking
	Signature string // of thinking; the data of redacted_thinking
	ID        string // of a call; of a result, the call that it belongs to
	Name      string
	Input     json.RawMessage
	Result    []Block // of tool_result
	IsError   bool

	node node
	text bool // the content was a string
}

// Tool is a declared tool.
type Tool struct {
	Type, Name, Description string
	Schema                  json.RawMessage // nil for tools of the provider
	node                    node
}

// Search reports whether the provider's web search is declared.
func (r *Request) Search() bool {
	for _, t := range r.Tools {
		if strings.HasPrefix(t.Type, "web_search_2") {
			return true
		}
	}
	return false
}

// read takes the request apart. The schema has accepted it.
func read(in Input, root node) *Request {
	r := &Request{in: in, root: root, Body: root.raw, Name: root.get("model").text(), MaxTokens: int(root.get("max_tokens").number()),
		Stream: root.get("stream").isTrue(), Edits: root.get("context_management").given(), Thread: root.get("thread").given(),
		effort: root.get("output_config").get("effort").text()}
	r.Model, _ = FindModel(r.Name)
	var system []string
	for _, b := range readBlocks(root.get("system")) {
		system = append(system, b.Text)
	}
	r.System = strings.Join(system, "\n")
	for _, m := range root.get("messages").kids {
		r.Messages = append(r.Messages, Turn{Role: m.get("role").text(), Blocks: readBlocks(m.get("content"))})
	}
	for _, t := range root.get("tools").kids {
		r.Tools = append(r.Tools, Tool{Type: t.get("type").text(), Name: t.get("name").text(), Description: t.get("description").text(),
			Schema: t.get("input_schema").raw, node: t})
	}
	choice := root.get("tool_choice")
	r.Choice, r.Chosen = choice.get("type").text(), choice.get("name").text()
	r.Parallel = !choice.get("disable_parallel_tool_use").isTrue()
	for _, s := range root.get("stop_sequences").kids {
		r.Stop = append(r.Stop, s.text())
	}
	format := root.get("output_config").get("format")
	if !format.given() {
		format = root.get("output_format")
	}
	r.Format = format.get("schema").raw
	r.turns = merge(r.Messages)
	r.readThinking()
	r.Tokens = r.count()
	return r
}

func (r *Request) readThinking() {
	given := r.root.get("thinking")
	r.Thinking = Thinking{Type: given.get("type").text(), Budget: int(given.get("budget_tokens").number())}
	r.Thinking.On = r.Thinking.Type == "enabled" || r.Thinking.Type == "adaptive" || r.Thinking.Type == "" && r.Model.On
	switch given.get("display").text() {
	case "summarized":
		r.Thinking.Shown = true
	case "":
		r.Thinking.Shown = !r.Model.Omitted
	}
}

func readBlocks(content node) []Block {
	if content.kind() == '"' {
		return []Block{{Type: "text", Text: content.text(), node: content, text: true}}
	}
	var out []Block
	for _, n := range content.kids {
		b := Block{Type: n.get("type").text(), node: n, Name: n.get("name").text(), ID: n.get("id").text(), Text: n.get("text").text()}
		switch b.Type {
		case "thinking":
			b.Text, b.Signature = n.get("thinking").text(), n.get("signature").text()
		case "redacted_thinking":
			b.Signature = n.get("data").text()
		case "tool_use":
			b.Input = n.get("input").raw
		case "tool_result":
			b.ID, b.Result, b.IsError = n.get("tool_use_id").text(), readBlocks(n.get("content")), n.get("is_error").isTrue()
		}
		out = append(out, b)
	}
	return out
}

// MediaType returns the type of an image or a document with its own data, or "".
func (b Block) MediaType() string { return b.node.get("source").get("media_type").text() }

// Data returns the base64 data of an image or a document, or "".
func (b Block) Data() string {
	if source := b.node.get("source"); source.get("type").text() == "base64" {
		return source.get("data").text()
	}
	return ""
}

// continued returns the request with the messages of the thread that it continues. A member that
// it does not repeat is the thread's.
func (in Input) continued(root node) (node, *Refusal) {
	thread := root.get("thread")
	if thread.get("type").text() != "continue" {
		return root, nil
	}
	id := thread.get("previous_message_id").text()
	var before []byte
	found := in.Thread != nil
	if found {
		before, found = in.Thread(id)
	}
	if !found {
		refusal := NewRefusal(http.StatusNotFound, "thread.unknown", "thread.previous_message_id: no thread has the message %s", id)
		refusal.Details = map[string]any{"error_code": "thread_not_found"}
		return root, refusal
	}
	start := parse(before)
	var members []string
	for i, key := range root.keys {
		if key != "messages" {
			members = append(members, fmt.Sprintf("%s:%s", encode(key), root.kids[i].raw))
		}
	}
	for i, key := range start.keys {
		if (key == "system" || key == "tools") && !root.get(key).given() {
			members = append(members, fmt.Sprintf("%s:%s", encode(key), start.kids[i].raw))
		}
	}
	members = append(members, `"messages":`+string(joined(start.get("messages"), root.get("messages"))))
	return parse([]byte("{" + strings.Join(members, ",") + "}")), nil
}

// joined returns the list with the items of both.
func joined(lists ...node) []byte {
	var items []string
	for _, l := range lists {
		for _, item := range l.kids {
			items = append(items, string(item.raw))
		}
	}
	return []byte("[" + strings.Join(items, ",") + "]")
}

// Answered returns the body of the request with the content of its answer as the last message.
func (r *Request) Answered(content []byte) []byte {
	reply := parse(fmt.Appendf(nil, `[{"role":"assistant","content":%s}]`, content))
	messages := joined(r.root.get("messages"), reply)
	var members []string
	for i, key := range r.root.keys {
		value := r.root.kids[i].raw
		if key == "messages" {
			value = messages
		}
		members = append(members, fmt.Sprintf("%s:%s", encode(key), value))
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

const (
	imageTokens    = 1500 // of a picture of usual size
	documentTokens = 3000
	bytesPerToken  = 4
)

// size returns the bytes of a block that count as tokens.
func (b Block) size() int {
	n := len(b.Text) + len(b.Name) + len(b.Input)
	switch b.Type {
	case "image":
		n += imageTokens * bytesPerToken
	case "document":
		if source := b.node.get("source"); source.get("type").text() == "text" {
			return n + len(source.get("data").text())
		}
		n += documentTokens * bytesPerToken
	case "text", "thinking", "tool_use", "tool_result":
		for _, inner := range b.Result {
			n += inner.size()
		}
	default:
		n += len(b.node.raw)
	}
	return n
}

func (t Tool) size() int { return len(t.node.raw) }

// count estimates the tokens of the prompt: four bytes are a token.
func (r *Request) count() int {
	n := len(r.Format)
	for _, u := range r.units() {
		n += u.size
	}
	return max((n+bytesPerToken-1)/bytesPerToken, 1)
}

// decodedSize returns the number of bytes that base64 text holds, or -1 if it is not base64.
func decodedSize(data string) int {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return -1
	}
	return len(raw)
}
