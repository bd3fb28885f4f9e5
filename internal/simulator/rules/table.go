package rules

import (
	"slices"
	"strings"
	"sync"
)

// A Rule is one reason for which the provider refuses a request.
type Rule struct {
	Name    string
	Section string // of the interface notes
	Step    int    // place in the provider's order of checks
	Pass    Example
	Fail    Example
	Text    string // the error message for the failing example

	check func(*request) *Refusal // nil if the rule is applied before the request is read
}

// An Example is a request in short form.
type Example struct {
	Surface  Surface
	Method   Method
	Model    string // id; empty means gemini-3-flash
	Context  int64  // replaces the model's window when not zero
	Request  string // the request itself; for the private gateway an envelope is put around it
	Body     string // the whole body, instead of Request
	Switches func(*Switches)
}

// Signatures that examples may use, one of each family; ExampleVerify accepts them.
const (
	ClaudeSignature = "c2lnLWNsYXVkZQ=="
	GeminiSignature = "c2lnLWdlbWluaQ=="
)

// ExampleVerify is the Verify of examples.
func ExampleVerify(sig string) (Family, bool) {
	switch sig {
	case ClaudeSignature:
		return Claude, true
	case GeminiSignature:
		return Gemini, true
	}
	return "", false
}

// Input spells the example out.
func (e Example) Input() Input {
	id := e.Model
	if id == "" {
		id = "gemini-3-flash"
	}
	in := Input{Surface: e.Surface, Method: e.Method, Switches: DefaultSwitches(), Verify: ExampleVerify, Body: []byte(e.Body)}
	models := ModelTable()
	if i := slices.IndexFunc(models, func(m Model) bool { return m.ID == id }); i >= 0 {
		in.Model = models[i]
	}
	if e.Context != 0 {
		in.Model.Context = e.Context
	}
	if e.Switches != nil {
		e.Switches(&in.Switches)
	}
	if e.Body == "" {
		in.Body = []byte(e.Request)
		if e.Surface == V1Internal && e.Method == Count {
			in.Body = []byte(`{"request":` + e.Request + `}`)
		} else if e.Surface == V1Internal {
			in.Body = []byte(`{"project":"p","model":"` + id + `","request":` + e.Request + `}`)
		}
	}
	return in
}

// Table lists all rules in the order in which they are applied. Callers must not change it.
func Table() []Rule { return table() }

var table = sync.OnceValue(func() []Rule {
	return slices.Concat(wireRules(), contentRules(), toolRules(), configRules(), samplingRules(), imageRules(), pairingRules(), claudeRules(), signatureRules(), sizeRules())
})

// Short forms for examples.

const hi = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`

func internal(request string) Example { return Example{Request: request} }
func beta(request string) Example {
	return Example{Surface: V1Beta, Model: "gemini-3-flash-preview", Request: request}
}
func onVertex(request string) Example {
	return Example{Surface: Vertex, Model: "gemini-3-flash-preview", Request: request}
}
func onModel(model, request string) Example        { return Example{Model: model, Request: request} }
func onClaude(request string) Example              { return onModel("claude-sonnet-4-6", request) }
func (e Example) with(set func(*Switches)) Example { e.Switches = set; return e }

// turnsJSON returns the JSON of a conversation: each turn is a role, a space, and the list of its
// parts.
func turnsJSON(turns ...string) string {
	contents := make([]string, len(turns))
	for i, turn := range turns {
		role, parts, _ := strings.Cut(turn, " ")
		contents[i] = `{"role":"` + role + `","parts":` + parts + `}`
	}
	return `"contents":[` + strings.Join(contents, ",") + `]`
}
