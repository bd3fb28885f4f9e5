package prepare

import (
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
		withoutTools(&g.prompt, &g.notes)
		return
	}
	g.leaveOut()
	g.names.collect(&g.prompt, &g.notes)
	g.back = Back{names: g.names.back, object: true}
	functions := 0
	g.prompt.Tools, functions = declareOnce(g.prompt.Tools, &g.names, &g.notes)
	functions += g.builtins(functions)
	g.declare(functions)
	g.calling(functions)
	if functions > 0 && g.spec.Family == models.Gemini2 {
		withoutJSON(&g.prompt.Generation, "beside tools", &g.notes)
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
