package responses

import (
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// An Envelope has the members of a request to a provider beside its prompt.
type Envelope struct {
	Model  string
	Stream bool
	// CacheKey is the name of the conversation, by which the provider finds its cached prompts. It
	// may be empty.
	CacheKey string
}

// EncodeRequest writes a prompt as the body of POST /responses. The provider stores nothing, and
// returns its reasoning in a form that can be sent again. Equal prompts give equal bytes.
//
// Package adapt has made the prompt one that the server accepts. Parts and parameters without a
// counterpart in this API are left out: thinking without a signature, signatures of anything but
// thinking, the names of participants, cache marks, penalties, stop sequences and seeds.
func EncodeRequest(p *perigee.Prompt, e Envelope) []byte {
	w := requestWriter{}
	w.Buf = make([]byte, 0, dialect.RequestSize(p))
	w.request(p, e)
	return w.Buf
}

// EncodePieces returns the result of EncodeRequest in pieces. Long texts of a large prompt are not
// copied: their pieces alias the prompt. All other pieces are in buffer, which is from get, a
// function that returns an empty slice with at least the given capacity.
func EncodePieces(p *perigee.Prompt, e Envelope, get func(size int) []byte) (pieces [][]byte, buffer []byte) {
	w := requestWriter{}
	size, refer := dialect.PiecesSize(p)
	w.Refer, w.Buf = refer, get(size)
	w.request(p, e)
	return w.Pieces(), w.Buf
}

// EncodeCountRequest writes a prompt as the body of POST /responses/input_tokens.
func EncodeCountRequest(p *perigee.Prompt, model string) []byte {
	w := requestWriter{}
	w.Buf = make([]byte, 0, dialect.RequestSize(p))
	w.Object().Key("model").String(model)
	w.prompt(p)
	w.EndObject()
	return w.Buf
}

// A requestWriter writes one request.
type requestWriter struct {
	rawjson.Writer
	input inputWriter
}

func (w *requestWriter) request(p *perigee.Prompt, e Envelope) {
	g := &p.Generation
	w.Object().Key("model").String(e.Model)
	if e.Stream {
		w.Members(`"stream":true`)
	}
	w.Members(`"store":false`).Key("include").Array().String("reasoning.encrypted_content")
	if g.Logprobs != nil {
		w.String("message.output_text.logprobs")
	}
	w.EndArray()
	w.text("prompt_cache_key", e.CacheKey)
	w.prompt(p)
	w.int("max_output_tokens", g.MaxOutputTokens)
	w.float("temperature", g.Temperature)
	w.float("top_p", g.TopP)
	if g.Logprobs != nil && *g.Logprobs > 0 {
		w.int("top_logprobs", g.Logprobs)
	}
	w.text("service_tier", g.ServiceTier)
	w.EndObject()
}

// prompt writes the members that determine how many tokens the request has.
func (w *requestWriter) prompt(p *perigee.Prompt) {
	g := &p.Generation
	w.conversation(p)
	if len(p.Tools) > 0 {
		w.Key("tools").Array()
		for i := range p.Tools {
			w.tool(&p.Tools[i])
		}
		w.EndArray()
	}
	if p.ToolConfig != nil {
		w.toolChoice(p, p.ToolConfig)
	}
	w.bool("parallel_tool_calls", g.ParallelCalls)
	w.format(g)
	w.reasoning(g.Thinking)
}

func (w *requestWriter) text(name, s string) {
	if s != "" {
		w.Key(name).String(s)
	}
}

func (w *requestWriter) int(name string, v *int64) {
	if v != nil {
		w.Key(name).Int(*v)
	}
}

func (w *requestWriter) float(name string, v *float64) {
	if v != nil {
		w.Key(name).Float(*v, 64)
	}
}

func (w *requestWriter) bool(name string, v *bool) {
	if v != nil {
		w.Key(name).Bool(*v)
	}
}

// raw writes a value that is JSON already, or null.
func (w *requestWriter) raw(name string, v []byte) {
	if w.Key(name); v == nil {
		w.Null()
	} else {
		w.Raw(v)
	}
}

// tool writes a function or one of the tools of the provider. A function is strict unless the
// request forbids it, which is not what a client of another API expects.
func (w *requestWriter) tool(t *perigee.Tool) {
	f := t.Function
	switch {
	case f == nil && t.Builtin == perigee.BuiltinSearch:
		w.Object().Members(`"type":"web_search"`).EndObject()
	case f == nil && t.Builtin == perigee.BuiltinCode:
		w.Object().Members(`"type":"code_interpreter","container":{"type":"auto"}`).EndObject()
	case f == nil: // the API does not have it
	case f.Custom != nil:
		w.Object().Members(`"type":"custom"`).Key("name").String(f.Name)
		w.text("description", f.Description)
		if f.Custom.Definition != "" {
			w.Key("format").Object().Members(`"type":"grammar"`).Key("syntax").String(f.Custom.Syntax)
			w.Key("definition").String(f.Custom.Definition).EndObject()
		}
		w.EndObject()
	default:
		w.Object().Members(`"type":"function"`).Key("name").String(f.Name)
		w.text("description", f.Description)
		w.raw("parameters", f.Parameters)
		w.Key("strict").Bool(f.Strict != nil && *f.Strict).EndObject()
	}
}

// toolChoice writes which tools the model may, must or must not call. The default is not written.
func (w *requestWriter) toolChoice(p *perigee.Prompt, t *perigee.ToolConfig) {
	mode := "auto"
	if t.Mode == perigee.ToolModeAny {
		mode = "required"
	}
	switch {
	case t.Mode == perigee.ToolModeNone:
		w.Key("tool_choice").String("none")
	case len(t.Allowed) == 1 && mode == "required":
		w.Key("tool_choice")
		w.toolName(p, t.Allowed[0])
	case len(t.Allowed) > 0:
		w.Key("tool_choice").Object().Members(`"type":"allowed_tools"`).Key("mode").String(mode).Key("tools").Array()
		for _, name := range t.Allowed {
			w.toolName(p, name)
		}
		w.EndArray().EndObject()
	case mode == "required":
		w.Key("tool_choice").String(mode)
	}
}

func (w *requestWriter) toolName(p *perigee.Prompt, name string) {
	kind := "function"
	if slices.ContainsFunc(p.Tools, func(t perigee.Tool) bool { return isCustom(&t) && t.Function.Name == name }) {
		kind = "custom"
	}
	w.Object().Key("type").String(kind).Key("name").String(name).EndObject()
}

func isCustom(t *perigee.Tool) bool { return t.Function != nil && t.Function.Custom != nil }

// format writes the format of the text. A schema has a name in this API, also if the client gave it
// none.
func (w *requestWriter) format(g *perigee.Generation) {
	schema := g.ResponseJSON
	if schema == nil {
		schema = g.ResponseSchema
	}
	if schema == nil && g.ResponseMIME != "application/json" && g.Verbosity == "" {
		return
	}
	w.Key("text").Object()
	switch f := &g.ResponseFormat; {
	case schema != nil:
		name := f.Name
		if name == "" {
			name = "answer"
		}
		w.Key("format").Object().Members(`"type":"json_schema"`).Key("name").String(name)
		w.text("description", f.Description)
		w.bool("strict", f.Strict)
		w.raw("schema", schema)
		w.EndObject()
	case g.ResponseMIME == "application/json":
		w.Members(`"format":{"type":"json_object"}`)
	}
	w.text("verbosity", g.Verbosity)
	w.EndObject()
}

// reasoning writes how much the model thinks, and whether the answer has a summary of it.
func (w *requestWriter) reasoning(t *perigee.Thinking) {
	summary := t != nil && t.Include != nil && *t.Include
	if t == nil || t.Level == "" && !summary {
		return
	}
	w.Key("reasoning").Object()
	w.text("effort", t.Level)
	if summary {
		w.Members(`"summary":"auto"`)
	}
	w.EndObject()
}
