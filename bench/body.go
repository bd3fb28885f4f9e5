package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// agentBody makes a request of exactly size bytes, at least 1,000, that looks like a coding
// agent's: instructions, tools with schemas, and a history of tool calls whose results are source
// code. It is the same every time.
func agentBody(d *dialect, model string, size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 4096)
	tools := make([]tool, min(30, size/3000))
	for i := range tools {
		tools[i] = agentTool(i)
	}
	b.WriteString(d.shape.open(model, instructions(size/12), tools))
	ending := len(d.shape.close(""))
	for n := 0; ; n++ {
		turn := d.shape.turn(n, fmt.Sprintf("/src/store/file_%d.go", n), sourceCode(n, min(4000, size/8)))
		if b.Len()+len(turn)+ending > size {
			break
		}
		b.WriteString(turn)
	}
	b.WriteString(d.shape.close(filler(size - b.Len() - ending)))
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

// agentTool is the tool with the given number.
func agentTool(i int) tool {
	verbs := []string{"read", "write", "edit", "search", "list", "run"}
	nouns := []string{"file", "files", "directory", "process", "page"}
	name := fmt.Sprintf("%s_%s_%d", verbs[i%len(verbs)], nouns[i%len(nouns)], i)
	return tool{
		name:        name,
		description: "Does what " + name + " says and returns the lines it touched.\n\nUse it when the path is known; \"globs\" are for search.",
		parameters: `{"type":"object","properties":{"path":{"type":"string","description":"The absolute path, e.g. \"/src/main.go\""},` +
			`"offset":{"type":"integer","description":"First line, from 1"},"limit":{"type":"integer","description":"Number of lines"},` +
			`"mode":{"type":"string","enum":["text","binary","auto"]},"patterns":{"type":"array","items":{"type":"string"}}},"required":["path"],"additionalProperties":false}`,
	}
}

// sourceCode is about n bytes of code, different in each turn.
func sourceCode(turn, n int) string {
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
	return code.String()
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
