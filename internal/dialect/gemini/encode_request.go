package gemini

import (
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// EncodeRequest writes a prompt as the body of generateContent. Equal prompts give equal bytes: the order
// of members is fixed, and nothing is escaped that need not be.
func EncodeRequest(p *perigee.Prompt) []byte {
	return AppendRequest(make([]byte, 0, RequestSize(p)), p)
}

// AppendRequest appends to dst what EncodeRequest returns.
func AppendRequest(dst []byte, p *perigee.Prompt) []byte {
	w := writer{buf: dst}
	w.open()
	if p.System != nil {
		w.key("systemInstruction")
		w.content(p.System)
	}
	w.key("contents")
	w.list(len(p.Contents), func(i int) { w.content(&p.Contents[i]) })
	if len(p.Tools) > 0 {
		w.key("tools")
		w.tools(p.Tools)
	}
	if p.ToolConfig != nil {
		w.key("toolConfig")
		w.toolConfig(p.ToolConfig)
	}
	w.generation(&p.Generation)
	w.fields(p.Extra)
	w.close()
	return w.buf
}

// RequestSize guesses how long a prompt is when it is written, so that it is written into one piece of memory. Escapes make
// texts of code about a sixteenth longer.
func RequestSize(p *perigee.Prompt) int {
	size := 1024
	for i := range p.Contents {
		size += contentSize(&p.Contents[i])
	}
	if p.System != nil {
		size += contentSize(p.System)
	}
	for _, t := range p.Tools {
		size += len(t.Config) + 64
		if t.Function != nil {
			size += len(t.Function.Name) + len(t.Function.Description)*17/16 + len(t.Function.Parameters) + 64
		}
	}
	return size
}

func contentSize(c *perigee.Content) int { return 64 + partsSize(c.Parts) }

func partsSize(parts []perigee.Part) int {
	size := 0
	for i := range parts {
		part := &parts[i]
		size += 64 + len(part.Text)*17/16 + len(part.Signature)
		switch part.Kind {
		case perigee.PartBlob:
			size += len(part.Blob.Data)
		case perigee.PartCall:
			size += len(part.Call.Args) + len(part.Call.Name) + len(part.Call.ID)
		case perigee.PartResponse:
			size += len(part.Response.Response) + len(part.Response.Output) + len(part.Response.Name) + len(part.Response.ID) + partsSize(part.Response.Media)
		}
	}
	return size
}

// A writer writes JSON objects member by member.
type writer struct {
	buf   []byte
	comma bool // a member was written before in the open object
}

func (w *writer) open() {
	w.buf = append(w.buf, '{')
	w.comma = false
}

func (w *writer) close() {
	w.buf = append(w.buf, '}')
	w.comma = true
}

func (w *writer) key(name string) {
	if w.comma {
		w.buf = append(w.buf, ',')
	}
	w.buf = rawjson.AppendString(w.buf, name)
	w.buf = append(w.buf, ':')
	w.comma = true
}

func (w *writer) list(n int, item func(i int)) {
	w.buf = append(w.buf, '[')
	for i := range n {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		item(i)
	}
	w.buf = append(w.buf, ']')
	w.comma = true
}

func (w *writer) value(s string) { w.buf = rawjson.AppendString(w.buf, s) }

func (w *writer) text(name, s string) {
	if s != "" {
		w.key(name)
		w.value(s)
	}
}

func (w *writer) raw(name string, v []byte) {
	if v != nil {
		w.key(name)
		w.buf = append(w.buf, v...)
	}
}

func (w *writer) int(name string, v *int64) {
	if v != nil {
		w.key(name)
		w.buf = strconv.AppendInt(w.buf, *v, 10)
	}
}

func (w *writer) float(name string, v *float64) {
	if v != nil {
		w.key(name)
		w.buf = strconv.AppendFloat(w.buf, *v, 'g', -1, 64)
	}
}

func (w *writer) bool(name string, v *bool) {
	if v != nil {
		w.key(name)
		w.buf = strconv.AppendBool(w.buf, *v)
	}
}

func (w *writer) strings(name string, list []string) {
	if list != nil {
		w.key(name)
		w.list(len(list), func(i int) { w.value(list[i]) })
	}
}

func (w *writer) fields(fields perigee.Fields) {
	for _, f := range fields {
		w.raw(f.Name, f.Value)
	}
}

func (w *writer) content(c *perigee.Content) {
	w.open()
	w.text("role", c.Role)
	w.key("parts")
	w.list(len(c.Parts), func(i int) { w.part(&c.Parts[i]) })
	w.fields(c.Extra)
	w.close()
}

func (w *writer) part(p *perigee.Part) {
	w.open()
	if p.Thought {
		w.bool("thought", &p.Thought)
	}
	switch p.Kind {
	case perigee.PartText:
		w.key("text")
		w.value(p.Text)
	case perigee.PartBlob:
		w.key("inlineData")
		w.open()
		w.text("mimeType", p.Blob.MIME)
		w.text("data", p.Blob.Data)
		w.fields(p.Blob.Extra)
		w.close()
	case perigee.PartFile:
		w.key("fileData")
		w.open()
		w.text("mimeType", p.File.MIME)
		w.text("fileUri", p.File.URI)
		w.fields(p.File.Extra)
		w.close()
	case perigee.PartCall:
		w.key("functionCall")
		w.call(p.Call)
	case perigee.PartResponse:
		w.key("functionResponse")
		w.open()
		w.text("id", p.Response.ID)
		w.text("name", p.Response.Name)
		if output := p.Response.Output; output != nil {
			w.key("response")
			w.open()
			w.raw("output", output)
			w.close()
		} else {
			w.raw("response", p.Response.Response)
		}
		if media := p.Response.Media; len(media) > 0 {
			w.key("parts")
			w.list(len(media), func(i int) { w.part(&media[i]) })
		}
		w.fields(p.Response.Extra)
		w.close()
	case perigee.PartOther: // its members are in Extra
	}
	w.text("thoughtSignature", p.Signature)
	w.fields(p.Extra)
	w.close()
}

func (w *writer) call(call *perigee.FunctionCall) {
	w.open()
	w.text("id", call.ID)
	w.text("name", call.Name)
	w.raw("args", call.Args)
	w.fields(call.Extra)
	w.close()
}

// tools writes all functions as one tool, where the provider wants them, and each built-in one by itself.
func (w *writer) tools(tools []perigee.Tool) {
	var functions []*perigee.Function
	var builtins []perigee.Tool
	for _, t := range tools {
		if t.Function != nil {
			functions = append(functions, t.Function)
		} else {
			builtins = append(builtins, t)
		}
	}
	n := len(builtins)
	if len(functions) > 0 {
		n++
	}
	w.list(n, func(i int) {
		w.open()
		if i < len(builtins) {
			w.raw(builtins[i].Builtin, builtins[i].Config)
		} else {
			w.key("functionDeclarations")
			w.list(len(functions), func(i int) { w.function(functions[i]) })
		}
		w.close()
	})
}

func (w *writer) function(f *perigee.Function) {
	w.open()
	w.text("name", f.Name)
	w.text("description", f.Description)
	if f.JSONSchema {
		w.raw("parametersJsonSchema", f.Parameters)
	} else {
		w.raw("parameters", f.Parameters)
	}
	w.fields(f.Extra)
	w.close()
}

func (w *writer) toolConfig(t *perigee.ToolConfig) {
	w.open()
	if t.Mode != "" || t.Allowed != nil || t.Calling != nil {
		w.key("functionCallingConfig")
		w.open()
		w.text("mode", t.Mode)
		w.strings("allowedFunctionNames", t.Allowed)
		w.fields(t.Calling)
		w.close()
	}
	w.fields(t.Extra)
	w.close()
}

func (w *writer) generation(g *perigee.Generation) {
	at, comma := len(w.buf), w.comma
	w.key("generationConfig")
	w.open()
	empty := len(w.buf)
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
	if t := g.Thinking; t != nil {
		w.key("thinkingConfig")
		w.thinking(t)
	}
	w.fields(g.Extra)
	if len(w.buf) == empty {
		w.buf, w.comma = w.buf[:at], comma // nothing was touched
		return
	}
	w.close()
}

func (w *writer) thinking(t *perigee.Thinking) {
	w.open()
	w.bool("includeThoughts", t.Include)
	w.int("thinkingBudget", t.Budget)
	w.text("thinkingLevel", t.Level)
	w.fields(t.Extra)
	w.close()
}
