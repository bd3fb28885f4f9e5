package chat

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A Form is how a server writes the members in which servers of this API differ. The zero value is
// OpenAI's form.
type Form struct {
	MaxTokens string // the limit of the answer; max_completion_tokens if empty
	Seed      string // seed if empty
	Required  string // the tool_choice that demands a call; required if empty
	Session   string // the name of the conversation; it is not sent if this is empty
	Documents string // the type of parts with documents; file if empty
	Thinking  ThinkingForm
	Reasoning ReasoningForm
	Joined    bool // several texts of a message are one string
}

// A ThinkingForm is how a request sets the amount of thinking.
type ThinkingForm uint8

// The forms of thinking.
const (
	ThinkingEffort ThinkingForm = iota // reasoning_effort
	ThinkingObject                     // reasoning: {effort, max_tokens}
	ThinkingSwitch                     // thinking: {type}, and reasoning_effort
	ThinkingParsed                     // reasoning_effort, and reasoning_format: parsed
)

// A ReasoningForm is how a history contains the thinking of the model.
type ReasoningForm uint8

// The forms of reasoning.
const (
	ReasoningNone    ReasoningForm = iota // not at all
	ReasoningContent                      // reasoning_content
	ReasoningField                        // reasoning
	ReasoningParts                        // content is a list with parts of type thinking
	ReasoningDetails                      // reasoning_details, as the server has sent them
)

// member returns the member of a message with the thinking, or "" if it has no member of its own.
func (f ReasoningForm) member() string {
	switch f {
	case ReasoningContent:
		return "reasoning_content"
	case ReasoningField:
		return "reasoning"
	case ReasoningDetails:
		return "reasoning_details"
	}
	return ""
}

// An Envelope has the members of a request beside its prompt.
type Envelope struct {
	Model   string
	Stream  bool
	Form    Form
	Session string // the client's name for the conversation, by which servers find cached prompts
}

// EncodeRequest writes a prompt as the body of POST /chat/completions. Package adapt has made it one
// that the server takes. Equal prompts give equal bytes.
func EncodeRequest(p *perigee.Prompt, e Envelope) []byte {
	pieces, _ := EncodePieces(p, e, func(size int) []byte { return make([]byte, 0, size) })
	return slices.Concat(pieces...)
}

// EncodePieces returns the result of EncodeRequest in pieces. Long texts of a large prompt are not
// copied: their pieces alias the prompt. All other pieces are in buffer, which is from get, a
// function that returns an empty slice with at least the given capacity.
func EncodePieces(p *perigee.Prompt, e Envelope, get func(size int) []byte) (pieces [][]byte, buffer []byte) {
	w := requestWriter{form: e.Form}
	size, refer := dialect.PiecesSize(p)
	w.Buf, w.Refer = get(size), refer
	for i := range p.Tools {
		if f := p.Tools[i].Function; f != nil && f.Custom != nil {
			w.custom = append(w.custom, f.Name)
		}
	}
	w.request(p, e)
	return w.Pieces(), w.Buf
}

// A requestWriter writes one request.
type requestWriter struct {
	rawjson.Writer
	form   Form
	custom []string // the tools that take a text
}

func (w *requestWriter) request(p *perigee.Prompt, e Envelope) {
	w.Object().Key("model").String(e.Model).Key("messages").Array()
	if p.System != nil {
		w.message("system", p.System, p.System.Parts)
	}
	for i := range p.Contents {
		w.content(&p.Contents[i])
	}
	w.EndArray()
	if e.Stream {
		w.Members(`"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.tools(p)
	w.generation(&p.Generation)
	if w.form.Session != "" && e.Session != "" {
		w.Key(w.form.Session).String(e.Session)
	}
	w.EndObject()
}

// content writes the messages of a content. Each tool result is a message, before the other parts.
func (w *requestWriter) content(c *perigee.Content) {
	switch {
	case c.Role == perigee.RoleModel:
		w.assistant(c)
		return
	case c.Instructs():
		w.message(c.Role, c, c.Parts)
		return
	}
	results := 0
	for results < len(c.Parts) && c.Parts[results].Kind == perigee.PartResponse {
		w.result(&c.Parts[results])
		results++
	}
	if results < len(c.Parts) {
		w.message("user", c, c.Parts[results:])
	}
}

// message writes a message of parts that are no results.
func (w *requestWriter) message(role string, c *perigee.Content, parts []perigee.Part) {
	w.Object().Key("role").String(role)
	w.name(c)
	w.Key("content")
	w.parts(parts)
	w.EndObject()
}

func (w *requestWriter) name(c *perigee.Content) {
	if c.Name != "" {
		w.Key("name").String(c.Name)
	}
}

// parts writes the content of a message: a string if it is one text without a mark, a list
// otherwise.
func (w *requestWriter) parts(parts []perigee.Part) {
	plain := func(p perigee.Part) bool { return p.Kind == perigee.PartText && p.Cache == nil }
	if len(parts) == 1 && plain(parts[0]) {
		w.Form(parts[0].Text.Form())
		return
	}
	if w.form.Joined && !slices.ContainsFunc(parts, func(p perigee.Part) bool { return p.Kind != perigee.PartText }) {
		w.joined(parts)
		return
	}
	w.Array()
	for i := range parts {
		w.part(&parts[i])
	}
	w.EndArray()
}

// joined writes several texts as one string with a line for each.
func (w *requestWriter) joined(parts []perigee.Part) {
	size := 0
	for i := range parts {
		size += parts[i].Text.Size()
	}
	lines := rawjson.NewLineJoiner(size)
	for i := range parts {
		lines.Add(parts[i].Text.Form())
	}
	w.Raw(lines.JSON())
}

func (w *requestWriter) part(p *perigee.Part) {
	w.Object()
	switch p.Kind {
	case perigee.PartText:
		w.Members(`"type":"text"`).Key("text").Form(p.Text.Form())
	case perigee.PartBlob:
		w.blob(p.Blob)
	case perigee.PartFile:
		w.image(p.File.Detail).String(p.File.URI).EndObject()
	}
	w.mark(p.Cache)
	w.EndObject()
}

// image begins a part with an image. The caller writes its URL and ends the inner object.
func (w *requestWriter) image(detail perigee.Detail) *rawjson.Writer {
	w.Members(`"type":"image_url"`).Key("image_url").Object()
	if detail != "" {
		w.Key("detail").String(string(detail))
	}
	return w.Key("url")
}

// blob writes data: a sound, a document or an image.
func (w *requestWriter) blob(b *perigee.Blob) {
	url := func() *rawjson.Writer { return w.Prefixed("data:"+b.MIME+";base64,", b.Data) }
	switch kind, format, _ := strings.Cut(b.MIME, "/"); {
	case kind == "audio":
		w.Members(`"type":"input_audio"`).Key("input_audio").Object().Key("data").String(b.Data)
		w.Key("format").String(openai.AudioFormat(format)).EndObject()
	case kind == "image":
		w.image(b.Detail)
		url().EndObject()
	case w.form.Documents != "":
		w.Key("type").String(w.form.Documents).Key(w.form.Documents)
		url()
	default:
		w.Members(`"type":"file"`).Key("file").Object().Key("filename").String(documentName(b)).Key("file_data")
		url().EndObject()
	}
}

// documentName returns a name for a document, which the API requires.
func documentName(b *perigee.Blob) string {
	if raw := b.Extra.Get("displayName"); raw != nil {
		if name := rawjson.NewCursor(raw).String(); name != "" {
			return name
		}
	}
	_, kind, _ := strings.Cut(b.MIME, "/")
	return "document." + kind
}

// mark writes a cache mark.
func (w *requestWriter) mark(mark *perigee.CacheMark) {
	if mark == nil {
		return
	}
	w.Key("cache_control").Object().Members(`"type":"ephemeral"`)
	if mark.TTL != "" {
		w.Key("ttl").String(mark.TTL)
	}
	w.EndObject()
}

// result writes a tool result.
func (w *requestWriter) result(p *perigee.Part) {
	r := p.Response
	w.Members(`{"role":"tool"`).Key("tool_call_id").String(r.ID).Key("content")
	text := dialect.ResultText(r)
	if p.Cache == nil {
		w.Raw(text)
	} else {
		w.Members(`[{"type":"text"`).Key("text").Raw(text)
		w.mark(p.Cache)
		w.EndObject().EndArray()
	}
	w.EndObject()
}

// assistant writes a message of the model: its thinking, text and calls.
func (w *requestWriter) assistant(c *perigee.Content) {
	var thoughts, texts, calls []perigee.Part
	for _, p := range c.Parts {
		switch {
		case p.Thought:
			thoughts = append(thoughts, p)
		case p.Kind == perigee.PartCall:
			calls = append(calls, p)
		case p.Kind == perigee.PartText:
			texts = append(texts, p)
		}
	}
	w.Members(`{"role":"assistant"`)
	w.name(c)
	if len(thoughts) > 0 {
		w.thoughts(thoughts)
	}
	inList := w.form.Reasoning == ReasoningParts && len(thoughts) > 0
	switch {
	case inList:
		w.Key("content").Array().Members(`{"type":"thinking","thinking":[{"type":"text"`).Key("text")
		w.joined(thoughts)
		w.EndObject().EndArray().Members(`"closed":true`).EndObject()
		for i := range texts {
			w.part(&texts[i])
		}
		w.EndArray()
	case len(texts) > 0:
		w.Key("content")
		w.parts(texts)
	case len(calls) == 0:
		w.Members(`"content":""`)
	default:
		w.Members(`"content":null`)
	}
	if len(calls) > 0 {
		w.Key("tool_calls").Array()
		for i := range calls {
			w.call(calls[i].Call)
		}
		w.EndArray()
	}
	w.EndObject()
}

// thoughts writes the thinking of a message where it is a member of its own.
func (w *requestWriter) thoughts(parts []perigee.Part) {
	switch w.form.Reasoning {
	case ReasoningContent:
		w.Key("reasoning_content")
	case ReasoningField:
		w.Key("reasoning")
	case ReasoningDetails:
		for i := range parts {
			if parts[i].Kind == perigee.PartRedacted {
				w.Key("reasoning_details").Raw([]byte(parts[i].Signature))
				return
			}
		}
		return
	default:
		return
	}
	w.joined(parts)
}

func (w *requestWriter) call(call *perigee.FunctionCall) {
	w.Object().Key("id").String(call.ID)
	if slices.Contains(w.custom, call.Name) {
		w.Members(`"type":"custom"`).Key("custom").Object().Key("name").String(call.Name)
		w.Key("input").String(openai.Unwrap("input", call.Args))
	} else {
		args := call.Args
		if len(args) == 0 {
			args = openai.EmptyArgs
		}
		w.Members(`"type":"function"`).Key("function").Object().Key("name").String(call.Name)
		w.Key("arguments").String(string(args))
	}
	w.EndObject().EndObject()
}

// tools writes the tools, and how the model may choose among them.
func (w *requestWriter) tools(p *perigee.Prompt) {
	if len(p.Tools) == 0 {
		return
	}
	w.Key("tools").Array()
	for i := range p.Tools {
		if f := p.Tools[i].Function; f != nil {
			w.tool(f)
			w.mark(p.Tools[i].Cache)
			w.EndObject()
		}
	}
	w.EndArray()
	if p.ToolConfig != nil {
		w.choice(p.ToolConfig)
	}
}

// tool writes a tool except for its end.
func (w *requestWriter) tool(f *perigee.Function) {
	describe := func() {
		w.Key("name").String(f.Name)
		if f.Description != "" {
			w.Key("description").String(f.Description)
		}
	}
	if f.Custom != nil {
		w.Members(`{"type":"custom"`).Key("custom").Object()
		describe()
		if f.Custom.Definition != "" {
			w.Key("format").Members(`{"type":"grammar"`).Key("grammar").Object()
			w.Key("definition").String(f.Custom.Definition).Key("syntax").String(f.Custom.Syntax).EndObject().EndObject()
		}
		w.EndObject()
		return
	}
	w.Members(`{"type":"function"`).Key("function").Object()
	describe()
	if f.Parameters != nil {
		w.Key("parameters").Raw(f.Parameters)
	}
	if f.Strict != nil {
		w.Key("strict").Bool(*f.Strict)
	}
	w.EndObject()
}

// choice writes tool_choice. The default is not written.
func (w *requestWriter) choice(config *perigee.ToolConfig) {
	demands := config.Mode == perigee.ToolModeAny
	switch n := len(config.Allowed); {
	case config.Mode == perigee.ToolModeNone:
		w.Members(`"tool_choice":"none"`)
	case n == 0 && demands:
		required := "required"
		if w.form.Required != "" {
			required = w.form.Required
		}
		w.Key("tool_choice").String(required)
	case n == 1 && demands:
		w.Key("tool_choice")
		w.named(config.Allowed[0])
	case n > 0:
		mode := "auto"
		if demands {
			mode = "required"
		}
		w.Key("tool_choice").Members(`{"type":"allowed_tools"`).Key("allowed_tools").Object()
		w.Key("mode").String(mode).Key("tools").Array()
		for _, name := range config.Allowed {
			w.named(name)
		}
		w.EndArray().EndObject().EndObject()
	}
}

// named writes a reference to a tool.
func (w *requestWriter) named(name string) {
	kind := "function"
	if slices.Contains(w.custom, name) {
		kind = "custom"
	}
	w.Object().Key("type").String(kind).Key(kind).Object().Key("name").String(name).EndObject().EndObject()
}
