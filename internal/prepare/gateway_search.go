package prepare

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/rawjson"
)

// A Search stands for the provider's search, where a model cannot have it itself: beside functions the gateway refuses
// it, and models that are not Google's do not know it. The model has a function instead, and who sends the prompt answers
// its calls with what another model finds, which is asked with SearchPrompt.
type Search struct {
	Name   string          // of the function, as the provider knows it
	URLs   bool            // the function takes pages to read, too
	Config json.RawMessage // of the provider's own search, an object

	// HideThoughts says that the client did not want to see thinking: the caller needs it to go on after a search, and
	// keeps it to itself.
	HideThoughts bool
}

// The provider's tools that the gateway knows.
const (
	googleSearch    = "googleSearch"
	searchRetrieval = "googleSearchRetrieval" // what search was called before
	urlContext      = "urlContext"
	codeExecution   = "codeExecution"
)

// builtins decides which tools of the provider's the model has. It returns how many functions stand in for them.
func (g *gateway) builtins(functions int) int {
	if !slices.ContainsFunc(g.prompt.Tools, isBuiltin) {
		return 0
	}
	var search, urls, code bool
	config := emptyObject
	for _, t := range g.prompt.Tools {
		switch {
		case !isBuiltin(t):
		case t.Builtin == googleSearch && !search:
			search, config = true, g.searchConfig(t.Config)
		case t.Builtin == googleSearch || t.Builtin == searchRetrieval:
			search = true
		case t.Builtin == urlContext:
			urls = true
		case t.Builtin == codeExecution:
			code = true
		default:
			g.notes.add(perigee.NoteDropped, "tool "+clip(t.Builtin))
		}
	}
	tools := slices.DeleteFunc(slices.Clone(g.prompt.Tools), isBuiltin)
	alone := functions == 0 && g.native()
	if code && !alone {
		g.notes.add(perigee.NoteDropped, "tool "+codeExecution+why(functions))
	}
	standIns := 0
	switch {
	case alone:
		tools = append(tools, own(search, googleSearch, config)...)
		tools = append(tools, own(urls, urlContext, emptyObject)...)
		tools = append(tools, own(code, codeExecution, emptyObject)...)
	case search || urls:
		g.notes.add(perigee.NoteMapped, "tool "+searched(search)+why(functions)+" to a function")
		g.search = &Search{Name: g.freeName("google_search"), URLs: urls, Config: config}
		tools = append(tools, perigee.Tool{Function: g.search.function()})
		standIns = 1
	}
	g.prompt.Tools = tools
	return standIns
}

func own(want bool, name string, config json.RawMessage) []perigee.Tool {
	if !want {
		return nil
	}
	return []perigee.Tool{{Builtin: name, Config: config}}
}

func searched(search bool) string {
	if search {
		return googleSearch
	}
	return urlContext
}

// why says what keeps a tool of the provider's away, as far as the client can do something about it.
func why(functions int) string {
	if functions > 0 {
		return " beside functions"
	}
	return ""
}

// searchConfig returns what the client wants of the search, as far as the gateway knows it.
func (g *gateway) searchConfig(config json.RawMessage) json.RawMessage {
	if !isObject(config) || string(config) == "{}" {
		return emptyObject
	}
	var fields perigee.Fields
	c := rawjson.NewCursor(config)
	for key := range c.Object() {
		fields = append(fields, perigee.Field{Name: string(key), Value: c.Raw()})
	}
	kept := g.known(fields, googleSearch+".", searchMembers)
	if len(kept) == len(fields) && !untidy(config) {
		return config
	}
	out := []byte{'{'}
	for _, f := range kept {
		out = rawjson.AppendString(separate(out, 1), f.Name)
		out = append(append(out, ':'), f.Value...)
	}
	return append(out, '}')
}

// freeName returns a name that neither a function nor the history uses.
func (g *gateway) freeName(want string) string {
	taken := map[string]bool{}
	eachName(&g.prompt, func(name string) { taken[strings.ToLower(g.names.wire(name))] = true })
	for name, i := want, 2; ; i++ {
		if !taken[name] {
			return name
		}
		name = want + "_" + strconv.Itoa(i)
	}
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

// Searched returns the prompt with what the model said and, behind it, the results of its searches. The model's own words
// need the same care as those that a client sends back: providers forget ids, repeat them, and leave seals out.
func (p Prepared) Searched(spec models.Spec, opts AntigravityOptions, said, results []perigee.Part) Prepared {
	g := &gateway{spec: spec, prompt: *p.Prompt, opts: opts}
	tell := g.repairs(RepairPairing)
	list := slices.Clone(g.prompt.Contents)
	for _, c := range []perigee.Content{{Role: perigee.RoleModel, Parts: said}, {Role: perigee.RoleUser, Parts: results}} {
		if c = g.content(&c, tell); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if g.claude() {
		list = g.withThoughts(list)
	}
	sign(list, signedFrom(list, spec.Family, opts.Repair))
	g.prompt.Contents = list
	p.Prompt, p.Notes = &g.prompt, g.notes.list
	return p
}

const searcher = "You search the web for another program. Search for what you are asked, read what you are pointed at, and answer with the facts that you found, briefly and completely. Say so when you found nothing."

// SearchPrompt is what a model that can search is asked when another one has called s. s may be nil.
func SearchPrompt(query string, urls []string, s *Search) *perigee.Prompt {
	if s == nil {
		s = &Search{}
	}
	text := query
	if strings.TrimSpace(text) == "" {
		text = "What do these pages say?"
	}
	p := &perigee.Prompt{
		System:     &perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: searcher}}},
		Tools:      []perigee.Tool{{Builtin: googleSearch, Config: emptyObject}},
		Generation: perigee.Generation{Temperature: new(0.0), TopP: new(1.0), Candidates: new(int64(1))},
	}
	if isObject(s.Config) {
		p.Tools[0].Config = s.Config
	}
	if len(urls) > 0 {
		text += "\n\nPages to read:\n" + strings.Join(urls, "\n")
		p.Tools = append(p.Tools, perigee.Tool{Builtin: urlContext, Config: emptyObject})
	}
	p.Contents = []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: text}}}}
	return p
}
