package gemini

import (
	"bytes"
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/rawjson"
)

// requestShapes are the members of a request whose kind is checked before anything is sent. What stands
// inside them is the provider's to judge when the bytes go on as they are.
var requestShapes = map[string]rawjson.Kind{
	"contents":               rawjson.Array,
	"tools":                  rawjson.Array,
	"safetySettings":         rawjson.Array,
	"systemInstruction":      rawjson.Object,
	"toolConfig":             rawjson.Object,
	"generationConfig":       rawjson.Object,
	"generateContentRequest": rawjson.Object,
}

// DecodeRequest reads the body of generateContent, streamGenerateContent or countTokens. The body is
// validated once and completely; the conversation in it is decoded only when Prompt is called.
func DecodeRequest(origin perigee.Origin, model string, stream bool) (*perigee.Request, error) {
	namesModel, count, err := checkShapes(origin.Body, requestShapes)
	if err != nil {
		return nil, err
	}
	origin.Dialect = perigee.DialectGemini
	body := origin.Body
	req := perigee.NewRequest(origin, ModelID(model), stream, func() (*perigee.Prompt, error) {
		if err := count.Err(len(body)); err != nil { // the bytes could go on as they are
			return nil, perigee.Errorf(perigee.ClassInvalid, "%w", err).WithNext("join small parts and contents, or send less")
		}
		return DecodePrompt(body)
	})
	if req.NamesModel = namesModel; namesModel {
		_, other, err := otherModel(body, model)
		if err != nil {
			return nil, invalidMembers(err)
		}
		if other != "" {
			req.Notes = append(req.Notes, perigee.Note{Action: perigee.NoteMapped, Subject: "model " + other + " in the body to the one in the URL"})
		}
	}
	return req, nil
}

// ModelID strips the collection from a resource name: models/gemini-3-flash is gemini-3-flash.
func ModelID(name string) string { return strings.TrimPrefix(name, "models/") }

// checkShapes validates a body in one pass, looks at the kinds of its members, counts, and says whether it names the model that
// the URL names, too.
func checkShapes(body []byte, shapes map[string]rawjson.Kind) (namesModel bool, count rawjson.Count, err error) {
	var wrong error
	count, err = rawjson.CheckMembers(body, func(m rawjson.Member) {
		field := camel(m.Name)
		want, known := shapes[field]
		if want == rawjson.Array && m.Kind == rawjson.Object {
			want = rawjson.Object // one stands for a list of one
		}
		if known && m.Kind != want && m.Kind != rawjson.Null && wrong == nil {
			wrong = fmt.Errorf("%s: want %v, found %v", m.Name, want, m.Kind)
		}
		// Names with escapes in them are not worth a table: who writes those gets the slower way.
		namesModel = namesModel || field == "model" || field == "generateContentRequest" || bytes.IndexByte(m.Name, '\\') >= 0
	})
	if kind := rawjson.NewCursor(body).Kind(); err == nil && kind != rawjson.Object {
		err = fmt.Errorf("want %v, found %v", rawjson.Object, kind)
	}
	if err == nil {
		err = wrong
	}
	if err != nil {
		return false, count, invalidBody(err)
	}
	return namesModel, count, nil
}

func invalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid JSON payload: " + err.Error(), Cause: err}
}

// DecodePrompt reads the conversation out of a checked body. A countTokens body may wrap it in
// generateContentRequest.
func DecodePrompt(body []byte) (*perigee.Prompt, error) {
	c := rawjson.NewCursor(body)
	p := &perigee.Prompt{}
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

// keep reads the next value into fields under the name it came with.
func keep(fields perigee.Fields, name string, c *rawjson.Cursor) perigee.Fields {
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
		switch name := camel(key); name {
		case "text":
			part.Kind, part.Text = perigee.PartText, c.String()
		case "thought":
			part.Thought = c.Bool()
		case "thoughtSignature":
			part.Signature = c.String()
		case "inlineData":
			part.Kind, part.Blob = perigee.PartBlob, decodeBlob(c)
		case "fileData":
			part.Kind, part.File = perigee.PartFile, decodeFile(c)
		case "functionCall":
			part.Kind, part.Call = perigee.PartCall, decodeCall(c)
		case "functionResponse":
			part.Kind, part.Response = perigee.PartResponse, decodeResponsePart(c)
		default:
			part.Extra = keep(part.Extra, name, c)
		}
	}
	return part
}

func decodeBlob(c *rawjson.Cursor) *perigee.Blob {
	b := &perigee.Blob{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "mimeType":
			b.MIME = c.String()
		case "data":
			b.Data = c.String()
		default:
			b.Extra = keep(b.Extra, name, c)
		}
	}
	return b
}

func decodeFile(c *rawjson.Cursor) *perigee.File {
	f := &perigee.File{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "mimeType":
			f.MIME = c.String()
		case "fileUri":
			f.URI = c.String()
		default:
			f.Extra = keep(f.Extra, name, c)
		}
	}
	return f
}

func decodeCall(c *rawjson.Cursor) *perigee.FunctionCall {
	call := &perigee.FunctionCall{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "id":
			call.ID = c.String()
		case "name":
			call.Name = c.String()
		case "args":
			call.Args = present(c)
		default:
			call.Extra = keep(call.Extra, name, c)
		}
	}
	return call
}

func decodeResponsePart(c *rawjson.Cursor) *perigee.FunctionResponse {
	r := &perigee.FunctionResponse{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "id":
			r.ID = c.String()
		case "name":
			r.Name = c.String()
		case "response":
			r.Response = present(c)
		case "parts":
			for range c.List() {
				r.Media = append(rawjson.Reserve(c, r.Media), decodePart(c))
			}
		default:
			r.Extra = keep(r.Extra, name, c)
		}
	}
	return r
}

// present is Raw, with null as absent.
func present(c *rawjson.Cursor) []byte {
	if c.Kind() == rawjson.Null {
		c.Skip()
		return nil
	}
	return c.Raw()
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
				tools = append(tools, perigee.Tool{Builtin: name, Config: c.Raw()})
			}
		}
	}
	return tools
}

func decodeFunction(c *rawjson.Cursor) *perigee.Function {
	f := &perigee.Function{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "name":
			f.Name = c.String()
		case "description":
			f.Description = c.String()
		case "parameters":
			f.Parameters = present(c)
		case "parametersJsonSchema":
			f.Parameters, f.JSONSchema = present(c), true
		default:
			f.Extra = keep(f.Extra, name, c)
		}
	}
	return f
}

func decodeToolConfig(c *rawjson.Cursor) *perigee.ToolConfig {
	t := &perigee.ToolConfig{}
	for key := range c.Object() {
		switch name := camel(key); name {
		case "functionCallingConfig":
			for key := range c.Object() {
				switch name := camel(key); name {
				case "mode":
					t.Mode = c.String()
				case "allowedFunctionNames":
					t.Allowed = decodeStrings(c)
				default:
					t.Calling = keep(t.Calling, name, c)
				}
			}
		default:
			t.Extra = keep(t.Extra, name, c)
		}
	}
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
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch name := camel(key); name {
		case "temperature":
			g.Temperature = ptr(c.Float64())
		case "topP":
			g.TopP = ptr(c.Float64())
		case "topK":
			g.TopK = ptr(c.Float64())
		case "maxOutputTokens":
			g.MaxOutputTokens = ptr(c.Int64())
		case "candidateCount":
			g.Candidates = ptr(c.Int64())
		case "seed":
			g.Seed = ptr(c.Int64())
		case "presencePenalty":
			g.PresencePenalty = ptr(c.Float64())
		case "frequencyPenalty":
			g.FrequencyPenalty = ptr(c.Float64())
		case "stopSequences":
			g.Stop = decodeStrings(c)
		case "responseMimeType":
			g.ResponseMIME = c.String()
		case "responseSchema":
			g.ResponseSchema = c.Raw()
		case "responseJsonSchema":
			g.ResponseJSON = c.Raw()
		case "responseModalities":
			g.Modalities = decodeStrings(c)
		case "thinkingConfig":
			g.Thinking = decodeThinking(c)
		default:
			g.Extra = keep(g.Extra, name, c)
		}
	}
}

func decodeThinking(c *rawjson.Cursor) *perigee.Thinking {
	t := &perigee.Thinking{}
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch name := camel(key); name {
		case "includeThoughts":
			t.Include = ptr(c.Bool())
		case "thinkingBudget":
			t.Budget = ptr(c.Int64())
		case "thinkingLevel":
			t.Level = c.String()
		default:
			t.Extra = keep(t.Extra, name, c)
		}
	}
	return t
}

func ptr[T any](v T) *T { return &v }
