package rules

import (
	"encoding/json"
	"strings"
)

// parse converts the nodes of the walker to the form that rules and models read. Wrongly typed
// values are left out: a rule has already refused them.
func parse(root *node) *Parsed {
	p := &Parsed{
		SessionID:     root.text("sessionId"),
		CachedContent: root.text("cachedContent"),
		Config:        parseConfig(root.get("generationConfig")),
	}
	for _, c := range root.list("contents") {
		p.Contents = append(p.Contents, parseContent(&c))
	}
	if system := root.get("systemInstruction"); system != nil {
		var texts []string
		for _, part := range parseContent(system).Parts {
			texts = append(texts, part.Text)
		}
		p.System = strings.Join(texts, "\n")
	}
	for _, tool := range root.list("tools") {
		for _, m := range tool.fields {
			if m.field.name != "functionDeclarations" {
				p.BuiltIns = append(p.BuiltIns, m.field.name)
				continue
			}
			for _, f := range m.node.items {
				p.Functions = append(p.Functions, parseFunction(&f))
			}
		}
	}
	calling := root.get("toolConfig").get("functionCallingConfig")
	p.ToolMode = strings.ToUpper(calling.text("mode"))
	p.AllowedNames = texts(calling.list("allowedFunctionNames"))
	p.TextBytes = textBytes(p)
	return p
}

func parseContent(n *node) Content {
	c := Content{Role: n.text("role")}
	if c.Role == "" {
		c.Role = "user"
	}
	for _, part := range n.list("parts") {
		c.Parts = append(c.Parts, parsePart(&part))
	}
	return c
}

func parsePart(n *node) Part {
	p := Part{Signature: n.text("thoughtSignature")}
	for i := range n.fields {
		v := &n.fields[i].node
		switch name := n.fields[i].field.name; name {
		case "text":
			p.Text, p.HasText = unquote(v.raw), true
		case "thought":
			p.Thought = string(v.raw) == "true"
		case "inlineData":
			data := v.text("data")
			p.Blob = &Blob{MIME: v.text("mimeType"), Data: data, Size: len(strings.TrimRight(data, "=")) * 3 / 4}
		case "fileData":
			p.File = &File{MIME: v.text("mimeType"), URI: v.text("fileUri")}
		case "functionCall":
			p.Call = &Call{ID: v.text("id"), Name: v.text("name"), Args: rawOf(v.get("args"))}
		case "functionResponse":
			p.Response = &Response{ID: v.text("id"), Name: v.text("name"), Response: rawOf(v.get("response"))}
			for _, inner := range v.list("parts") {
				p.Response.Parts = append(p.Response.Parts, parsePart(&inner))
			}
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			p.Other = name
		}
	}
	return p
}

func parseFunction(n *node) Function {
	f := Function{Name: n.text("name"), Description: n.text("description"), Parameters: rawOf(n.get("parameters"))}
	if full := n.get("parametersJsonSchema"); full != nil {
		f.Parameters, f.JSONSchema = rawOf(full), true
	}
	return f
}

func parseConfig(n *node) Config {
	c := Config{
		Stop:           texts(n.list("stopSequences")),
		ResponseMIME:   n.text("responseMimeType"),
		ResponseSchema: rawOf(n.get("responseSchema")),
		ResponseJSON:   rawOf(n.get("responseJsonSchema")),
		Temperature:    n.float("temperature"),
		TopP:           n.float("topP"),
		TopK:           n.float("topK"),
		Seed:           n.int("seed"),
		AspectRatio:    n.get("imageConfig").text("aspectRatio"),
		ImageSize:      n.get("imageConfig").text("imageSize"),
	}
	if v := n.int("maxOutputTokens"); v != nil {
		c.MaxTokens = *v
	}
	if v := n.int("candidateCount"); v != nil {
		c.CandidateCount = *v
	}
	for _, m := range texts(n.list("responseModalities")) {
		c.Modalities = append(c.Modalities, strings.ToUpper(m))
	}
	thinking := n.get("thinkingConfig")
	c.Thinking = Thinking{Budget: thinking.int("thinkingBudget"), Level: strings.ToLower(thinking.text("thinkingLevel"))}
	if c.Thinking.Level == "thinking_level_unspecified" {
		c.Thinking.Level = "" // the enum's default counts as not given
	}
	if include := thinking.get("includeThoughts"); include != nil {
		c.Thinking.Include = string(include.raw) == "true"
	}
	return c
}

func (n *node) int(name string) *int64 {
	if f := n.get(name); f != nil {
		if v, ok := integer(f.raw); ok {
			return &v
		}
	}
	return nil
}

func (n *node) float(name string) *float64 {
	if f := n.get(name); f != nil {
		if v, ok := number(f.raw); ok {
			return &v
		}
	}
	return nil
}

func texts(nodes []node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, unquote(n.raw))
	}
	return out
}

func rawOf(n *node) json.RawMessage {
	if n == nil {
		return nil
	}
	return json.RawMessage(n.raw)
}

// textBytes counts the bytes that a tokenizer would see. Media is counted separately and left out.
func textBytes(p *Parsed) int {
	total := len(p.System)
	for _, c := range p.Contents {
		for _, part := range c.Parts {
			total += len(part.Text)
			if part.Call != nil {
				total += len(part.Call.Name) + len(part.Call.Args)
			}
			if part.Response != nil {
				total += len(part.Response.Name) + len(part.Response.Response)
			}
		}
	}
	for _, f := range p.Functions {
		total += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	return total
}
