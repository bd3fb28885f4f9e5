package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// An Envelope has the members of a request that are not in its prompt.
type Envelope struct {
	Model   string
	Version string // anthropic_version, for servers that have the model in the URL; Model is not written then
	Stream  bool
}

// EncodeRequest writes a prompt as the body of /v1/messages. Equal prompts give equal bytes. The
// prompt has been adapted to the provider: EncodeRequest writes each thing that this API has a
// place for, and leaves out signatures of texts and calls, which it has none for.
func EncodeRequest(p *perigee.Prompt, e Envelope) []byte {
	w := requestWriter{}
	w.Buf = make([]byte, 0, requestSize(p, 0))
	w.request(p, e)
	return w.Buf
}

// EncodeCountRequest writes a prompt as the body of /v1/messages/count_tokens.
func EncodeCountRequest(p *perigee.Prompt, model string) []byte {
	w := requestWriter{}
	w.Buf = make([]byte, 0, requestSize(p, 0))
	w.Object().Key("model").String(model)
	w.conversation(p)
	return w.EndObject().Buf
}

const (
	// piecesSize is the size of a prompt from which its long texts are not copied.
	piecesSize = 512 << 10
	// longText is the size of a text from which a piece refers to it.
	longText = 2 << 10
)

// EncodePieces returns the result of EncodeRequest in pieces. Long texts of a large prompt are not
// copied: their pieces alias the prompt. All other pieces are in buffer, which is from get, a
// function that returns an empty slice with at least the given capacity.
func EncodePieces(p *perigee.Prompt, e Envelope, get func(size int) []byte) (pieces [][]byte, buffer []byte) {
	w := requestWriter{}
	size := requestSize(p, 0)
	if size >= piecesSize {
		w.Refer = longText
		size = requestSize(p, longText)
	}
	w.Buf = get(size)
	w.request(p, e)
	return w.Pieces(), w.Buf
}

// requestSize estimates the size of an encoded prompt. Values of refer bytes and more are not
// counted, unless refer is 0.
func requestSize(p *perigee.Prompt, refer int) int {
	size := 1024
	count := func(n int) {
		if refer == 0 || n < refer {
			size += n + n/16 // escapes
		}
	}
	var parts func(list []perigee.Part)
	parts = func(list []perigee.Part) {
		for i := range list {
			part := &list[i]
			size += 96 + len(part.Signature)
			count(part.Text.Size())
			switch part.Kind {
			case perigee.PartBlob:
				count(len(part.Blob.Data))
			case perigee.PartCall:
				count(len(part.Call.Args))
			case perigee.PartResponse:
				count(len(part.Response.Response) + len(part.Response.Output))
				parts(part.Response.Media)
			}
		}
	}
	if p.System != nil {
		parts(p.System.Parts)
	}
	for i := range p.Contents {
		parts(p.Contents[i].Parts)
	}
	for i := range p.Tools {
		size += 96
		if f := p.Tools[i].Function; f != nil {
			size += len(f.Name) + len(f.Description)*17/16 + len(f.Parameters)
		}
	}
	return size
}

// A requestWriter writes requests. Members without a value are left out.
type requestWriter struct{ rawjson.Writer }

func (w *requestWriter) request(p *perigee.Prompt, e Envelope) {
	g := &p.Generation
	if e.Version != "" {
		w.Object().Key("anthropic_version").String(e.Version)
	} else {
		w.Object().Key("model").String(e.Model)
	}
	if g.MaxOutputTokens != nil {
		w.Key("max_tokens").Int(*g.MaxOutputTokens)
	}
	if e.Stream {
		w.Members(`"stream":true`)
	}
	w.float("temperature", g.Temperature)
	w.float("top_p", g.TopP)
	if g.TopK != nil {
		w.Key("top_k").Int(int64(*g.TopK))
	}
	if len(g.Stop) > 0 {
		w.Key("stop_sequences").Array()
		for _, s := range g.Stop {
			w.String(s)
		}
		w.EndArray()
	}
	if g.ServiceTier != "" {
		w.Key("service_tier").String(g.ServiceTier)
	}
	w.conversation(p)
	w.EndObject()
}

// conversation writes the members that count_tokens has, too, in the order in which the provider
// caches them.
func (w *requestWriter) conversation(p *perigee.Prompt) {
	w.thinking(p.Generation.Thinking)
	w.output(&p.Generation)
	w.cache(p.Cache)
	w.tools(p)
	if p.System != nil && len(p.System.Parts) > 0 {
		w.Key("system")
		w.blocks(p.System.Parts)
	}
	w.messages(p.Contents)
}

func (w *requestWriter) float(name string, v *float64) {
	if v != nil {
		w.Key(name).Float(*v, 64)
	}
}

// cache writes a cache_control.
func (w *requestWriter) cache(mark *perigee.CacheMark) {
	if mark == nil {
		return
	}
	w.Key("cache_control").Object().Members(`"type":"ephemeral"`)
	if mark.TTL != "" {
		w.Key("ttl").String(mark.TTL)
	}
	w.EndObject()
}

// thinking writes whether the model thinks: a budget of 0 turns thinking off, a larger one enables
// it, and a negative one, or none while thoughts are to be included, leaves it to the model. The
// other members of the setting are members of this one.
func (w *requestWriter) thinking(t *perigee.Thinking) {
	kind := thinkingType(t)
	if kind == "" {
		return
	}
	w.Key("thinking").Object().Key("type").String(kind)
	if kind == "enabled" {
		w.Key("budget_tokens").Int(*t.Budget)
	}
	for _, f := range t.Extra {
		w.AnyKey(f.Name).Raw(f.Value)
	}
	w.EndObject()
}

// thinkingType returns the type of a setting, or "" for the default of the model.
func thinkingType(t *perigee.Thinking) string {
	switch {
	case t == nil:
	case t.Budget != nil && *t.Budget == 0:
		return "disabled"
	case t.Budget != nil && *t.Budget > 0:
		return "enabled"
	case t.Budget != nil, t.Include != nil && *t.Include:
		return "adaptive"
	}
	return ""
}

// output writes the effort and the format of the answer.
func (w *requestWriter) output(g *perigee.Generation) {
	effort := ""
	if g.Thinking != nil {
		effort = g.Thinking.Level
	}
	if effort == "" && g.ResponseJSON == nil {
		return
	}
	w.Key("output_config").Object()
	if effort != "" {
		w.Key("effort").String(effort)
	}
	if g.ResponseJSON != nil {
		w.Key("format").Object().Members(`"type":"json_schema"`).Key("schema").Raw(g.ResponseJSON).EndObject()
	}
	w.EndObject()
}

// serverTools are the types and names of the provider's own tools.
var serverTools = map[string][2]string{
	perigee.BuiltinSearch: {"web_search_20250305", "web_search"},
	perigee.BuiltinFetch:  {"web_fetch_20250910", "web_fetch"},
	perigee.BuiltinCode:   {"code_execution_20250825", "code_execution"},
}

// tools writes the tools and the choice among them. Tools of another provider are left out.
func (w *requestWriter) tools(p *perigee.Prompt) {
	if len(p.Tools) == 0 {
		return
	}
	w.Key("tools").Array()
	for i := range p.Tools {
		t := &p.Tools[i]
		server, ok := serverTools[t.Builtin]
		switch {
		case t.Function != nil:
			w.Object()
			w.function(t.Function)
		case ok:
			w.Object().Key("type").String(server[0]).Key("name").String(server[1])
		default:
			continue
		}
		w.cache(t.Cache)
		w.EndObject()
	}
	w.EndArray()
	w.toolChoice(p.ToolConfig, p.Generation.ParallelCalls)
}

// anyObject is the schema of a function that has none.
var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

func (w *requestWriter) function(f *perigee.Function) {
	w.Key("name").String(f.Name)
	if f.Description != "" {
		w.Key("description").String(f.Description)
	}
	schema := f.Parameters
	if schema == nil {
		schema = anyObject
	}
	w.Key("input_schema").Raw(schema)
	if f.Strict != nil {
		w.Key("strict").Bool(*f.Strict)
	}
}

func (w *requestWriter) toolChoice(config *perigee.ToolConfig, parallel *bool) {
	single := parallel != nil && !*parallel
	if config == nil && !single {
		return
	}
	config = cmp.Or(config, &perigee.ToolConfig{})
	kind := "auto"
	switch {
	case config.Mode == perigee.ToolModeNone:
		kind, single = "none", false
	case config.Mode == perigee.ToolModeAny && len(config.Allowed) == 1:
		kind = "tool"
	case config.Mode == perigee.ToolModeAny:
		kind = "any"
	}
	w.Key("tool_choice").Object().Key("type").String(kind)
	if kind == "tool" {
		w.Key("name").String(config.Allowed[0])
	}
	if single {
		w.Members(`"disable_parallel_tool_use":true`)
	}
	w.EndObject()
}

// messageRole returns the role of a content in this API.
func messageRole(c *perigee.Content) string {
	switch {
	case c.Role == perigee.RoleModel:
		return "assistant"
	case c.Instructs():
		return "system"
	}
	return "user"
}

// messages writes the conversation. Consecutive contents of one role are one message.
func (w *requestWriter) messages(contents []perigee.Content) {
	w.Key("messages").Array()
	for i := 0; i < len(contents); {
		role := messageRole(&contents[i])
		to := i + 1
		for to < len(contents) && messageRole(&contents[to]) == role {
			to++
		}
		w.Object().Key("role").String(role).Key("content")
		if to == i+1 {
			w.blocks(contents[i].Parts)
		} else {
			w.Array()
			for ; i < to; i++ {
				w.elements(contents[i].Parts)
			}
			w.EndArray()
		}
		w.EndObject()
		i = to
	}
	w.EndArray()
}

// blocks writes parts as a list of blocks, or as a string if they are one text.
func (w *requestWriter) blocks(parts []perigee.Part) {
	if len(parts) == 1 && parts[0].Kind == perigee.PartText && !parts[0].Thought && parts[0].Cache == nil {
		w.Form(parts[0].Text.Form())
		return
	}
	w.Array()
	w.elements(parts)
	w.EndArray()
}

func (w *requestWriter) elements(parts []perigee.Part) {
	for i := range parts {
		w.block(&parts[i])
	}
}

// block writes a part. Parts of kind PartOther have no counterpart in this API.
func (w *requestWriter) block(p *perigee.Part) {
	switch p.Kind {
	case perigee.PartText:
		if p.Thought {
			w.Object().Members(`"type":"thinking"`).Key("thinking").Form(p.Text.Form())
			w.Key("signature").String(p.Signature)
		} else {
			w.Object().Members(`"type":"text"`).Key("text").Form(p.Text.Form())
		}
	case perigee.PartRedacted:
		w.Object().Members(`"type":"redacted_thinking"`).Key("data").String(p.Signature)
	case perigee.PartBlob:
		w.media(p.Blob.MIME).Object().Members(`"type":"base64"`).Key("media_type").String(p.Blob.MIME)
		w.Key("data").String(p.Blob.Data).EndObject()
	case perigee.PartFile:
		w.media(p.File.MIME).Object().Members(`"type":"url"`).Key("url").String(p.File.URI).EndObject()
	case perigee.PartCall:
		input := p.Call.Args
		if input == nil {
			input = json.RawMessage("{}")
		}
		w.Object().Members(`"type":"tool_use"`).Key("id").String(p.Call.ID).Key("name").String(p.Call.Name).Key("input").Raw(input)
	case perigee.PartResponse:
		w.result(p.Response)
	default:
		return
	}
	w.cache(p.Cache)
	w.EndObject()
}

// media begins a block of an image or a document, up to its source.
func (w *requestWriter) media(mime string) *rawjson.Writer {
	kind := "document"
	if isImage(mime) {
		kind = "image"
	}
	return w.Object().Key("type").String(kind).Key("source")
}

func isImage(mime string) bool { return strings.HasPrefix(mime, "image/") }

// result writes the beginning of the result of a tool: its text, and after it its media.
func (w *requestWriter) result(r *perigee.FunctionResponse) {
	text, failed := resultText(r)
	w.Object().Members(`"type":"tool_result"`).Key("tool_use_id").String(r.ID)
	if failed {
		w.Members(`"is_error":true`)
	}
	w.Key("content")
	if len(r.Media) == 0 {
		w.Raw(text)
		return
	}
	w.Array()
	if len(text) > len(`""`) {
		w.Object().Members(`"type":"text"`).Key("text").Raw(text).EndObject()
	}
	w.elements(r.Media)
	w.EndArray()
}

// resultText returns the text of a result as a JSON string: the member output or error if it is a
// string and the only one, and otherwise the whole object.
func resultText(r *perigee.FunctionResponse) (text []byte, failed bool) {
	if r.Output != nil {
		return r.Output, false
	}
	members, c := 0, rawjson.NewCursor(r.Response)
	if c.Kind() == rawjson.Object {
		for key := range c.Object() {
			name := string(key)
			if members++; c.Kind() == rawjson.String && (name == "output" || name == "error") {
				text, failed = c.Raw(), name == "error"
			} else {
				c.Skip()
			}
		}
	}
	if members == 1 && text != nil {
		return text, failed
	}
	return rawjson.AppendString(nil, string(r.Response)), false
}
