package prepare

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/models"
)

// serverSide is the switch that lets the provider's own tools work beside functions.
const serverSide = "includeServerSideToolInvocations"

// tools makes the declarations acceptable: legal names, each once, and built-in tools only where they are possible.
func (g *gemini) tools() {
	if g.spec.Family == models.Image {
		g.withoutTools()
	}
	g.names.collect(&g.prompt, func(name string) { g.notes.add(perigee.NoteRenamed, "tool "+clip(name)) })
	functions := g.functions()
	g.builtins(functions)
	g.calling(functions)
	if functions > 0 && g.spec.Family == models.Gemini2 {
		g.withoutJSON("beside tools")
	}
}

// withoutTools is for models that draw: they call nothing.
func (g *gemini) withoutTools() {
	if len(g.prompt.Tools) > 0 {
		g.notes.add(perigee.NoteDropped, "tools")
	}
	g.prompt.Tools, g.prompt.ToolConfig = nil, nil
	g.withoutJSON("for an image model")
}

// withoutJSON gives up the form of the answer where the model cannot have it.
func (g *gemini) withoutJSON(where string) {
	gen := &g.prompt.Generation
	if gen.ResponseMIME != jsonMIME && gen.ResponseSchema == nil && gen.ResponseJSON == nil {
		return
	}
	g.notes.add(perigee.NoteDropped, "response format "+where)
	gen.ResponseMIME, gen.ResponseSchema, gen.ResponseJSON = "", nil, nil
}

// functions renames and deduplicates the declared functions and returns how many there are.
func (g *gemini) functions() (count int) {
	tools := g.prompt.Tools
	seen := make(map[string]bool, len(tools))
	change := false
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		if f.Name == "" || seen[f.Name] || g.names.wire(f.Name) != f.Name {
			change = true
		}
		if f.Name != "" && !seen[f.Name] {
			count++
		}
		seen[f.Name] = true
	}
	if !change {
		return count
	}
	clear(seen)
	kept := make([]perigee.Tool, 0, len(tools))
	for _, tool := range tools {
		if f := tool.Function; f != nil {
			switch {
			case f.Name == "":
				g.notes.add(perigee.NoteDropped, "tool without a name")
				continue
			case seen[f.Name]:
				g.notes.add(perigee.NoteDropped, "second declaration of tool "+clip(f.Name))
				continue
			}
			seen[f.Name] = true
			if wire := g.names.wire(f.Name); wire != f.Name {
				renamed := *f
				renamed.Name = wire
				tool.Function = &renamed
			}
		}
		kept = append(kept, tool)
	}
	g.prompt.Tools = kept
	return count
}

// builtins settles whether the provider's own tools can stand beside functions: from generation 3 on they can, when
// the request says so; before, the functions stay, because the client cannot work without them.
func (g *gemini) builtins(functions int) {
	builtin := func(t perigee.Tool) bool { return t.Function == nil }
	if functions == 0 || !slices.ContainsFunc(g.prompt.Tools, builtin) {
		return
	}
	if g.spec.Family == models.Gemini {
		g.setServerSide(true)
		return
	}
	for _, t := range g.prompt.Tools {
		if builtin(t) {
			g.notes.add(perigee.NoteDropped, "tool "+clip(t.Builtin)+" beside functions")
		}
	}
	g.prompt.Tools = slices.DeleteFunc(slices.Clone(g.prompt.Tools), builtin)
	g.setServerSide(false)
}

// setServerSide turns the switch for built-in tools beside functions on, or takes it away.
func (g *gemini) setServerSide(on bool) {
	config := perigee.ToolConfig{}
	if g.prompt.ToolConfig != nil {
		config = *g.prompt.ToolConfig
	}
	config.Extra = slices.DeleteFunc(slices.Clone(config.Extra), func(f perigee.Field) bool { return f.Name == serverSide })
	if on {
		config.Extra = append(config.Extra, perigee.Field{Name: serverSide, Value: json.RawMessage("true")})
	}
	g.prompt.ToolConfig = &config
	if config.Mode == "" && config.Allowed == nil && config.Calling == nil && len(config.Extra) == 0 {
		g.prompt.ToolConfig = nil
	}
}

// calling renames the functions that the model may call, and drops a choice among none.
func (g *gemini) calling(functions int) {
	config := g.prompt.ToolConfig
	if config == nil {
		return
	}
	if functions == 0 && (config.Mode != "" || config.Allowed != nil || config.Calling != nil) {
		if config.Mode == perigee.ToolModeAny {
			g.notes.add(perigee.NoteDropped, "tool choice without tools")
		}
		g.prompt.ToolConfig = nil
		if len(config.Extra) > 0 {
			g.prompt.ToolConfig = &perigee.ToolConfig{Extra: config.Extra}
		}
		return
	}
	if !slices.ContainsFunc(config.Allowed, func(name string) bool { return g.names.wire(name) != name }) {
		return
	}
	renamed := *config
	renamed.Allowed = make([]string, len(config.Allowed))
	for i, name := range config.Allowed {
		renamed.Allowed[i] = g.names.wire(name)
	}
	g.prompt.ToolConfig = &renamed
}

// clip keeps a client's name from filling a header.
func clip(name string) string {
	if len(name) > 80 {
		return name[:80] + "..."
	}
	return name
}
