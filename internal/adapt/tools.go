package adapt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
)

// tools makes the declarations acceptable: legal names, each once, schemas that the provider reads,
// and built-in tools only where they are possible.
func (a *adapter) tools() {
	if a.draws() {
		a.withoutTools()
		if a.gateway {
			return
		}
	}
	a.leaveOut()
	for _, name := range a.names.Collect(&a.prompt) {
		a.notes.Add(perigee.NoteRenamed, "tool "+clip(name))
	}
	functions := a.declareOnce()
	if a.gateway {
		a.undo = Undo{names: a.names.back, object: true}
		functions += a.builtins(functions)
		a.declare(functions)
		a.calling(functions)
	} else {
		a.officialBuiltins(functions)
		a.officialCalling(functions)
	}
	if functions > 0 && a.spec.Family == models.Gemini2 {
		a.withoutJSON("beside tools")
	}
}

// withoutTools is for models that draw: they call nothing.
func (a *adapter) withoutTools() {
	if len(a.prompt.Tools) > 0 {
		a.notes.Dropped("tools")
	}
	a.prompt.Tools, a.prompt.ToolConfig = nil, nil
	a.withoutJSON("for an image model")
}

// leaveOut drops the functions that the provider is known to reject.
func (a *adapter) leaveOut() {
	if len(a.opts.WithoutTools) == 0 {
		return
	}
	a.prompt.Tools = slices.DeleteFunc(slices.Clone(a.prompt.Tools), func(t perigee.Tool) bool {
		if t.Function == nil || !a.opts.WithoutTools[t.Function.Name] {
			return false
		}
		a.notes.Dropped("tool " + clip(t.Function.Name) + ", whose schema the provider refuses")
		return true
	})
}

// declareOnce keeps each function once and under the name for the provider, and returns how many
// there are. Built-in tools stay where they are.
func (a *adapter) declareOnce() (functions int) {
	if len(a.prompt.Tools) == 0 {
		return 0
	}
	seen := make(map[string]bool, len(a.prompt.Tools))
	once := make([]perigee.Tool, 0, len(a.prompt.Tools))
	for _, tool := range a.prompt.Tools {
		if f := tool.Function; f != nil {
			switch {
			case f.Name == "":
				a.notes.Dropped("tool without a name")
				continue
			case seen[f.Name]:
				a.notes.Dropped("second declaration of tool " + clip(f.Name))
				continue
			}
			seen[f.Name] = true
			if wire := a.names.Wire(f.Name); wire != f.Name {
				renamed := *f
				renamed.Name = wire
				tool.Function = &renamed
			}
		}
		once = append(once, tool)
	}
	a.prompt.Tools = once
	return len(seen)
}

func isBuiltin(t perigee.Tool) bool { return t.Function == nil }

// declare gives each function the schema that the gateway reads, under the only name by which it
// does.
func (a *adapter) declare(functions int) {
	if functions == 0 {
		return
	}
	declared := make([]perigee.Function, 0, functions)
	for i := range a.prompt.Tools {
		if isBuiltin(a.prompt.Tools[i]) {
			continue
		}
		declared = append(declared, *a.prompt.Tools[i].Function)
		f := &declared[len(declared)-1]
		f.JSONSchema = false
		f.Extra = a.withResponse(f)
		if f.Parameters != nil || a.schemaFamily() == schema.Claude {
			a.parameters(f)
		}
		a.prompt.Tools[i].Function = f
	}
	if a.repairs(RepairSchemas) {
		reduceAll(declared)
	}
}

// calling sets whether the model may, must or must not call functions, as far as the gateway
// supports that. Claude's calls are always validated: otherwise their arguments may not fit the
// schema.
func (a *adapter) calling(functions int) {
	config := cmp.Or(a.prompt.ToolConfig, &perigee.ToolConfig{})
	next := perigee.ToolConfig{Extra: a.supported(config.Extra, "toolConfig.", toolConfigMembers)}
	a.supported(config.Calling, "toolConfig.functionCallingConfig.", nil)
	if functions > 0 {
		next.Mode, next.Allowed = a.choice(config)
	} else if strings.EqualFold(config.Mode, perigee.ToolModeAny) {
		a.notes.Dropped("tool choice without tools")
	}
	a.setToolConfig(next)
}

// setToolConfig replaces the tool config; an empty one is none.
func (a *adapter) setToolConfig(config perigee.ToolConfig) {
	a.prompt.ToolConfig = &config
	if config.Mode == "" && config.Allowed == nil && config.Calling == nil && len(config.Extra) == 0 {
		a.prompt.ToolConfig = nil
	}
}

// choice returns how the model may choose among functions.
func (a *adapter) choice(config *perigee.ToolConfig) (mode string, allowed []string) {
	mode = strings.ToUpper(config.Mode)
	switch mode {
	case perigee.ToolModeNone:
		return mode, nil
	case perigee.ToolModeAuto, perigee.ToolModeAny, perigee.ToolModeValidated:
	default:
		mode = ""
	}
	allowed = a.declaredOf(config.Allowed)
	if len(allowed) == 0 && len(config.Allowed) > 0 {
		a.notes.Dropped("choice of a tool that is not declared")
		if mode == perigee.ToolModeAny {
			mode = perigee.ToolModeAuto
		}
	}
	if a.search != nil && len(allowed) > 0 && mode != perigee.ToolModeAny {
		allowed = append(allowed, a.search.Name) // the client's choice does not concern search
	}
	switch {
	case a.claude():
		if mode == perigee.ToolModeAny {
			a.notes.Mapped("tool choice " + mode + " to " + perigee.ToolModeValidated)
		}
		mode = perigee.ToolModeValidated
	case len(allowed) > 0 && mode != perigee.ToolModeAny:
		mode = perigee.ToolModeValidated // the only other mode that may name functions
	}
	return mode, allowed
}

// declaredOf returns the provider's names of the functions that are declared, each once. names are
// the client's.
func (a *adapter) declaredOf(names []string) (list []string) {
	if len(names) == 0 {
		return nil
	}
	declared := make(map[string]bool, len(a.prompt.Tools))
	for _, t := range a.prompt.Tools {
		if t.Function != nil {
			declared[t.Function.Name] = true
		}
	}
	for _, name := range names {
		if wire := a.names.Wire(name); declared[wire] {
			list = append(list, wire)
			delete(declared, wire)
		}
	}
	return list
}

// serverSide is the member of the official API's tool config that allows built-in tools beside
// functions.
const serverSide = "includeServerSideToolInvocations"

// officialBuiltins decides whether the official API's built-in tools can stay beside functions:
// from generation 3 on they can, when the request allows it; before, only the functions stay,
// because the client cannot work without them.
func (a *adapter) officialBuiltins(functions int) {
	if functions == 0 || !slices.ContainsFunc(a.prompt.Tools, isBuiltin) {
		return
	}
	config := *cmp.Or(a.prompt.ToolConfig, &perigee.ToolConfig{})
	config.Extra = slices.DeleteFunc(slices.Clone(config.Extra), func(f perigee.Field) bool { return f.Name == serverSide })
	if a.spec.Family == models.Gemini {
		config.Extra = append(config.Extra, perigee.Field{Name: serverSide, Value: json.RawMessage("true")})
	} else {
		a.prompt.Tools = slices.DeleteFunc(a.prompt.Tools, func(t perigee.Tool) bool {
			if isBuiltin(t) {
				a.notes.Dropped("tool " + clip(builtinName(t.Builtin)) + " beside functions")
			}
			return isBuiltin(t)
		})
	}
	a.setToolConfig(config)
}

// officialCalling renames the functions that the model may call, and drops a choice among none.
func (a *adapter) officialCalling(functions int) {
	if a.prompt.ToolConfig == nil {
		return
	}
	config := *a.prompt.ToolConfig
	if functions == 0 && (config.Mode != "" || config.Allowed != nil || config.Calling != nil) {
		if config.Mode == perigee.ToolModeAny {
			a.notes.Dropped("tool choice without tools")
		}
		a.setToolConfig(perigee.ToolConfig{Extra: config.Extra})
		return
	}
	config.Allowed = slices.Clone(config.Allowed)
	for i, name := range config.Allowed {
		config.Allowed[i] = a.names.Wire(name)
	}
	a.prompt.ToolConfig = &config
}
