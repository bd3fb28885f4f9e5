package adapt

import (
	"math"
	"strings"

	"perigee"
	"perigee/internal/adapt/schema"
)

// An OllamaModel is the description of a model by its server. For capabilities that the server does
// not report, everything is sent.
type OllamaModel struct {
	Name                    string
	Tools, Vision, Thinking *bool
	NoLevels                bool // thinking can only be turned on and off
}

// lacks reports whether a model is known not to have a capability.
func lacks(has *bool) bool { return has != nil && !*has }

// ollamaLevels are the levels of thinking of Ollama's API.
var ollamaLevels = []string{"none", "low", "medium", "high", "max"}

// ForOllama returns the prompt as Ollama's own API accepts it from a client of any dialect, the Undo
// for the answer, and notes on changes that may affect the client. It refuses tools and images that
// the model cannot use, as the server does, and images on the web, which the server does not fetch.
// p is not changed; the result shares its unchanged parts with p. schemas may be nil.
func ForOllama(p *perigee.Prompt, model OllamaModel, schemas *schema.Cache) (*perigee.Prompt, Undo, []perigee.Note, error) {
	server := &Server{
		Options: []string{OptionSeed, OptionTopK, OptionPresence, OptionFrequency, OptionLogprobs}, Stops: math.MaxInt, Schemas: true,
		Reasoning: !lacks(model.Thinking),
		Efforts: func(string) []string {
			if lacks(model.Thinking) {
				return nil
			}
			return ollamaLevels
		},
	}
	a := &ollama{openAI: openAI{adapter: adapter{prompt: *p}, server: server, model: model.Name}, known: model}
	a.opts.Schemas = schemas
	a.names = nameMap{NoPunctuation: true}
	if err := a.check(); err != nil {
		return nil, Undo{}, nil, err
	}
	a.dropMembers()
	a.declareTools()
	a.choice()
	a.reduceSchemas()
	a.options()
	if a.prompt.Generation.ResponseFormat.Description != "" {
		a.notes.Dropped(a.name("response_format.json_schema.description"))
	}
	a.format()
	a.think()
	a.conversation()
	return &a.prompt, Undo{names: a.names.back}, a.notes.List(), nil
}

// An ollama adapts one prompt to Ollama.
type ollama struct {
	openAI
	known OllamaModel
}

// check returns an error about tools and images that the model cannot use.
func (a *ollama) check() error {
	if lacks(a.known.Tools) && a.hasFunctions() && !a.chooses(perigee.ToolModeNone) {
		return a.unsupported("tools")
	}
	for i := range a.prompt.Contents {
		if isModel(a.prompt.Contents[i]) {
			continue
		}
		if err := a.checkImages(a.prompt.Contents[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// unsupported returns the error of the server about a capability that the model lacks.
func (a *ollama) unsupported(capability string) error {
	return perigee.Errorf(perigee.ClassInvalid, "%q does not support %s", a.known.Name, capability).
		WithHint("use a model with %s; perigee models shows what each model can do", capability)
}

// checkImages returns an error for an image that the model cannot see.
func (a *ollama) checkImages(parts []perigee.Part) error {
	for i := range parts {
		p := &parts[i]
		if p.Response != nil {
			if err := a.checkImages(p.Response.Media); err != nil {
				return err
			}
		}
		mime, _, ok := mediaOf(p)
		if !ok || !strings.HasPrefix(mime, "image/") {
			continue
		}
		if lacks(a.known.Vision) {
			return a.unsupported("vision")
		}
		if p.Kind == perigee.PartFile {
			return atAddress(a.prompt.Dialect, p)
		}
		if detail := p.Blob.Detail; detail != "" && detail != "auto" {
			a.notes.Dropped(a.name("image detail"))
		}
	}
	return nil
}

// chooses reports whether the client has set a mode of choosing tools.
func (a *ollama) chooses(mode string) bool {
	return a.prompt.ToolConfig != nil && strings.EqualFold(a.prompt.ToolConfig.Mode, mode)
}

// choice drops the choice of tools, which this API does not have. Without tools, the model calls none.
func (a *ollama) choice() {
	switch {
	case a.chooses(perigee.ToolModeNone):
		a.notes.Add(perigee.NoteOmitted, "tools that the model must not call")
		a.prompt.Tools = nil
	case a.chooses(perigee.ToolModeAny):
		a.notes.Dropped(a.name("tool_choice"))
	}
	a.prompt.ToolConfig = nil
}

// think expresses the amount of thinking in a level that the API has, or turns it on and off.
func (a *ollama) think() {
	g := &a.prompt.Generation
	shown := g.Thinking != nil && g.Thinking.Include != nil && *g.Thinking.Include
	a.openAI.think()
	t := g.Thinking
	switch {
	case t == nil:
		return
	case t.Level == "" && !shown:
		g.Thinking = nil // the model decides, as without the member
		return
	case t.Level != "" && t.Level != "none" && a.known.NoLevels:
		a.notes.Mapped(a.name("thinking level") + " " + t.Level + " to thinking")
		t.Level = ""
	}
	t.Include, t.Budget = nil, nil
}
