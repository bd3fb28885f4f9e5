package chat

import (
	"encoding/json"
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

func (d *decoder) tools() {
	for i := range d.c.Array() {
		d.tool(i)
	}
}

// functions reads the member that tools have replaced.
func (d *decoder) functions() {
	d.style.Functions = true
	for range d.c.Array() {
		d.prompt.Tools = append(d.prompt.Tools, perigee.Tool{Function: d.function("functions[].")})
	}
}

// tool reads one of tools: a function, a custom tool, or one of the provider's own under its name.
func (d *decoder) tool(i int) {
	var kind string
	var function *perigee.Function
	var cache *perigee.CacheMark
	custom, builtin := false, false
	for key := range d.c.Object() {
		if d.c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "type":
			kind = d.c.String()
		case "function":
			function = d.function("tools[].function.")
		case "custom":
			function, custom = d.customTool(), true
		case "google_search", "googleSearch":
			builtin = true
			d.builtin(perigee.BuiltinSearch, d.c.Raw())
		case "url_context", "urlContext":
			builtin = true
			d.builtin(perigee.BuiltinFetch, d.c.Raw())
		case "code_execution", "codeExecution":
			builtin = true
			d.builtin(perigee.BuiltinCode, d.c.Raw())
		case "name": // of the function, which has it, too; Codex before 0.90 writes it twice
		case "cache_control":
			cache = dialect.ReadCacheMark(d.c)
		default:
			d.notes.Unknown("tools[].", key)
		}
	}
	switch {
	case builtin:
	case function == nil || kind != "function" && kind != "custom" && kind != "":
		d.refuse(fmt.Sprintf("tools[%d]", i), "want a tool of type function or custom, found type %q", openai.Brief(kind))
	default:
		if custom {
			d.style.Custom = append(d.style.Custom, function.Name)
		}
		d.prompt.Tools = append(d.prompt.Tools, perigee.Tool{Function: function, Cache: cache})
	}
}

// builtin adds a built-in tool of the provider, once. Answers may then have sources.
func (d *decoder) builtin(name string, config json.RawMessage) {
	if len(config) == 0 || config[0] != '{' {
		config = json.RawMessage("{}")
	}
	d.style.Cite = true
	for _, t := range d.prompt.Tools {
		if t.Builtin == name {
			return
		}
	}
	d.prompt.Tools = append(d.prompt.Tools, perigee.Tool{Builtin: name, Config: config})
}

// function reads a declaration.
func (d *decoder) function(path string) *perigee.Function {
	f := &perigee.Function{JSONSchema: true}
	ignored := func() {}
	d.c.Read(d.notes.Rest(path), "name", &f.Name, "description", &f.Description, "parameters", &f.Parameters,
		"strict", &f.Strict, "cache_control", ignored)
	return f
}

// customTool reads a tool that takes free text and declares it as a function with one parameter. A
// grammar for the text becomes part of the parameter's description.
func (d *decoder) customTool() *perigee.Function {
	input := &perigee.CustomInput{}
	f := &perigee.Function{JSONSchema: true, Custom: input}
	d.c.Read(d.notes.Rest("tools[].custom."), "name", &f.Name, "description", &f.Description, "format", func() {
		d.c.Read(nil, "grammar", func() { input.Syntax, input.Definition = openai.ReadPair(d.c, "syntax", "definition") })
	})
	f.Parameters = openai.FreeText(input.Syntax, input.Definition)
	return f
}

// A toolChoice is the value of tool_choice.
type toolChoice struct {
	field   string
	mode    string
	allowed []string // nil if no names were given or required
}

// toolChoice reads tool_choice or the older function_call.
func (d *decoder) toolChoice(field string) {
	choice := toolChoice{field: field}
	if d.c.Kind() == rawjson.String {
		word := d.c.String()
		var ok bool
		if choice.mode, ok = openai.ToolModes[word]; !ok {
			d.refuse(field, "want auto, none, required, validated or an object, found %q", openai.Brief(word))
		}
		d.choice = choice
		return
	}
	choice.mode, choice.allowed = perigee.ToolModeAny, []string{}
	for key := range d.c.Object() {
		switch string(key) {
		case "type":
			switch kind := d.c.String(); kind {
			case "function", "custom", "allowed_tools":
			default:
				d.refuse(field+".type", "want function, custom or allowed_tools, found %q", openai.Brief(kind))
			}
		case "name": // of function_call
			choice.allowed = append(choice.allowed, d.c.String())
		case "function", "custom":
			choice.allowed = append(choice.allowed, d.toolName())
		case "allowed_tools":
			d.allowedTools(&choice)
		default:
			d.notes.Unknown(field+".", key)
		}
	}
	d.choice = choice
}

// allowedTools reads a choice among some of the tools. VALIDATED is the mode in which the model may
// answer with text, and may call only the allowed functions.
func (d *decoder) allowedTools(choice *toolChoice) {
	mode, add := "required", func() { choice.allowed = append(choice.allowed, d.toolName()) }
	d.c.Read(d.notes.Rest("tool_choice.allowed_tools."), "mode", &mode, "tools", func() {
		for range d.c.Array() {
			d.c.Read(d.notes.Rest("tool_choice.allowed_tools.tools[]."), "type", func() {}, "function", add, "custom", add)
		}
	})
	if mode != "required" {
		choice.mode = perigee.ToolModeValidated
	}
}

func (d *decoder) toolName() string {
	name, _ := openai.ReadPair(d.c, "name", "")
	return name
}

// checkChoice refuses a choice without a name, and of tools that the request does not have.
func (d *decoder) checkChoice() {
	if d.choice.allowed == nil {
		return
	}
	if len(d.choice.allowed) == 0 {
		d.refuse(d.choice.field, "want the name of a tool")
	}
	functions := map[string]bool{}
	for _, t := range d.prompt.Tools {
		if t.Function != nil {
			functions[t.Function.Name] = true
		}
	}
	for _, name := range d.choice.allowed {
		if !functions[name] {
			d.refuse(d.choice.field, "there is no tool %q in tools", openai.Brief(name))
		}
	}
}

// finishTools turns the choice into a tool config. Without functions there is nothing to choose
// among.
func (d *decoder) finishTools() {
	d.checkChoice()
	if !slices.ContainsFunc(d.prompt.Tools, func(t perigee.Tool) bool { return t.Function != nil }) {
		if d.choice.mode == perigee.ToolModeAny || d.choice.mode == perigee.ToolModeValidated {
			d.notes.Dropped(d.choice.field)
		}
		return
	}
	if d.choice.mode != "" {
		d.prompt.ToolConfig = &perigee.ToolConfig{Mode: d.choice.mode, Allowed: d.choice.allowed}
	}
}
