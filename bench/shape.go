package main

import (
	"fmt"
	"strings"
)

// A shape writes the pieces of a conversation as clients of one dialect do; put together they are a
// request.
type shape struct {
	open  func(model, instructions string, tools []tool) string // up to the first question
	turn  func(n int, path, code string) string                 // a model's call of a tool and the tool's answer
	close func(text string) string                              // the last question; text needs no escapes
}

// A tool is a function that the model may call.
type tool struct{ name, description, parameters string }

// firstQuestion is how every conversation begins, as JSON.
const firstQuestion = `"Why does the test hang – and what is the smallest fix?"`

// declare lists tools. The format takes the name, the description and the parameters, all as JSON.
func declare(tools []tool, format string) string {
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = fmt.Sprintf(format, quote(t.name), quote(t.description), t.parameters)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// arguments are those of every call of a tool, as JSON.
func arguments(path string) string {
	return `{"path":` + quote(path) + `,"offset":1,"limit":200}`
}

// shouted writes the types of a schema as Gemini's own do.
var shouted = strings.NewReplacer(`"type":"object"`, `"type":"OBJECT"`, `"type":"string"`, `"type":"STRING"`,
	`"type":"integer"`, `"type":"INTEGER"`, `"type":"array"`, `"type":"ARRAY"`, `,"additionalProperties":false`, ``)

var geminiShape = shape{
	open: func(_, instructions string, tools []tool) string {
		return `{"systemInstruction":{"role":"user","parts":[{"text":` + quote(instructions) + `}]},"tools":[{"functionDeclarations":` +
			shouted.Replace(declare(tools, `{"name":%s,"description":%s,"parameters":%s}`)) +
			`}],"contents":[{"role":"user","parts":[{"text":` + firstQuestion + `}]}`
	},
	turn: func(_ int, path, code string) string {
		return `,{"role":"model","parts":[{"text":"I look at the next file.\n"},{"functionCall":{"name":"read_file_0","args":` + arguments(path) + `}}]}` +
			`,{"role":"user","parts":[{"functionResponse":{"name":"read_file_0","response":{"output":` + quote(code) + `}}}]}`
	},
	close: func(text string) string {
		return `,{"role":"user","parts":[{"text":"Go on. ` + text + `"}]}],` +
			`"generationConfig":{"temperature":1,"topP":0.95,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}}`
	},
}

var chatShape = shape{
	open: func(model, instructions string, tools []tool) string {
		return `{"model":` + quote(model) + `,"stream":true,"stream_options":{"include_usage":true},"temperature":1,"tools":` +
			declare(tools, `{"type":"function","function":{"name":%s,"description":%s,"parameters":%s}}`) +
			`,"messages":[{"role":"system","content":` + quote(instructions) + `},{"role":"user","content":` + firstQuestion + `}`
	},
	turn: func(n int, path, code string) string {
		return fmt.Sprintf(`,{"role":"assistant","content":"I look at the next file.\n","tool_calls":[{"id":"call_%d","type":"function",`+
			`"function":{"name":"read_file_0","arguments":%s}}]},{"role":"tool","tool_call_id":"call_%d","content":%s}`,
			n, quote(arguments(path)), n, quote(code))
	},
	close: func(text string) string { return `,{"role":"user","content":"Go on. ` + text + `"}]}` },
}

var responsesShape = shape{
	open: func(model, instructions string, tools []tool) string {
		return `{"model":` + quote(model) + `,"stream":true,"store":false,"instructions":` + quote(instructions) + `,"tools":` +
			declare(tools, `{"type":"function","name":%s,"description":%s,"strict":false,"parameters":%s}`) +
			`,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":` + firstQuestion + `}]}`
	},
	turn: func(n int, path, code string) string {
		return fmt.Sprintf(`,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look at the next file.\n"}]}`+
			`,{"type":"function_call","call_id":"call_%d","name":"read_file_0","arguments":%s},{"type":"function_call_output","call_id":"call_%d","output":%s}`,
			n, quote(arguments(path)), n, quote(code))
	},
	close: func(text string) string {
		return `,{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on. ` + text + `"}]}]}`
	},
}

var messagesShape = shape{
	open: func(model, instructions string, tools []tool) string {
		return `{"model":` + quote(model) + `,"max_tokens":32000,"stream":true,"system":[{"type":"text","text":` + quote(instructions) +
			`,"cache_control":{"type":"ephemeral"}}],"tools":` + declare(tools, `{"name":%s,"description":%s,"input_schema":%s}`) +
			`,"messages":[{"role":"user","content":[{"type":"text","text":` + firstQuestion + `}]}`
	},
	turn: func(n int, path, code string) string {
		return fmt.Sprintf(`,{"role":"assistant","content":[{"type":"text","text":"I look at the next file.\n"},{"type":"tool_use","id":"toolu_%d","name":"read_file_0","input":%s}]}`+
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%s}]}`, n, arguments(path), n, quote(code))
	},
	close: func(text string) string {
		return `,{"role":"user","content":[{"type":"text","text":"Go on. ` + text + `"}]}]}`
	},
}
