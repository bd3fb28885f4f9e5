package prepare

import (
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/schema"
)

// tools makes the declarations acceptable: legal names, each once, schemas that the gateway reads, and either functions
// or tools of the provider's.
func (g *gateway) tools() {
	if g.spec.Family == models.Image {
		g.withoutTools()
		return
	}
	g.leaveOut()
	g.names.collect(&g.prompt, func(name string) { g.notes.add(perigee.NoteRenamed, "tool "+clip(name)) })
	g.back = Back{names: g.names.back, object: true}
	functions := g.functions()
	functions += g.builtins(functions)
	g.declare(functions)
	g.calling(functions)
	if functions > 0 && g.spec.Family == models.Gemini2 {
		g.withoutJSON("beside tools")
	}
}

// leaveOut drops the functions that the provider is known to refuse.
func (g *gateway) leaveOut() {
	if len(g.opts.WithoutTools) == 0 {
		return
	}
	g.prompt.Tools = slices.DeleteFunc(slices.Clone(g.prompt.Tools), func(t perigee.Tool) bool {
		if t.Function == nil || !g.opts.WithoutTools[t.Function.Name] {
			return false
		}
		g.notes.add(perigee.NoteDropped, "tool "+clip(t.Function.Name)+", whose schema the provider refuses")
		return true
	})
}

// declare gives each function the schema that the gateway reads, under the only name by which it does.
func (g *gateway) declare(functions int) {
	if functions == 0 {
		return
	}
	tools := slices.Clone(g.prompt.Tools)
	declared := make([]perigee.Function, 0, functions)
	for i := range tools {
		if tools[i].Function == nil {
			continue
		}
		declared = append(declared, *tools[i].Function)
		f := &declared[len(declared)-1]
		f.JSONSchema = false
		f.Extra = g.withResponse(f)
		if f.Parameters != nil || g.schemaFamily() == schema.Claude {
			g.parameters(f)
		}
		tools[i].Function = f
	}
	if g.repairs(RepairSchemas) {
		reduceAll(declared)
	}
	g.prompt.Tools = tools
}

// schemaFamily is whose schemas the model takes. What Claude takes everybody does.
func (g *gateway) schemaFamily() schema.Family {
	if g.native() && !g.repairs(RepairSchemas) {
		return schema.Gemini
	}
	return schema.Claude
}

// parameters cleans the schema of a function, and notes what is lost of it.
func (g *gateway) parameters(f *perigee.Function) {
	clean := schema.Clean
	if g.grown > maxGrown {
		clean = schema.CleanSparing
	}
	cleaned := clean(f.Parameters, g.schemaFamily())
	g.grown += max(0, len(cleaned.Schema)-len(f.Parameters))
	f.Parameters = cleaned.Schema
	if cleaned.Placeholder {
		if g.back.fillers == nil {
			g.back.fillers = map[string]bool{}
		}
		g.back.fillers[f.Name] = true
	}
	if lost := losses(cleaned.Changes); lost != "" {
		g.notes.add(perigee.NoteMapped, "schema of tool "+g.clientName(f.Name)+" ("+lost+")")
	}
}

// maxGrown is how many bytes the schemas of a prompt may become longer before references are written out sparingly: a
// short one can be made to say a lot, and there may be thousands.
const maxGrown = 1 << 20

// maxLosses is how many keywords a note names.
const maxLosses = 4

// losses says in a few words what a model could have used and does not see.
func losses(changes []schema.Change) string {
	var list []string
	for _, c := range changes {
		if c.Action != schema.Cut && c.Action != schema.Dropped || meaningless(c.Keyword) {
			continue
		}
		if len(list) == maxLosses {
			list = append(list, "and more")
			break
		}
		list = append(list, c.String())
	}
	return strings.Join(list, ", ")
}

// meaningless says whether a keyword is a client's message to its own provider, and nothing to a model.
func meaningless(keyword string) bool {
	return keyword == "encrypted" || keyword == "propertyOrdering" || strings.HasPrefix(keyword, "x-")
}

// withResponse returns what else is declared of a function: its result's schema goes by one name, too.
func (g *gateway) withResponse(f *perigee.Function) perigee.Fields {
	if len(f.Extra) == 0 {
		return nil
	}
	isResponse := func(field perigee.Field) bool { return field.Name == "response" || field.Name == "responseJsonSchema" }
	at := slices.IndexFunc(f.Extra, isResponse)
	if at < 0 {
		return g.known(f.Extra, "tools[].", functionMembers)
	}
	rest := slices.DeleteFunc(slices.Clone(f.Extra), isResponse)
	kept := slices.Clone(g.known(rest, "tools[].", functionMembers))
	if raw := f.Extra[at].Value; isObject(raw) {
		kept = append(kept, perigee.Field{Name: "response", Value: schema.CleanResponse(raw, g.schemaFamily()).Schema})
	}
	return kept
}

// calling says whether the model may, must or must not call functions, as far as the gateway can be told. Claude's calls
// are always validated: otherwise their arguments need not fit the schema.
func (g *gateway) calling(functions int) {
	config := g.prompt.ToolConfig
	if config == nil {
		config = &perigee.ToolConfig{}
	}
	next := perigee.ToolConfig{Extra: g.known(config.Extra, "toolConfig.", toolConfigMembers)}
	g.known(config.Calling, "toolConfig.functionCallingConfig.", nil)
	if functions == 0 {
		if strings.EqualFold(config.Mode, perigee.ToolModeAny) {
			g.notes.add(perigee.NoteDropped, "tool choice without tools")
		}
	} else {
		next.Mode, next.Allowed = g.choice(config)
	}
	g.prompt.ToolConfig = &next
	if next.Mode == "" && next.Allowed == nil && len(next.Extra) == 0 {
		g.prompt.ToolConfig = nil
	}
}

// choice is how the model may choose among functions.
func (g *gateway) choice(config *perigee.ToolConfig) (mode string, allowed []string) {
	mode = strings.ToUpper(config.Mode)
	switch mode {
	case perigee.ToolModeAuto, perigee.ToolModeAny, perigee.ToolModeNone, perigee.ToolModeValidated:
	default:
		mode = ""
	}
	if mode == perigee.ToolModeNone {
		return mode, nil
	}
	allowed = g.declaredOf(config.Allowed)
	if len(allowed) == 0 && len(config.Allowed) > 0 {
		g.notes.add(perigee.NoteDropped, "choice of a tool that is not declared")
		if mode == perigee.ToolModeAny {
			mode = perigee.ToolModeAuto
		}
	}
	if g.search != nil && len(allowed) > 0 && mode != perigee.ToolModeAny {
		allowed = append(allowed, g.search.Name) // the choice was among the client's functions, and search is none of them
	}
	switch {
	case g.claude():
		if mode == perigee.ToolModeAny {
			g.notes.add(perigee.NoteMapped, "tool choice "+mode+" to "+perigee.ToolModeValidated)
		}
		mode = perigee.ToolModeValidated
	case len(allowed) > 0 && mode != perigee.ToolModeAny:
		mode = perigee.ToolModeValidated // the only other mode that may name functions
	}
	return mode, allowed
}

// declaredOf returns those of the client's names that are declared, as the provider knows them, each once.
func (g *gateway) declaredOf(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	declared := make(map[string]bool, len(g.prompt.Tools))
	for i := range g.prompt.Tools {
		if f := g.prompt.Tools[i].Function; f != nil {
			declared[f.Name] = true
		}
	}
	var list []string
	for _, name := range names {
		if wire := g.names.wire(name); declared[wire] {
			list = append(list, wire)
			delete(declared, wire)
		}
	}
	return list
}

// answerSchema makes the schema of the answer one that the gateway reads. One that says nothing is none.
func (g *gateway) answerSchema() {
	gen := &g.prompt.Generation
	if gen.ResponseSchema != nil && gen.ResponseJSON != nil {
		gen.ResponseJSON = nil // one of them is allowed, and both say the same
	}
	for _, raw := range []*json.RawMessage{&gen.ResponseSchema, &gen.ResponseJSON} {
		if *raw == nil {
			continue
		}
		if !isObject(*raw) || string(*raw) == "{}" {
			*raw = nil
			if gen.ResponseMIME == "" {
				gen.ResponseMIME = jsonMIME
			}
			continue
		}
		cleaned := schema.CleanResponse(*raw, g.schemaFamily())
		*raw = cleaned.Schema
		if lost := losses(cleaned.Changes); lost != "" {
			g.notes.add(perigee.NoteMapped, "schema of the answer ("+lost+")")
		}
	}
}
