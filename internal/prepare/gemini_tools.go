package prepare

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/models"
)

// tools makes the declarations acceptable: legal names, each once, and built-in tools only where they are possible.
func (g *gemini) tools() {
	if g.spec.Family == models.Image {
		withoutTools(&g.prompt, &g.notes)
	}
	g.names.collect(&g.prompt, &g.notes)
	functions := 0
	g.prompt.Tools, functions = declareOnce(g.prompt.Tools, &g.names, &g.notes)
	g.builtins(functions)
	g.calling(functions)
	if functions > 0 && g.spec.Family == models.Gemini2 {
		withoutJSON(&g.prompt.Generation, "beside tools", &g.notes)
	}
}

// builtins decides whether the provider's own tools can stand beside functions: from generation 3 on they can, when
// the request says so; before, the functions stay, because the client cannot work without them.
func (g *gemini) builtins(functions int) {
	if functions == 0 || !slices.ContainsFunc(g.prompt.Tools, isBuiltin) {
		return
	}
	if g.spec.Family == models.Gemini {
		g.setServerSide(true)
		return
	}
	for _, t := range g.prompt.Tools {
		if isBuiltin(t) {
			g.notes.add(perigee.NoteDropped, "tool "+clip(t.Builtin)+" beside functions")
		}
	}
	g.prompt.Tools = slices.DeleteFunc(slices.Clone(g.prompt.Tools), isBuiltin)
	g.setServerSide(false)
}

// serverSide is the switch that lets the provider's own tools work beside functions.
const serverSide = "includeServerSideToolInvocations"

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
