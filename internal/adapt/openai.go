package adapt

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/schema"
	"perigee/internal/lib/rawjson"
)

// A Server is what a server with one of OpenAI's APIs accepts. Such servers differ in more than
// their documentation has; fields are named so that the zero value accepts least.
type Server struct {
	// Options are the generation parameters and members that it accepts, by their names in the Chat
	// Completions API.
	Options []string
	Stops   int // how many stop sequences it accepts

	// Efforts returns the levels of thinking of a model; it is empty if none can be set. If the
	// function is nil, all levels are accepted.
	Efforts func(model string) []string
	Budgets bool // thinking may be set in tokens
	// Fixed reports whether a model that thinks refuses sampling parameters other than the defaults.
	Fixed func(model string) bool
	// EffortAlone reports whether a model refuses a level of thinking beside functions.
	EffortAlone func(model string) bool

	Reasoning     bool // accepts the model's earlier thinking as text
	KeepReasoning bool // requires it in every message with calls, where there are tools
	// CompleteReasoning is set if it is required in every message of the model.
	CompleteReasoning bool
	Sealed            bool // accepts earlier thinking that it has signed or sealed itself

	Schemas   bool // the answer may have a schema
	JSONWord  bool // an answer in JSON requires that word in a message
	Custom    bool // tools may take a text
	Allowed   bool // the choice of tools may be limited to some of them
	Named     bool // a certain tool may be required
	Developer bool // instructions may have the role developer
	Media     bool // tool results may have images and documents
	Documents bool
	Sounds    bool
	Marks     bool     // accepts cache marks
	Builtins  []string // its own tools
	IDs       int      // the length of ids of calls, which have letters and digits only; 0 for any
	MaxID     int      // the length of the longest id of a call, if ids of other servers are longer
	MinOutput int64    // the smallest limit of an answer
}

// ServerOptions are the names in Server.Options.
const (
	OptionLogitBias = "logit_bias"
	OptionParallel  = "parallel_tool_calls"
	OptionVerbosity = "verbosity"
	OptionTier      = "service_tier"
	OptionLogprobs  = "logprobs"
	OptionName      = "messages[].name"
	OptionSeed      = "seed"
	OptionTopK      = "top_k"
	OptionN         = "n"
	OptionPresence  = "presence_penalty"
	OptionFrequency = "frequency_penalty"
	OptionImages    = "modalities"
)

// ForOpenAI returns the prompt as a server with one of OpenAI's APIs accepts it from a client of any
// dialect, the Undo for the answer, and notes on changes that may affect the client. p is not
// changed; the result shares its unchanged parts with p. schemas may be nil.
func ForOpenAI(p *perigee.Prompt, server *Server, model string, schemas *schema.Cache) (*perigee.Prompt, Undo, []perigee.Note) {
	a := &openAI{adapter: adapter{prompt: *p}, server: server, model: model}
	a.opts.Schemas = schemas
	a.names = nameMap{NoPunctuation: true}
	a.dropMembers()
	a.declareTools()
	a.options()
	a.format()
	a.think()
	a.conversation()
	return &a.prompt, Undo{names: a.names.back}, a.notes.List()
}

// An openAI adapts one prompt to a server with OpenAI's APIs.
type openAI struct {
	adapter
	server *Server
	model  string
}

// name returns the client's name of an option.
func (a *openAI) name(option string) string { return optionName(a.prompt.Dialect, option) }

// dropMembers drops the members of other APIs that have no field in a Prompt.
func (a *openAI) dropMembers() {
	drop := func(fields *perigee.Fields, where string) {
		for _, f := range *fields {
			a.notes.Dropped(where + clip(f.Name))
		}
		*fields = nil
	}
	drop(&a.prompt.Extra, "")
	drop(&a.prompt.Generation.Extra, "generationConfig.")
	a.prompt.Cache = nil
}

// declareTools keeps each function once, with a JSON Schema, and the built-in tools that the server
// has.
func (a *openAI) declareTools() {
	for _, name := range a.names.Collect(&a.prompt) {
		a.notes.Add(perigee.NoteRenamed, "tool "+clip(name))
	}
	functions := a.declareOnce()
	a.prompt.Tools = slices.DeleteFunc(a.prompt.Tools, func(t perigee.Tool) bool {
		drop := isBuiltin(t) && !slices.Contains(a.server.Builtins, t.Builtin)
		if drop {
			a.notes.Dropped("tool " + clip(t.Builtin))
		}
		return drop
	})
	for i := range a.prompt.Tools {
		t := &a.prompt.Tools[i]
		if !a.server.Marks {
			t.Cache = nil
		}
		if !isBuiltin(*t) {
			t.Function = a.function(t.Function)
		}
	}
	a.chooseTools(functions)
}

// function returns a declaration that the server accepts.
func (a *openAI) function(f *perigee.Function) *perigee.Function {
	next := *f
	for _, field := range f.Extra {
		a.notes.Dropped("tools[]." + clip(field.Name))
	}
	next.Extra = nil
	if next.Custom != nil && !a.server.Custom {
		if a.prompt.Dialect == perigee.DialectOpenAIResponses {
			a.notes.Mapped("tools[custom] " + perigee.Clip(a.names.Client(f.Name), 60))
		} else {
			a.notes.Mapped("tools[].custom")
		}
		next.Custom = nil
	}
	switch {
	case !isObject(next.Parameters):
		next.Parameters = noParameters
	case !next.JSONSchema:
		next.Parameters = a.opts.Schemas.JSON(next.Parameters)
	}
	next.Parameters = withProperties(next.Parameters)
	next.JSONSchema = true
	return &next
}

var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// withProperties adds properties to a schema without them, which OpenAI refuses.
func withProperties(object json.RawMessage) json.RawMessage {
	members := false
	c := rawjson.NewCursor(object)
	for key := range c.Object() {
		if name := string(key); name == "properties" || name == "$ref" {
			return object
		}
		members = true
	}
	if !members {
		return noParameters
	}
	return slices.Concat([]byte(`{"properties":{},`), object[1:])
}

// chooseTools makes the choice of tools one that the server has. Where it has no choice among some
// of the tools, only these are declared.
func (a *openAI) chooseTools(functions int) {
	config := a.prompt.ToolConfig
	if config == nil {
		return
	}
	for _, fields := range []perigee.Fields{config.Calling, config.Extra} {
		for _, f := range fields {
			if f.Name != serverSide {
				a.notes.Dropped("toolConfig." + clip(f.Name))
			}
		}
	}
	mode := strings.ToUpper(config.Mode)
	if functions == 0 {
		if mode == perigee.ToolModeAny {
			a.notes.Dropped("tool choice without tools")
		}
		a.prompt.ToolConfig = nil
		return
	}
	next := perigee.ToolConfig{Mode: mode, Allowed: a.declaredOf(config.Allowed)}
	if n := len(next.Allowed); mode != perigee.ToolModeNone && n > 0 &&
		!(a.server.Allowed || a.server.Named && n == 1 && mode == perigee.ToolModeAny) {
		a.prompt.Tools = slices.DeleteFunc(a.prompt.Tools, func(t perigee.Tool) bool {
			return t.Function != nil && !slices.Contains(next.Allowed, t.Function.Name)
		})
		next.Allowed = nil
		if n < functions {
			a.notes.Mapped("tool choice to fewer tools")
		}
	}
	a.setToolConfig(next)
}

// accepts reports whether the server accepts an option, and notes one that it does not.
func (a *openAI) accepts(used bool, option string) bool {
	if !used || slices.Contains(a.server.Options, option) {
		return true
	}
	a.notes.Dropped(a.name(option))
	return false
}

// options drops the parameters that the server does not have, and those that the model refuses.
func (a *openAI) options() {
	g := &a.prompt.Generation
	if !a.accepts(hasMembers(g.LogitBias), OptionLogitBias) {
		g.LogitBias = nil
	}
	if !a.accepts(g.ParallelCalls != nil && !*g.ParallelCalls, OptionParallel) || !a.hasFunctions() ||
		!slices.Contains(a.server.Options, OptionParallel) {
		g.ParallelCalls = nil
	}
	if !a.accepts(g.Verbosity != "" && g.Verbosity != "medium", OptionVerbosity) || !slices.Contains(a.server.Options, OptionVerbosity) {
		g.Verbosity = ""
	}
	a.tier(g)
	if !a.accepts(g.Logprobs != nil, OptionLogprobs) {
		g.Logprobs = nil
	}
	if !a.accepts(g.Seed != nil, OptionSeed) {
		g.Seed = nil
	}
	if !a.accepts(g.TopK != nil, OptionTopK) {
		g.TopK = nil
	}
	if !a.accepts(g.Candidates != nil && *g.Candidates > 1, OptionN) || g.Candidates != nil && *g.Candidates == 1 {
		g.Candidates = nil
	}
	if !a.accepts(g.PresencePenalty != nil, OptionPresence) {
		g.PresencePenalty = nil
	}
	if !a.accepts(g.FrequencyPenalty != nil, OptionFrequency) {
		g.FrequencyPenalty = nil
	}
	if !a.accepts(len(g.Modalities) > 0 && !textAlone(g.Modalities), OptionImages) || textAlone(g.Modalities) {
		g.Modalities = nil
	}
	if len(g.Stop) > a.server.Stops {
		if a.server.Stops == 0 {
			a.notes.Dropped("stop sequences")
		} else {
			a.notes.Dropped(fmt.Sprintf("stop sequences after the first %d", a.server.Stops))
		}
		g.Stop = g.Stop[:a.server.Stops]
	}
	if n, least := g.MaxOutputTokens, a.server.MinOutput; n != nil && *n < least {
		a.notes.Mapped(fmt.Sprintf("max output tokens %d to %d", *n, least))
		g.MaxOutputTokens = &least
	}
}

// tier drops a service tier that only another provider has.
func (a *openAI) tier(g *perigee.Generation) {
	switch g.ServiceTier {
	case "", "standard_only":
		g.ServiceTier = ""
	case "auto", "default":
		if !slices.Contains(a.server.Options, OptionTier) {
			g.ServiceTier = ""
		}
	default:
		if !a.accepts(true, OptionTier) {
			g.ServiceTier = ""
		}
	}
}

func textAlone(modalities []string) bool {
	return !slices.ContainsFunc(modalities, func(m string) bool { return !strings.EqualFold(m, "TEXT") })
}

func (a *openAI) hasFunctions() bool {
	return slices.ContainsFunc(a.prompt.Tools, func(t perigee.Tool) bool { return t.Function != nil })
}

// format expresses the form of the answer in the server's terms.
func (a *openAI) format() {
	g := &a.prompt.Generation
	if g.ResponseJSON == nil && g.ResponseSchema != nil {
		g.ResponseJSON = a.opts.Schemas.JSON(g.ResponseSchema)
	}
	g.ResponseSchema = nil
	switch {
	case g.ResponseJSON != nil && a.server.Schemas:
		g.ResponseMIME = jsonMIME
		g.ResponseFormat.Name = cmp.Or(g.ResponseFormat.Name, "answer")
	case g.ResponseJSON != nil:
		a.notes.Mapped("schema of the answer to an instruction")
		a.instruct("Answer with one JSON value that follows this JSON Schema:\n" + string(g.ResponseJSON))
		g.ResponseMIME, g.ResponseJSON, g.ResponseFormat = jsonMIME, nil, perigee.ResponseFormat{}
	case g.ResponseMIME == jsonMIME && a.server.JSONWord && !a.mentionsJSON():
		a.instruct("Answer in JSON.")
	case g.ResponseMIME != "" && g.ResponseMIME != jsonMIME:
		if g.ResponseMIME != "text/plain" {
			a.notes.Dropped("response format " + clip(g.ResponseMIME))
		}
		g.ResponseMIME = ""
	}
}

// instruct adds an instruction for the model.
func (a *openAI) instruct(text string) {
	var system perigee.Content
	if a.prompt.System != nil {
		system = *a.prompt.System
	}
	system.Parts = append(slices.Clip(system.Parts), perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text)})
	a.prompt.System = &system
}

// mentionsJSON reports whether a message of the prompt has that word.
func (a *openAI) mentionsJSON() bool {
	mentions := func(c perigee.Content) bool {
		return slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
			text, _ := p.Text.Form()
			return p.Kind == perigee.PartText && strings.Contains(strings.ToLower(text), "json")
		})
	}
	return a.prompt.System != nil && mentions(*a.prompt.System) || slices.ContainsFunc(a.prompt.Contents, mentions)
}

// think expresses the amount of thinking in a level that the model has.
func (a *openAI) think() {
	g := &a.prompt.Generation
	have := perigee.Levels
	if a.server.Efforts != nil {
		have = a.server.Efforts(a.model)
	}
	if g.Thinking != nil {
		g.Thinking = a.level(*g.Thinking, have)
	}
	if g.Thinking != nil && g.Thinking.Level != "none" && a.server.EffortAlone != nil && a.server.EffortAlone(a.model) && a.hasFunctions() {
		if g.Thinking.Level != "" {
			a.notes.Dropped(a.name("thinking level") + " beside tools")
		}
		g.Thinking = nil
	}
	off := g.Thinking != nil && g.Thinking.Level == "none"
	if a.server.Fixed == nil || off || !a.server.Fixed(a.model) {
		return
	}
	fixed := func(value **float64, only float64, option string) {
		if *value != nil {
			if **value != only {
				a.notes.Dropped(a.name(option))
			}
			*value = nil
		}
	}
	fixed(&g.Temperature, 1, "temperature")
	fixed(&g.TopP, 1, "top_p")
	fixed(&g.PresencePenalty, 0, OptionPresence)
	fixed(&g.FrequencyPenalty, 0, OptionFrequency)
}

// level returns the thinking with a level that the model has, or nil if nothing is to be set.
func (a *openAI) level(want perigee.Thinking, have []string) *perigee.Thinking {
	for _, f := range want.Extra {
		a.notes.Dropped("thinking." + clip(f.Name))
	}
	want.Extra, want.Level = nil, strings.ToLower(want.Level)
	open := want.Budget != nil && *want.Budget < 0
	if open {
		want.Budget = nil // the model decides, as without a level
	}
	if len(have) == 0 {
		shown := want.Include != nil && *want.Include
		if want.Level != "" && want.Level != "none" || want.Budget != nil && *want.Budget > 0 {
			a.notes.Dropped(a.name("thinking level"))
		} else if a.server.Fixed != nil && !a.server.Fixed(a.model) && (shown || open) {
			a.notes.Dropped("thinking") // other models without levels may think nevertheless
		}
		return nil
	}
	if b := want.Budget; b != nil && want.Level == "" && (*b == 0 || !a.server.Budgets) {
		want.Level, want.Budget = "none", nil
		if *b > 0 {
			want.Level = budgetToLevel(*b, levels)
		}
	}
	if open && want.Level == "" && a.server.Fixed != nil && slices.Contains(have, "none") {
		want.Level = "medium" // models of OpenAI that take none do not think without a level
	}
	if want.Level != "none" {
		// Thinking is not turned off for want of a level.
		have = slices.DeleteFunc(slices.Clone(have), func(level string) bool { return level == "none" })
	}
	switch {
	case want.Level == "":
	case len(have) == 0:
		a.notes.Dropped(a.name("thinking level") + " " + clip(want.Level))
		want.Level = ""
	default:
		want.Budget = nil
		near := nearest(want.Level, have)
		if near != want.Level {
			a.notes.Mapped(a.name("thinking level") + " " + clip(want.Level) + " to " + near)
		}
		want.Level = near
	}
	return &want
}

// nearest returns the level of a model that is nearest to another level. Of two that are as near it
// is the one nearer to high. An unknown level counts as medium.
func nearest(level string, have []string) string {
	distance := func(from, to string) int {
		d := slices.Index(perigee.Levels, from) - slices.Index(perigee.Levels, to)
		return max(d, -d)
	}
	if !slices.Contains(perigee.Levels, level) {
		level = "medium"
	}
	return slices.MinFunc(have, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(a, level), distance(b, level)), cmp.Compare(distance(a, "high"), distance(b, "high")))
	})
}

// conversation makes the messages acceptable: each call followed by its result, ids that the server
// takes, and only parts that it reads.
func (a *openAI) conversation() {
	if s := a.prompt.System; s != nil {
		next := *s
		next.Parts = a.parts(s.Parts, false)
		a.prompt.System = &next
		if len(next.Parts) == 0 {
			a.prompt.System = nil
		}
	}
	list := make([]perigee.Content, 0, len(a.prompt.Contents)+1)
	for i := range a.prompt.Contents {
		if c := a.content(a.prompt.Contents[i]); len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if len(list) == 0 && a.prompt.System != nil && len(a.prompt.Contents) > 0 {
		a.notes.Add(perigee.NoteAdded, "user message")
		list = append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}})
	}
	if endsWithCall(list) {
		list = append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}}) // after the missing results
	}
	list = a.pair(list)
	identify(list)
	a.shorten(list)
	if complete := a.server.CompleteReasoning; complete || a.server.KeepReasoning && a.hasFunctions() {
		for i := range list {
			if c := &list[i]; isModel(*c) && (complete || slices.ContainsFunc(c.Parts, isCall)) && !slices.ContainsFunc(c.Parts, isThought) {
				c.Parts = slices.Insert(slices.Clip(c.Parts), 0, perigee.Part{Kind: perigee.PartText, Thought: true})
			}
		}
	}
	a.prompt.Contents = list
}

// content returns a turn as the server accepts it.
func (a *openAI) content(c perigee.Content) perigee.Content {
	switch results := resultsOnly(&c); {
	case c.Role == perigee.RoleModel && !results, c.Role == perigee.RoleSystem:
	case c.Role == perigee.RoleDeveloper:
		if !a.server.Developer {
			c.Role = perigee.RoleSystem
		}
	case strings.EqualFold(c.Role, "assistant") && !results:
		c.Role = perigee.RoleModel
	default:
		c.Role = perigee.RoleUser
	}
	for _, f := range c.Extra {
		a.notes.Dropped("contents[]." + clip(f.Name))
	}
	c.Extra = nil
	if !a.accepts(c.Name != "", OptionName) {
		c.Name = ""
	}
	parts := c.Parts
	if !a.server.Media && slices.ContainsFunc(parts, func(p perigee.Part) bool { return p.Response != nil && len(p.Response.Media) > 0 }) {
		a.notes.Mapped("media of tool results to a message of the user")
		parts = a.attach(parts, false)
	}
	c.Parts = a.parts(parts, isModel(c))
	return c
}

// parts adapts the parts of a turn.
func (a *openAI) parts(parts []perigee.Part, model bool) []perigee.Part {
	return perigee.EditParts(parts, func(p *perigee.Part) bool { return a.part(p, model) })
}

// part adapts a part and reports whether it stays.
func (a *openAI) part(p *perigee.Part, model bool) bool {
	if !a.server.Marks {
		p.Cache = nil
	}
	p.Extra = nil
	if p.Thought && p.Signature != "" {
		if !a.server.Sealed || !model {
			a.notes.Dropped(perigee.OtherReasoning.Subject)
		}
		return a.server.Sealed && model
	}
	p.Signature = ""
	switch {
	case p.Thought:
		if !a.server.Reasoning {
			a.notes.Add(perigee.NoteOmitted, "earlier thinking")
		}
		return a.server.Reasoning && model && p.Kind == perigee.PartText
	case p.Kind == perigee.PartText:
		return !p.Text.Empty()
	case p.Kind == perigee.PartCall && model && p.Call != nil:
		call := perigee.FunctionCall{ID: p.Call.ID, Name: a.names.Wire(p.Call.Name), Args: object(p.Call.Args, "input")}
		p.Call = &call
		return true
	case p.Kind == perigee.PartResponse && !model && p.Response != nil:
		return a.result(p)
	case p.Kind == perigee.PartBlob || p.Kind == perigee.PartFile:
		return a.medium(p, model)
	}
	return a.asText(p)
}

// asText makes a text of a part that is not where the API has it, or that another API has.
func (a *openAI) asText(p *perigee.Part) bool {
	switch {
	case p.Call != nil:
		a.notes.Repaired("tool call in a turn of the user's")
		*p = textOf("call of tool ", p.Call.Name, p.Call.Args)
	case p.Response != nil:
		a.notes.Repaired("tool result in a turn of the model's")
		*p = textOfResult(p.Response)
	default:
		return false
	}
	return true
}

// result gives a result the name of its function, and keeps the media that the server reads there.
func (a *openAI) result(p *perigee.Part) bool {
	next := *p.Response
	for _, f := range next.Extra {
		a.notes.Dropped("functionResponse." + clip(f.Name))
	}
	next.Name, next.Extra = a.names.Wire(next.Name), nil
	if next.Output == nil && next.Response == nil {
		next.Response = emptyObject
	}
	next.Media = a.parts(next.Media, false)
	p.Response = &next
	return true
}

// medium keeps data that the server reads. Of other data its type stays, and of a file its address.
func (a *openAI) medium(p *perigee.Part, model bool) bool {
	mime, _, ok := mediaOf(p)
	if !ok {
		return false
	}
	kind, _, _ := strings.Cut(mime, "/")
	lost := func(what string) bool {
		a.notes.Dropped("data of type " + clip(mime))
		*p = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(what), Cache: p.Cache}
		return true
	}
	switch {
	case model:
		return lost("[data of type " + mime + "]")
	case p.Kind == perigee.PartFile:
		uri := p.File.URI
		if kind == "image" && (strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://")) {
			p.File = &perigee.File{MIME: mime, URI: uri, Detail: p.File.Detail}
			return true
		}
		return lost("[data of type " + mime + " at " + uri + "]")
	case kind == "image", kind == "audio" && a.server.Sounds, mime == "application/pdf" && a.server.Documents:
		return true
	case kind == "text":
		if text, err := base64.StdEncoding.DecodeString(p.Blob.Data); err == nil {
			*p = perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(strings.ToValidUTF8(string(text), "\uFFFD")), Cache: p.Cache}
			return true
		}
	}
	return lost("[data of type " + mime + ", which this model cannot read]")
}

// maxCallID is the length of the longest id of a call that servers take which name no other one.
const maxCallID = 64

// CallID returns an id of a call that the server takes: the given one if possible, and otherwise one
// that is made from it.
func (s *Server) CallID(id string) string {
	switch {
	case s.IDs > 0 && (len(id) != s.IDs || strings.ContainsAny(id, "_-")):
		return digestID(id, s.IDs)
	case len(id) > cmp.Or(s.MaxID, maxCallID):
		return digestID(id, 32)
	}
	return id
}

// LimitsIDs reports whether the server refuses ids of calls that other servers make.
func (s *Server) LimitsIDs() bool { return s.IDs > 0 || s.MaxID > 0 }

// shorten replaces the ids of calls that the server does not take.
func (a *openAI) shorten(list []perigee.Content) {
	short := a.server.CallID
	for i := range list {
		list[i].Parts = perigee.EditParts(list[i].Parts, func(p *perigee.Part) bool {
			switch {
			case p.Kind == perigee.PartCall:
				if id := short(p.Call.ID); id != p.Call.ID {
					call := *p.Call
					call.ID, p.Call = id, &call
				}
			case p.Kind == perigee.PartResponse:
				if id := short(p.Response.ID); id != p.Response.ID {
					response := *p.Response
					response.ID, p.Response = id, &response
				}
			}
			return true
		})
	}
}
