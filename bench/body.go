package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// agentBody makes a request of exactly size bytes, at least 1,000, that looks like a coding agent's: instructions,
// tools with schemas, and a history of tool calls whose results are source code. It is the same every time.
func agentBody(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 4096)
	fmt.Fprintf(&b, `{"systemInstruction":{"role":"user","parts":[{"text":%s}]},"tools":[{"functionDeclarations":[`, quote(instructions(size/12)))
	for i := range min(30, size/3000) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(tool(i))
	}
	b.WriteString(`]}],"contents":[{"role":"user","parts":[{"text":"Why does the test hang – and what is the smallest fix?"}]}`)

	ending := `,"generationConfig":{"temperature":1,"topP":0.95,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}}`
	last := func(text string) string {
		return `,{"role":"user","parts":[{"text":"Go on. ` + text + `"}]}]` + ending
	}
	for turn := 0; ; turn++ {
		next := toolTurn(turn, min(4000, size/8))
		if b.Len()+len(next)+len(last("")) > size {
			break
		}
		b.WriteString(next)
	}
	b.WriteString(last(filler(size - b.Len() - len(last("")))))
	return b.Bytes()
}

// instructions are about n bytes of what agents tell their model.
func instructions(n int) string {
	rules := []string{
		"You are an interactive agent that helps with software engineering tasks.",
		"Read a file before you edit it; never guess what it contains.",
		"Keep answers short – the user sees them in a terminal – and use \"plain\" words.",
		"Run the tests after every change:\n\n\tgo test ./...\n",
		"- Paths are absolute.\n- Quote what the shell would expand, e.g. 'a*b'.",
	}
	var s strings.Builder
	for i := 0; s.Len() < n; i++ {
		fmt.Fprintf(&s, "%d. %s\n", i+1, rules[i%len(rules)])
	}
	return s.String()
}

// tool declares one function.
func tool(i int) string {
	verbs := []string{"read", "write", "edit", "search", "list", "run"}
	nouns := []string{"file", "files", "directory", "process", "page"}
	name := fmt.Sprintf("%s_%s_%d", verbs[i%len(verbs)], nouns[i%len(nouns)], i)
	return fmt.Sprintf(`{"name":%q,"description":"Does what %s says and returns the lines it touched.\n\nUse it when the path is known; \"globs\" are for search.",`+
		`"parameters":{"type":"OBJECT","properties":{"path":{"type":"STRING","description":"The absolute path, e.g. \"/src/main.go\""},`+
		`"offset":{"type":"INTEGER","description":"First line, from 1"},"limit":{"type":"INTEGER","description":"Number of lines"},`+
		`"mode":{"type":"STRING","enum":["text","binary","auto"]},"patterns":{"type":"ARRAY","items":{"type":"STRING"}}},"required":["path"]}}`, name, name)
}

// toolTurn is a model's call of a tool and the tool's answer with about n bytes of code.
func toolTurn(turn, n int) string {
	var code strings.Builder
	for line := 0; code.Len() < n; line++ {
		switch (turn + line) % 4 {
		case 0:
			fmt.Fprintf(&code, "func (s *Store) load%d(ctx context.Context, id string) (*Row, error) {\n", turn*100+line)
		case 1:
			fmt.Fprintf(&code, "\trow := s.db.QueryRowContext(ctx, \"SELECT a, b FROM t WHERE id = ? AND n > %d\", id)\n", line)
		case 2:
			code.WriteString("\tif err := row.Scan(&r.A, &r.B); err != nil {\n\t\treturn nil, fmt.Errorf(\"load %q: %w\", id, err) // größer als nötig\n\t}\n")
		case 3:
			code.WriteString("\treturn r, nil\n}\n\n")
		}
	}
	return fmt.Sprintf(`,{"role":"model","parts":[{"text":"I look at the next file.\n"},{"functionCall":{"name":"read_file_0","args":{"path":"/src/store/file_%d.go","offset":1,"limit":200}}}]}`+
		`,{"role":"user","parts":[{"functionResponse":{"name":"read_file_0","response":{"output":%s}}}]}`, turn, quote(code.String()))
}

// filler is n bytes that mean nothing and need no escapes.
func filler(n int) string {
	const words = "and then look again at what the caller holds while it waits for the lock, "
	return strings.Repeat(words, n/len(words)+1)[:n]
}

// quote writes a JSON string as JavaScript clients do: < and > stay, and so does what is not ASCII.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always has an encoding
	return strings.TrimSuffix(b.String(), "\n")
}
