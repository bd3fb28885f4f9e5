package adapt

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
)

// A Search replaces the provider's search where a model cannot have it itself: the gateway rejects
// it beside functions, and models that are not Google's do not have it. The model has a function
// instead. The caller answers its calls with the findings of another model, which is called with
// SearchPrompt.
type Search struct {
	Name   string          // of the function, as declared to the provider
	URLs   bool            // the function takes pages to read, too
	Config json.RawMessage // of the provider's own search, an object

	// HideThoughts is true if the client did not request thoughts: the caller needs them to
	// continue after a search, and does not pass them on.
	HideThoughts bool
}

// The built-in tools that the gateway supports.
const (
	googleSearch    = "googleSearch"
	searchRetrieval = "googleSearchRetrieval" // the earlier name of search
	urlContext      = "urlContext"
	codeExecution   = "codeExecution"
)

// builtinName returns the name of a built-in tool at Google's APIs.
func builtinName(builtin string) string {
	switch builtin {
	case perigee.BuiltinSearch:
		return googleSearch
	case perigee.BuiltinFetch:
		return urlContext
	case perigee.BuiltinCode:
		return codeExecution
	}
	return builtin
}

// builtins decides which of the gateway's built-in tools the model has. It returns how many
// functions replace them.
func (a *adapter) builtins(functions int) int {
	if !slices.ContainsFunc(a.prompt.Tools, isBuiltin) {
		return 0
	}
	var search, urls, code json.RawMessage // their configs; nil if not requested
	for _, t := range a.prompt.Tools {
		switch {
		case !isBuiltin(t):
		case t.Builtin == perigee.BuiltinSearch || t.Builtin == searchRetrieval:
			if search == nil {
				search = a.searchConfig(t)
			}
		case t.Builtin == perigee.BuiltinFetch:
			urls = emptyObject
		case t.Builtin == perigee.BuiltinCode:
			code = emptyObject
		default:
			a.notes.Dropped("tool " + clip(t.Builtin))
		}
	}
	a.prompt.Tools = slices.DeleteFunc(a.prompt.Tools, isBuiltin)
	if functions == 0 && a.native() {
		for _, t := range []perigee.Tool{{Builtin: perigee.BuiltinSearch, Config: search}, {Builtin: perigee.BuiltinFetch, Config: urls}, {Builtin: perigee.BuiltinCode, Config: code}} {
			if t.Config != nil {
				a.prompt.Tools = append(a.prompt.Tools, t)
			}
		}
		return 0
	}
	beside := ""
	if functions > 0 {
		beside = " beside functions"
	}
	if code != nil {
		a.notes.Dropped("tool " + codeExecution + beside)
	}
	replaced := googleSearch
	switch {
	case search == nil && urls == nil:
		return 0
	case search == nil:
		replaced, search = urlContext, emptyObject
	}
	a.notes.Mapped("tool " + replaced + beside + " to a function")
	a.search = &Search{Name: a.freeName("google_search"), URLs: urls != nil, Config: search}
	a.prompt.Tools = append(a.prompt.Tools, perigee.Tool{Function: a.search.function()})
	return 1
}

// searchConfig returns the client's settings of the search, as far as the gateway supports them.
func (a *adapter) searchConfig(t perigee.Tool) json.RawMessage {
	if t.Builtin != perigee.BuiltinSearch || !isObject(t.Config) {
		return emptyObject
	}
	var fields perigee.Fields
	c := rawjson.NewCursor(t.Config)
	for key := range c.Object() {
		fields = append(fields, perigee.Field{Name: string(key), Value: c.Raw()})
	}
	kept := a.supported(fields, googleSearch+".", searchMembers)
	if len(kept) == len(fields) && !untidy(t.Config) {
		return t.Config
	}
	w := new(rawjson.Writer).Object()
	for _, f := range kept {
		w.AnyKey(f.Name).Raw(f.Value)
	}
	return w.EndObject().Buf
}

// freeName returns a name that neither a function nor the history uses.
func (a *adapter) freeName(want string) string {
	taken := map[string]bool{}
	eachToolName(&a.prompt, func(name string) { taken[strings.ToLower(a.names.Wire(name))] = true })
	name := want
	for i := 2; taken[name]; i++ {
		name = want + "_" + strconv.Itoa(i)
	}
	return name
}

// function declares the search to the model.
func (s *Search) function() *perigee.Function {
	f := &perigee.Function{Name: s.Name,
		Description: "Searches the web with Google and returns what was found, with its sources. Use it for whatever is recent or has to be looked up.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What to search for, in plain words"}},"required":["query"]}`)}
	if s.URLs {
		f.Description += " It also reads the pages that it is given."
		f.Parameters = json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What to search for, or to find out from the pages, in plain words"},` +
			`"urls":{"type":"array","items":{"type":"string"},"description":"Addresses of pages to read; leave it out to search the web"}},"required":["query"]}`)
	}
	return f
}

// Searched returns the prompt with the model's answer so far and, behind it, the results of its
// searches. The answer is adapted like a turn that a client sends back: providers omit ids, repeat
// them, and omit signatures.
func (p Adapted) Searched(spec models.Spec, opts AntigravityOptions, answer, results []perigee.Part) Adapted {
	a := &adapter{gateway: true, spec: spec, prompt: *p.Prompt, opts: opts}
	list := slices.Clone(a.prompt.Contents)
	for _, c := range []perigee.Content{{Role: perigee.RoleModel, Parts: answer}, {Role: perigee.RoleUser, Parts: results}} {
		if c = a.content(c, a.repairs(RepairPairing)); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if a.claude() {
		list, _ = a.withThoughts(list)
	}
	a.sign(list)
	a.prompt.Contents = list
	p.Prompt, p.Notes = &a.prompt, a.notes.List()
	return p
}

const searcher = "You search the web for another program. Search for what you are asked, read what you are pointed at, and answer " +
	"with the facts that you found, briefly and completely. Say so when you found nothing."

// SearchPrompt returns the prompt for a model that can search, after another model has called s. s
// may be nil.
func SearchPrompt(query string, urls []string, s *Search) *perigee.Prompt {
	message := func(text string) perigee.Content {
		return perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain(text)}}}
	}
	tools := []perigee.Tool{{Builtin: perigee.BuiltinSearch, Config: emptyObject}}
	if s != nil {
		tools[0].Config = s.Config
	}
	if strings.TrimSpace(query) == "" {
		query = "What do these pages say?"
	}
	if len(urls) > 0 {
		query += "\n\nPages to read:\n" + strings.Join(urls, "\n")
		tools = append(tools, perigee.Tool{Builtin: perigee.BuiltinFetch, Config: emptyObject})
	}
	return &perigee.Prompt{System: new(message(searcher)), Tools: tools, Contents: []perigee.Content{message(query)},
		Generation: perigee.Generation{Temperature: new(0.0), TopP: new(1.0), Candidates: new(int64(1))}}
}
