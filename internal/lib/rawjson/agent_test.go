package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// agentBody builds a request as coding agents send them, of at least size bytes: a system prompt,
// 20 tools with their schemas, and a history of code, tool calls and tool results.
func agentBody(size int) []byte {
	type object = map[string]any
	code := "func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n\tif r.Method != \"POST\" {\n" +
		"\t\treturn fmt.Errorf(\"method %q is not allowed\", r.Method)\n\t}\n\t// Größe prüfen — naïve, but enough ✓\n" +
		"\tbody, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))\n\tif err != nil {\n\t\treturn err\n\t}\n}\n"
	prompt := "You are a coding agent. Keep answers short and do what was asked, nothing more.\n\n# Tools\n- Read a file " +
		"before you change it.\n- Never guess a path; list the folder first.\n- Say \"done\" only when the tests pass.\n"

	var tools []object
	for i := range 20 {
		properties := object{}
		for j := range 5 {
			properties[fmt.Sprintf("argument_%d", j)] = object{
				"type": "string", "description": "What the tool works on; an absolute path or a pattern such as **/*.go.",
			}
		}
		tools = append(tools, object{
			"name": fmt.Sprintf("tool_%d", i), "description": prompt,
			"parameters": object{
				"type": "object", "properties": properties, "required": []string{"argument_0"}, "additionalProperties": false,
			},
		})
	}
	var history []object
	for n := 0; n < size; n += len(code) * 5 {
		history = append(history,
			object{"role": "user", "parts": []object{{"text": "Please fix the handler below.\n\n" + code}}},
			object{"role": "model", "parts": []object{
				{"text": "I shall look at the file first."},
				{"functionCall": object{"id": fmt.Sprint("call-", n), "name": "tool_1", "args": object{"argument_0": "/src/handler.go", "limit": 200}}},
			}},
			object{"role": "user", "parts": []object{
				{"functionResponse": object{"id": fmt.Sprint("call-", n), "name": "tool_1", "response": object{"output": strings.Repeat(code, 4)}}},
			}},
		)
	}
	text, err := marshal(object{
		"systemInstruction": object{"parts": []object{{"text": strings.Repeat(prompt, 20)}}},
		"contents":          history,
		"tools":             []object{{"functionDeclarations": tools}},
		"generationConfig":  object{"temperature": 0.2, "maxOutputTokens": 8192, "stopSequences": []string{}},
	})
	if err != nil {
		panic(err)
	}
	return text
}

// marshal is json.Marshal without the escapes for HTML, which agents do not write.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}
