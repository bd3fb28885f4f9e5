package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// requestShapes are the JSON kinds of members of a request that are checked before anything is
// sent. Their contents are left to the provider if the body is forwarded unchanged.
var requestShapes = map[string]rawjson.Kind{
	"contents":               rawjson.Array,
	"tools":                  rawjson.Array,
	"safetySettings":         rawjson.Array,
	"systemInstruction":      rawjson.Object,
	"toolConfig":             rawjson.Object,
	"generationConfig":       rawjson.Object,
	"generateContentRequest": rawjson.Object,
}

// DecodeRequest reads the body of generateContent, streamGenerateContent or countTokens. The body
// is validated once and completely; the conversation in it is decoded only when Prompt is called.
func DecodeRequest(origin perigee.Origin, model string, stream bool) (*perigee.Request, error) {
	body := origin.Body
	var namesModel, thinksBeyond bool
	doc, err := checkShapes(body, requestShapes, func(field string, value []byte) {
		switch field {
		case "model", "generateContentRequest":
			namesModel = true
		case "generationConfig":
			thinksBeyond = thinksBeyondOutput(value)
		}
	})
	if err != nil {
		return nil, err
	}
	origin.Dialect = perigee.DialectGemini
	req := perigee.NewRequest(origin, ModelID(model), stream, func() (*perigee.Prompt, error) {
		if err := doc.Count.Err(len(body)); err != nil { // the body could be forwarded unchanged
			return nil, perigee.Errorf(perigee.ClassInvalid, "%w", err).WithHint("join small parts and contents, or send less")
		}
		return readPrompt(doc.Cursor())
	})
	req.ThinksBeyondOutput, req.Index = thinksBeyond, doc
	if req.NamesModel = namesModel; namesModel {
		_, other, err := otherModel(body, model)
		if err != nil {
			return nil, invalidMembers(err)
		}
		if other != "" {
			req.Note(perigee.Note{Action: perigee.NoteMapped, Subject: "model " + other + " in the body to the one in the URL"})
		}
	}
	return req, nil
}

// ModelID strips the collection from a resource name: models/gemini-3-flash is gemini-3-flash.
func ModelID(name string) string { return strings.TrimPrefix(name, "models/") }

// checkShapes validates and indexes a body in one pass, looks at the kinds of its members, and calls
// visit with the lowerCamel name and the value of each member.
func checkShapes(body []byte, shapes map[string]rawjson.Kind, visit func(field string, value []byte)) (*rawjson.Document, error) {
	var wrong error
	doc, err := rawjson.Open(body, func(m rawjson.Member) {
		name := m.Name
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(rawjson.Unescaped(string(name), true))
		}
		field := camel(name)
		want, known := shapes[field]
		if want == rawjson.Array && m.Kind == rawjson.Object {
			want = rawjson.Object // a single object is a list of one
		}
		if known && m.Kind != want && m.Kind != rawjson.Null && wrong == nil {
			wrong = fmt.Errorf("%s: want %v, found %v", name, want, m.Kind)
		}
		visit(field, body[m.Start:m.End])
	})
	if kind := rawjson.NewCursor(body).Kind(); err == nil && kind != rawjson.Object {
		err = fmt.Errorf("want %v, found %v", rawjson.Object, kind)
	}
	if err == nil {
		err = wrong
	}
	if err != nil {
		return nil, invalidBody(err)
	}
	return doc, nil
}

func invalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid JSON payload: " + err.Error(), Cause: err}
}

// DecodePrompt reads the conversation out of a checked body. A countTokens body may wrap it in
// generateContentRequest.
func DecodePrompt(body []byte) (*perigee.Prompt, error) { return readPrompt(rawjson.NewCursor(body)) }

func readPrompt(c *rawjson.Cursor) (*perigee.Prompt, error) {
	p := &perigee.Prompt{Dialect: perigee.DialectGemini}
	decodePrompt(c, p)
	if err := c.Err(); err != nil {
		return nil, invalidBody(err)
	}
	return p, nil
}

func decodePrompt(c *rawjson.Cursor, p *perigee.Prompt) {
	for key := range c.Object() {
		switch name := camel(key); name {
		case "contents":
			p.Contents = decodeContents(c)
		case "systemInstruction":
			if c.Kind() != rawjson.Null {
				content := decodeContent(c)
				p.System = &content
			}
		case "tools":
			p.Tools = decodeTools(c)
		case "toolConfig":
			p.ToolConfig = decodeToolConfig(c)
		case "generationConfig":
			decodeGeneration(c, &p.Generation)
		case "generateContentRequest":
			decodePrompt(c, p)
		case "model":
			c.Skip() // the URL names it
		default:
			p.Extra = keep(p.Extra, name, c)
		}
	}
}

// keep appends the next value to fields, under name.
func keep(fields perigee.Fields, name string, c *rawjson.Cursor) perigee.Fields {
	if len(fields) == cap(fields) {
		// The capacity is doubled: append would leave five times a long list as garbage.
		fields = slices.Grow(fields, len(fields)+1)
	}
	return append(fields, perigee.Field{Name: name, Value: c.Raw()})
}

func decodeContents(c *rawjson.Cursor) []perigee.Content {
	contents := []perigee.Content{}
	for range c.List() {
		contents = append(rawjson.Reserve(c, contents), decodeContent(c))
	}
	return contents
}

func decodeContent(c *rawjson.Cursor) perigee.Content {
	var content perigee.Content
	for key := range c.Object() {
		switch name := camel(key); name {
		case "role":
			content.Role = c.String()
		case "parts":
			for range c.List() {
				content.Parts = append(rawjson.Reserve(c, content.Parts), decodePart(c))
			}
		default:
			content.Extra = keep(content.Extra, name, c)
		}
	}
	return content
}

func decodePart(c *rawjson.Cursor) perigee.Part {
	part := perigee.Part{Kind: perigee.PartOther}
	for key := range c.Object() {
		switch string(key) {
		case "text":
			part.Kind, part.Text = perigee.PartText, perigee.Escaped(c.Inside())
		case "thought":
			part.Thought = c.Bool()
		case "thoughtSignature", "thought_signature":
			part.Signature = unwrapSignature(c.String())
		case "inlineData", "inline_data":
			part.Kind, part.Blob = perigee.PartBlob, decodeBlob(c)
		case "fileData", "file_data":
			part.Kind, part.File = perigee.PartFile, decodeFile(c)
		case "functionCall", "function_call":
			part.Kind, part.Call = perigee.PartCall, decodeCall(c)
		case "functionResponse", "function_response":
			part.Kind, part.Response = perigee.PartResponse, decodeResponsePart(c)
		default:
			part.Extra = keep(part.Extra, camel(key), c)
		}
	}
	return part
}

// read reads an object into variables as Cursor.Read does, by the lowerCamel names of its members.
// The rest goes to extra.
func read(c *rawjson.Cursor, extra *perigee.Fields, into ...any) {
	for key := range c.Object() {
		name := camel(key)
		if v := rawjson.Named(name, into); v != nil {
			c.Into(v)
		} else if extra != nil {
			*extra = keep(*extra, name, c)
		}
	}
}

func decodeBlob(c *rawjson.Cursor) *perigee.Blob {
	b := &perigee.Blob{}
	read(c, &b.Extra, "mimeType", &b.MIME, "data", &b.Data)
	return b
}

func decodeFile(c *rawjson.Cursor) *perigee.File {
	f := &perigee.File{}
	read(c, &f.Extra, "mimeType", &f.MIME, "fileUri", &f.URI)
	return f
}

func decodeCall(c *rawjson.Cursor) *perigee.FunctionCall {
	call := &perigee.FunctionCall{}
	read(c, &call.Extra, "id", &call.ID, "name", &call.Name, "args", &call.Args)
	return call
}

func decodeResponsePart(c *rawjson.Cursor) *perigee.FunctionResponse {
	r := &perigee.FunctionResponse{}
	read(c, &r.Extra, "id", &r.ID, "name", &r.Name, "response", &r.Response, "parts", func() {
		for range c.List() {
			r.Media = append(rawjson.Reserve(c, r.Media), decodePart(c))
		}
	})
	return r
}

func decodeTools(c *rawjson.Cursor) []perigee.Tool {
	var tools []perigee.Tool
	for range c.List() {
		for key := range c.Object() {
			switch name := camel(key); name {
			case "functionDeclarations":
				for range c.List() {
					tools = append(rawjson.Reserve(c, tools), perigee.Tool{Function: decodeFunction(c)})
				}
			default:
				tools = append(tools, perigee.Tool{Builtin: cmp.Or(builtins[name], name), Config: c.Raw()})
			}
		}
	}
	return tools
}

// builtins are the tools that other providers have as well.
var builtins = map[string]string{
	"googleSearch": perigee.BuiltinSearch, "urlContext": perigee.BuiltinFetch, "codeExecution": perigee.BuiltinCode,
}

// builtinName returns this API's name of a built-in tool.
func builtinName(builtin string) string {
	for name, common := range builtins {
		if common == builtin {
			return name
		}
	}
	return builtin
}

func decodeFunction(c *rawjson.Cursor) *perigee.Function {
	f := &perigee.Function{}
	var schema json.RawMessage
	read(c, &f.Extra, "name", &f.Name, "description", &f.Description, "parameters", &f.Parameters, "parametersJsonSchema", &schema)
	if schema != nil {
		f.Parameters, f.JSONSchema = schema, true
	}
	return f
}

func decodeToolConfig(c *rawjson.Cursor) *perigee.ToolConfig {
	t := &perigee.ToolConfig{}
	read(c, &t.Extra, "functionCallingConfig", func() {
		read(c, &t.Calling, "mode", &t.Mode, "allowedFunctionNames", func() { t.Allowed = decodeStrings(c) })
	})
	return t
}

func decodeStrings(c *rawjson.Cursor) []string {
	var list []string
	for range c.List() {
		list = append(rawjson.Reserve(c, list), c.String())
	}
	return list
}

func decodeGeneration(c *rawjson.Cursor, g *perigee.Generation) {
	read(c, &g.Extra,
		"temperature", &g.Temperature, "topP", &g.TopP, "topK", &g.TopK,
		"maxOutputTokens", &g.MaxOutputTokens, "candidateCount", &g.Candidates, "seed", &g.Seed,
		"presencePenalty", &g.PresencePenalty, "frequencyPenalty", &g.FrequencyPenalty,
		"stopSequences", func() { g.Stop = decodeStrings(c) },
		"responseMimeType", &g.ResponseMIME, "responseSchema", &g.ResponseSchema, "responseJsonSchema", &g.ResponseJSON,
		"responseModalities", func() { g.Modalities = decodeStrings(c) },
		"thinkingConfig", func() { g.Thinking = decodeThinking(c) })
	g.Extra = present(g.Extra)
	takeLogprobs(g)
}

// takeLogprobs takes the two members about log probabilities out of Extra, if they ask for some.
func takeLogprobs(g *perigee.Generation) {
	if string(g.Extra.Get("responseLogprobs")) != "true" {
		return
	}
	g.Logprobs = new(int64(0))
	if top := g.Extra.Get("logprobs"); top != nil {
		n, err := strconv.ParseInt(string(top), 10, 64)
		if err != nil {
			g.Logprobs = nil
			return // the provider has an error for it
		}
		g.Logprobs = &n
	}
	g.Extra = slices.DeleteFunc(g.Extra, func(f perigee.Field) bool { return f.Name == "responseLogprobs" || f.Name == "logprobs" })
}

func decodeThinking(c *rawjson.Cursor) *perigee.Thinking {
	t := &perigee.Thinking{}
	read(c, &t.Extra, "includeThoughts", &t.Include, "thinkingBudget", &t.Budget, "thinkingLevel", &t.Level)
	t.Extra = present(t.Extra)
	return t
}

// present leaves out members that are null.
func present(fields perigee.Fields) perigee.Fields {
	return slices.DeleteFunc(fields, func(f perigee.Field) bool { return string(f.Value) == "null" })
}
