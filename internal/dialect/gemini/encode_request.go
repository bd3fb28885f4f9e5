package gemini

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// EncodeRequest writes a prompt as the body of generateContent. Equal prompts give equal bytes: the
// order of members is fixed, and nothing is escaped that need not be.
func EncodeRequest(p *perigee.Prompt) []byte {
	return AppendRequest(make([]byte, 0, RequestSize(p)), p)
}

// RequestSize returns the approximate size of the result of EncodeRequest.
func RequestSize(p *perigee.Prompt) int { return dialect.RequestSize(p) }

// AppendRequest appends the result of EncodeRequest to dst.
func AppendRequest(dst []byte, p *perigee.Prompt) []byte {
	w := writer{}
	w.Buf = dst
	w.request(p)
	return w.Buf
}

// EncodePieces returns the result of EncodeRequest in pieces. Long texts of a large prompt are not
// copied: their pieces alias the prompt. All other pieces are in buffer, which is from get, a
// function that returns an empty slice with at least the given capacity.
func EncodePieces(p *perigee.Prompt, get func(size int) []byte) (pieces [][]byte, buffer []byte) {
	w := writer{}
	size, refer := dialect.PiecesSize(p)
	w.Refer, w.Buf = refer, get(size)
	w.request(p)
	return w.Pieces(), w.Buf
}

// A writer writes the objects of this dialect. Members without a value are left out.
type writer struct{ rawjson.Writer }

func (w *writer) request(p *perigee.Prompt) {
	w.Object()
	if p.System != nil {
		w.Key("systemInstruction")
		w.content(p.System)
	}
	w.list("contents", len(p.Contents), func(i int) { w.content(&p.Contents[i]) })
	if len(p.Tools) > 0 {
		w.tools(p.Tools)
	}
	if p.ToolConfig != nil {
		w.toolConfig(p.ToolConfig)
	}
	w.generation(&p.Generation)
	w.end(p.Extra)
}

func (w *writer) list(name string, n int, item func(i int)) {
	w.Key(name).Array()
	for i := range n {
		item(i)
	}
	w.EndArray()
}

func (w *writer) text(name, s string) {
	if s != "" {
		w.Key(name).String(s)
	}
}

func (w *writer) raw(name string, v []byte) {
	if v != nil {
		w.Key(name).Raw(v)
	}
}

func (w *writer) int(name string, v *int64) {
	if v != nil {
		w.Key(name).Int(*v)
	}
}

// count is int for a number that is 0 where it is not known.
func (w *writer) count(name string, n int64) {
	if n > 0 {
		w.Key(name).Int(n)
	}
}

func (w *writer) float(name string, v *float64) {
	if v != nil {
		w.Key(name).Float(*v, 64)
	}
}

func (w *writer) bool(name string, v *bool) {
	if v != nil {
		w.Key(name).Bool(*v)
	}
}

func (w *writer) strings(name string, list []string) {
	if list != nil {
		w.list(name, len(list), func(i int) { w.String(list[i]) })
	}
}

// extra writes members without a field in package perigee.
func (w *writer) extra(fields perigee.Fields) {
	for _, f := range fields {
		if f.Value != nil {
			w.AnyKey(f.Name).Raw(f.Value)
		}
	}
}

// end writes such members and ends the object.
func (w *writer) end(fields perigee.Fields) {
	w.extra(fields)
	w.EndObject()
}

func (w *writer) content(c *perigee.Content) {
	w.Object()
	w.text("role", c.Role)
	w.list("parts", len(c.Parts), func(i int) { w.part(&c.Parts[i]) })
	w.end(c.Extra)
}

func (w *writer) part(p *perigee.Part) {
	w.Object()
	if p.Thought {
		w.Members(`"thought":true`)
	}
	switch p.Kind {
	case perigee.PartText:
		w.Key("text").Form(p.Text.Form())
	case perigee.PartBlob:
		w.Key("inlineData").Object()
		w.text("mimeType", p.Blob.MIME)
		w.text("data", p.Blob.Data)
		w.end(p.Blob.Extra)
	case perigee.PartFile:
		w.Key("fileData").Object()
		w.text("mimeType", p.File.MIME)
		w.text("fileUri", p.File.URI)
		w.end(p.File.Extra)
	case perigee.PartCall:
		w.Key("functionCall").Object()
		w.text("id", p.Call.ID)
		w.text("name", p.Call.Name)
		w.raw("args", p.Call.Args)
		w.end(p.Call.Extra)
	case perigee.PartResponse:
		w.response(p.Response)
	case perigee.PartOther: // its members are in Extra
	}
	w.text("thoughtSignature", p.Signature)
	w.end(p.Extra)
}

func (w *writer) response(r *perigee.FunctionResponse) {
	w.Key("functionResponse").Object()
	w.text("id", r.ID)
	w.text("name", r.Name)
	if r.Output != nil {
		w.Key("response").Object().Key("output").Raw(r.Output).EndObject()
	} else {
		w.raw("response", r.Response)
	}
	if len(r.Media) > 0 {
		w.list("parts", len(r.Media), func(i int) { w.part(&r.Media[i]) })
	}
	w.end(r.Extra)
}

// tools writes all functions as one tool, where the provider wants them, after the built-in ones,
// of which each is a tool.
func (w *writer) tools(tools []perigee.Tool) {
	functions := 0
	w.Key("tools").Array()
	for _, t := range tools {
		switch {
		case t.Function != nil:
			functions++
		case t.Config != nil:
			w.Object().AnyKey(builtinName(t.Builtin)).Raw(t.Config).EndObject()
		default:
			w.Object().EndObject()
		}
	}
	if functions > 0 {
		w.Object().Key("functionDeclarations").Array()
		for _, t := range tools {
			if t.Function != nil {
				w.function(t.Function)
			}
		}
		w.EndArray().EndObject()
	}
	w.EndArray()
}

func (w *writer) function(f *perigee.Function) {
	w.Object()
	w.text("name", f.Name)
	w.text("description", f.Description)
	if f.JSONSchema {
		w.raw("parametersJsonSchema", f.Parameters)
	} else {
		w.raw("parameters", f.Parameters)
	}
	w.end(f.Extra)
}

func (w *writer) toolConfig(t *perigee.ToolConfig) {
	w.Key("toolConfig").Object()
	if t.Mode != "" || t.Allowed != nil || t.Calling != nil {
		w.Key("functionCallingConfig").Object()
		w.text("mode", t.Mode)
		w.strings("allowedFunctionNames", t.Allowed)
		w.end(t.Calling)
	}
	w.end(t.Extra)
}

func (w *writer) generation(g *perigee.Generation) {
	before := w.Writer
	w.Key("generationConfig").Object()
	empty := len(w.Buf)
	w.float("temperature", g.Temperature)
	w.float("topP", g.TopP)
	w.float("topK", g.TopK)
	w.int("maxOutputTokens", g.MaxOutputTokens)
	w.int("candidateCount", g.Candidates)
	w.int("seed", g.Seed)
	w.float("presencePenalty", g.PresencePenalty)
	w.float("frequencyPenalty", g.FrequencyPenalty)
	w.strings("stopSequences", g.Stop)
	w.text("responseMimeType", g.ResponseMIME)
	w.raw("responseSchema", g.ResponseSchema)
	w.raw("responseJsonSchema", g.ResponseJSON)
	w.strings("responseModalities", g.Modalities)
	if g.Thinking != nil {
		w.Key("thinkingConfig")
		w.thinking(g.Thinking)
	}
	if g.Logprobs != nil {
		w.Members(`"responseLogprobs":true`)
		if *g.Logprobs > 0 {
			w.int("logprobs", g.Logprobs)
		}
	}
	w.end(g.Extra)
	if len(w.Buf) == empty+1 {
		w.Writer = before // it has no members
	}
}

func (w *writer) thinking(t *perigee.Thinking) {
	w.Object()
	w.bool("includeThoughts", t.Include)
	w.int("thinkingBudget", t.Budget)
	w.text("thinkingLevel", t.Level)
	w.end(t.Extra)
}
