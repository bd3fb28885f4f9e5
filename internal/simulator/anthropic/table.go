package anthropic

import (
	"slices"
	"strings"
	"sync"
)

// A Rule is one reason for which the provider refuses a request that has only declared members.
type Rule struct {
	Name    string
	Section string // of the interface notes
	Pass    Example
	Fail    Example
	Text    string // the error message for the failing example

	check func(*Request) *Refusal
}

// An Example is a request in short form.
type Example struct {
	Method Method
	Body   string
	Betas  []string
	// Grow is how often the last A of the body is repeated, for an example that is large.
	Grow int

	vertex bool // at Vertex AI
}

// exampleSigner signs the thinking and the calls of examples.
var exampleSigner = Signer{Key: []byte("examples")}

// Input returns the whole input of the example.
func (e Example) Input() Input {
	body := e.Body
	if at := strings.LastIndexByte(body, 'A'); e.Grow > 0 {
		body = body[:at] + strings.Repeat("A", e.Grow) + body[at:]
	}
	return Input{Method: e.Method, Body: []byte(body), Version: "2023-06-01", Betas: e.Betas, Signer: exampleSigner, vertex: e.vertex}
}

// Table lists all rules in the order in which they are applied. Callers must not change it.
func Table() []Rule { return table() }

var table = sync.OnceValue(func() []Rule {
	return slices.Concat(modelRules(), vertexRules(), contentRules(), mediaRules(), toolRules(), cacheRules(), turnRules(), thinkingRules(), sizeRules())
})

// Short forms for examples.

const hi = `{"role":"user","content":"hi"}`

// on is a request of a model: members, and messages as JSON objects.
func on(model, members string, messages ...string) Example {
	if len(messages) == 0 {
		messages = []string{hi}
	}
	if members != "" {
		members += ","
	}
	return Example{Body: `{"model":"` + model + `","max_tokens":2000,` + members + `"messages":[` + strings.Join(messages, ",") + `]}`}
}

// asked is a request of a model that takes every parameter there is.
func asked(members string, messages ...string) Example {
	return on("claude-sonnet-4-6", members, messages...)
}

func (e Example) beta(name string) Example { e.Betas = append(e.Betas, name); return e }

func (e Example) grown(n int) Example { e.Grow = n; return e }

func user(blocks string) string      { return `{"role":"user","content":[` + blocks + `]}` }
func assistant(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }
func call(id string) string {
	return `{"type":"tool_use","id":"` + id + `","name":"f","input":{}}`
}
func result(id string) string {
	return `{"type":"tool_result","tool_use_id":"` + id + `","content":"done"}`
}
func said(text string) string { return `{"type":"text","text":"` + text + `"}` }
func thought(text, signature string) string {
	return `{"type":"thinking","thinking":"` + text + `","signature":"` + signature + `"}`
}

const declared = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
