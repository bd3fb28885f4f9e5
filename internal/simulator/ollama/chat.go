package ollama

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

// Input is a request and its circumstances.
type Input struct {
	Body    []byte
	Runners *Runners
	Now     time.Time
}

// Chat is a request to /api/chat that the rules accept.
type Chat struct {
	Parsed  *rules.Parsed
	Model   Model
	Stream  bool
	Loaded  int           // the context with which the model had to be loaded for it, or 0
	Load    time.Duration // how long that took
	Prompt  int           // tokens that the model sees
	Ignored []string      // members and options that the server does not have
	// Ended is the reason for which there is nothing to answer: "load", "unload" or "".
	Ended string

	in       ChatRequest
	generate bool // the answer has no messages
	context  int  // tokens
}

// CheckChat applies the rules of /api/chat, in the order of the server. The Chat is nil if the
// request was refused before a model was needed.
func CheckChat(in Input) (*Chat, *Refusal) {
	c := &Chat{Ignored: ignored(in.Body, reflect.TypeFor[ChatRequest]())}
	if refusal := decode(in.Body, &c.in); refusal != nil {
		return nil, refusal
	}
	return c.check(in)
}

// CheckGenerate is the same for /api/generate, which takes a prompt instead of messages.
func CheckGenerate(in Input) (*Chat, *Refusal) {
	var request GenerateRequest
	if refusal := decode(in.Body, &request); refusal != nil {
		return nil, refusal
	}
	c := &Chat{Ignored: ignored(in.Body, reflect.TypeFor[GenerateRequest]()), generate: true,
		in: ChatRequest{Model: request.Model, Stream: request.Stream, Format: request.Format, KeepAlive: request.KeepAlive,
			Options: request.Options, Think: request.Think, Truncate: request.Truncate, Shift: request.Shift,
			Logprobs: request.Logprobs, TopLogprobs: request.TopLogprobs}}
	if request.System != "" && request.Prompt != "" {
		c.in.Messages = append(c.in.Messages, Message{Role: "system", Content: request.System})
	}
	if request.Prompt != "" {
		c.in.Messages = append(c.in.Messages, Message{Role: "user", Content: request.Prompt, Images: request.Images})
	}
	return c.check(in)
}

func (c *Chat) check(in Input) (*Chat, *Refusal) {
	if c.in.TopLogprobs < 0 || c.in.TopLogprobs > 20 {
		return nil, refuse(http.StatusBadRequest, "logprobs", "top_logprobs must be between 0 and 20")
	}
	var refusal *Refusal
	if c.Model, refusal = find(c.in.Model); refusal != nil {
		return nil, refusal
	}
	c.Stream = c.in.Stream == nil || *c.in.Stream
	if len(c.in.Messages) == 0 && c.in.KeepAlive != nil && *c.in.KeepAlive == 0 {
		in.Runners.unload(c.Model)
		c.Ended = "unload"
		return c, nil
	}
	if refusal := c.capabilities(); refusal != nil {
		return nil, refusal
	}
	o, refusal := readOptions(c.in.Options)
	if refusal != nil {
		return nil, refusal
	}
	loaded := false
	if c.context, loaded = in.Runners.use(c.Model, o, c.in.KeepAlive, in.Now); loaded {
		c.Loaded = c.context
	}
	if len(c.in.Messages) == 0 {
		c.Ended = "load"
		return c, nil
	}
	return c, c.read(o)
}

// capabilities refuses a request for something that the model cannot do.
func (c *Chat) capabilities() *Refusal {
	switch {
	case c.Model.Remote != "":
		return &Refusal{Status: http.StatusUnauthorized, Rule: "cloud", Message: "unauthorized", SignIn: signIn}
	case c.in.Think != nil && c.in.Think.on && !c.Model.can("thinking"):
		return refuse(http.StatusBadRequest, "think", "%q does not support thinking", c.in.Model)
	case !c.Model.can("completion"):
		return refuse(http.StatusBadRequest, "chat", "%q does not support chat", c.in.Model)
	case len(c.in.Tools) > 0 && !c.Model.can("tools"):
		return refuse(http.StatusBadRequest, "tools", "%s does not support tools", c.Model.fullName())
	}
	return nil
}

const signIn = "https://ollama.com/connect?name=simulator&key=c2ltdWxhdG9y"

// read checks what only the loaded model refuses, and makes the conversation that it sees.
func (c *Chat) read(o options) *Refusal {
	if refusal := c.images(); refusal != nil {
		return refusal
	}
	messages := c.fit()
	c.Parsed = parse(messages, c.in.Tools)
	c.Prompt = count(messages, c.in.Tools)
	if c.Prompt > c.context {
		if c.in.Truncate != nil && !*c.in.Truncate {
			return c.tooLong()
		}
		c.cut()
	}
	config := &c.Parsed.Config
	config.Stop = o.stop
	if o.predict > 0 {
		config.MaxTokens = int64(o.predict)
	}
	if left := max(int64(c.context-c.Prompt), 1); o.predict == -2 || c.in.Shift != nil && !*c.in.Shift {
		// Without a shift of the context, the answer ends where the context does.
		if config.MaxTokens == 0 || left < config.MaxTokens {
			config.MaxTokens = left
		}
	}
	config.Thinking.Include = c.Model.can("thinking") && (c.in.Think == nil || c.in.Think.on || c.Model.Always)
	return c.format()
}

// format reads the schema of the answer.
func (c *Chat) format() *Refusal {
	switch given := strings.TrimSpace(string(c.in.Format)); {
	case given == "" || given == "null" || given == `""`:
	case given == `"json"`:
		c.Parsed.Config.ResponseMIME = "application/json"
	case given[0] != '{':
		return refuse(http.StatusInternalServerError, "format", `invalid format: %q; expected "json" or a valid JSON Schema object`, given)
	default:
		c.Parsed.Config.ResponseMIME, c.Parsed.Config.ResponseJSON = "application/json", c.in.Format
	}
	return nil
}

// images refuses data that is no image, and images for a model that sees none.
func (c *Chat) images() *Refusal {
	for _, m := range c.in.Messages {
		for _, image := range m.Images {
			kind := http.DetectContentType(image)
			switch known := slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, kind); {
			case !c.Model.can("vision") && c.Model.Runner == runnerLlama:
				return refuse(http.StatusInternalServerError, "vision", "%s", llamaError(http.StatusInternalServerError, "server_error",
					"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", ""))
			case !c.Model.can("vision"):
				return refuse(http.StatusInternalServerError, "vision", "Failed to create new sequence: failed to process inputs: this model is missing data required for image input")
			case !known:
				return refuse(http.StatusInternalServerError, "image", "Failed to create new sequence: failed to process inputs: image: unknown format")
			}
		}
	}
	return nil
}

// fit removes messages at the front until the prompt fits, unless the request forbids it. System
// messages and the last message stay, and results of tools stay with their calls.
func (c *Chat) fit() []Message {
	all := c.in.Messages
	if c.in.Truncate != nil && !*c.in.Truncate {
		return all
	}
	for i := range all {
		start := i
		for start > 0 && all[start].Role == "tool" {
			start--
		}
		var kept []Message
		for _, m := range all[:start] {
			if m.Role == "system" {
				kept = append(kept, m)
			}
		}
		kept = append(kept, all[start:]...)
		if i == len(all)-1 || count(kept, c.in.Tools) <= c.context {
			return kept
		}
	}
	return all
}

// cut cuts the start of a prompt that is too long with its last message alone. One of the runners
// keeps room for the answer.
func (c *Chat) cut() {
	c.Prompt = c.context
	if c.Model.Runner == runnerLlama {
		const keep = 4 // tokens at the start
		c.Prompt = c.context - max((c.context-keep)/2, 1)
	}
	last := &c.Parsed.Contents[len(c.Parsed.Contents)-1]
	c.Parsed.System, c.Parsed.Contents = "", []rules.Content{*last}
	for i := range last.Parts {
		text := &last.Parts[i].Text
		if from := len(*text) - c.Prompt*completion.BytesPerToken; from > 0 {
			*text = strings.ToValidUTF8((*text)[from:], "")
		}
	}
}

// tooLong is the error for a prompt that must not be cut.
func (c *Chat) tooLong() *Refusal {
	r := refuse(http.StatusBadRequest, "too_long", "the input length exceeds the context length")
	if c.Model.Runner == runnerLlama {
		r.Message = llamaError(http.StatusBadRequest, "exceed_context_size_error",
			fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", c.Prompt, c.context),
			fmt.Sprintf(`,"n_prompt_tokens":%d,"n_ctx":%d`, c.Prompt, c.context))
	}
	return r
}

// llamaError is an error of the runner that speaks HTTP itself. The server hands its body on as
// text.
func llamaError(status int, kind, message, more string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"type":%q%s}}`, status, encode(message), kind, more)
}

// imageTokens is the estimate for an image in a prompt.
const imageTokens = 258

// count estimates the tokens of a prompt.
func count(messages []Message, tools []Tool) int {
	size, images := 0, 0
	for _, m := range messages {
		size += len(m.Content) + len(m.Thinking) + len(m.ToolName)
		images += len(m.Images)
		for _, call := range m.ToolCalls {
			size += len(call.Function.Name) + len(call.Function.Arguments)
		}
	}
	if len(tools) > 0 {
		size += len(encode(tools))
	}
	return max(completion.Tokens(size)+images*imageTokens, 1)
}

// parse returns the conversation in the form from which answers are composed.
func parse(messages []Message, tools []Tool) *rules.Parsed {
	p := &rules.Parsed{}
	names := map[string]string{}
	var system []string
	for _, m := range messages {
		switch role := strings.ToLower(m.Role); role {
		case "system":
			system = append(system, m.Content)
		case "tool":
			name := m.ToolName
			if name == "" {
				name = names[m.ToolCallID]
			}
			p.Contents = append(p.Contents, rules.Content{Role: "user", Parts: []rules.Part{
				{Response: &rules.Response{ID: m.ToolCallID, Name: name, Response: encode(m.Content)}}}})
		default:
			p.Contents = append(p.Contents, content(m, role, names))
		}
	}
	p.System = strings.Join(system, "\n")
	for _, t := range tools {
		p.Functions = append(p.Functions, rules.Function{Name: t.Function.Name, Description: t.Function.Description,
			Parameters: encode(t.Function.Parameters), JSONSchema: true})
	}
	return p
}

func content(m Message, role string, names map[string]string) rules.Content {
	out := rules.Content{Role: "user"}
	if role == "assistant" {
		out.Role = "model"
	}
	if m.Thinking != "" {
		out.Parts = append(out.Parts, rules.Part{Text: m.Thinking, HasText: true, Thought: true})
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		out.Parts = append(out.Parts, rules.Part{Text: m.Content, HasText: true})
	}
	for _, image := range m.Images {
		out.Parts = append(out.Parts, rules.Part{Blob: &rules.Blob{MIME: http.DetectContentType(image), Size: len(image)}})
	}
	for _, call := range m.ToolCalls {
		names[call.ID] = call.Function.Name
		out.Parts = append(out.Parts, rules.Part{Call: &rules.Call{ID: call.ID, Name: call.Function.Name, Args: json.RawMessage(call.Function.Arguments)}})
	}
	return out
}
