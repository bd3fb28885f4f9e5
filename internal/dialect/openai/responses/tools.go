package responses

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A toolKind is the type of the item in which the client gets calls of a tool.
type toolKind uint8

const (
	functionTool toolKind = iota
	customTool            // takes free text
	searchTool            // tool_search: the client looks for more tools
)

// A tool is a tool of the client, and the single name under which the model gets it.
type tool struct {
	kind      toolKind
	namespace string
	name      string
	flat      string
}

// A toolSet has the tools of a request.
type toolSet struct {
	declared []perigee.Tool
	list     []tool
	byFlat   map[string]int

	// Indexes for namespaces and unknown names; nil until they are needed.
	byName   map[[2]string]int // namespace and name
	anywhere map[string]int    // name; the first tool of that name in any namespace
}

// defaultNamespace is the namespace that the vendor's models have all plain functions in. A call
// from there comes without a namespace.
const defaultNamespace = "functions"

// add adds a tool and returns it with its flat name. It returns nil if there is a tool with the
// same namespace and name.
func (t *toolSet) add(kind toolKind, namespace, name string) *tool {
	flat := flatName(namespace, name)
	if _, taken := t.byFlat[flat]; taken { // otherwise the tool and its name are new
		if t.exact(namespace, name) != nil {
			return nil
		}
		flat = t.unused(flat)
	}
	if t.byFlat == nil {
		t.byFlat = map[string]int{}
	}
	i := len(t.list)
	t.list = append(t.list, tool{kind, namespace, name, flat})
	t.byFlat[flat] = i
	if t.byName != nil {
		t.index(i)
	}
	return &t.list[i]
}

// unused returns a flat name that begins with base and that no tool has.
func (t *toolSet) unused(base string) string {
	for n := len(t.list); ; n++ {
		flat := base + "_" + strconv.Itoa(n)
		if _, taken := t.byFlat[flat]; !taken {
			return flat
		}
	}
}

// index lets a tool be found by its namespace and name.
func (t *toolSet) index(i int) {
	tool := &t.list[i]
	t.byName[[2]string{tool.namespace, tool.name}] = i
	if _, ok := t.anywhere[tool.name]; !ok {
		t.anywhere[tool.name] = i
	}
}

// exact returns the tool with this name in this namespace, or nil if there is none.
func (t *toolSet) exact(namespace, name string) *tool {
	if namespace == "" { // most tools have none, and are known to the model by their own name
		if i, ok := t.byFlat[name]; ok && t.list[i].namespace == "" && t.list[i].name == name {
			return &t.list[i]
		}
	}
	if t.byName == nil {
		t.byName, t.anywhere = map[[2]string]int{}, map[string]int{}
		for i := range t.list {
			t.index(i)
		}
	}
	if i, ok := t.byName[[2]string{namespace, name}]; ok {
		return &t.list[i]
	}
	return nil
}

// find returns the tool of a call, or nil if there is none. An empty namespace matches any.
func (t *toolSet) find(namespace, name string) *tool {
	if tool := t.exact(namespace, name); tool != nil {
		return tool
	}
	if i, ok := t.anywhere[name]; ok && namespace == "" {
		return &t.list[i]
	}
	return nil
}

func flatName(namespace, name string) string {
	if namespace == "" || namespace == defaultNamespace {
		return name
	}
	return namespace + "__" + name
}

// flat returns the name under which the model gets a tool.
func (t *toolSet) flat(namespace, name string) string {
	if tool := t.find(namespace, name); tool != nil {
		return tool.flat
	}
	return flatName(namespace, name)
}

// called returns the tool with a flat name. An unknown name is a function of that name.
func (t *toolSet) called(flat string) tool {
	if i, ok := t.byFlat[flat]; ok {
		return t.list[i]
	}
	return tool{name: flat, flat: flat}
}

// A declaration is one element of tools.
type declaration struct {
	kind, name, description, execution string
	parameters, format, tools          json.RawMessage
	strict                             *bool
	other                              []string
}

func readDeclaration(c *rawjson.Cursor) declaration {
	var t declaration
	ignored := func() {} // every tool is shown at once
	c.Read(func(key []byte) {
		if c.Kind() == rawjson.Null || string(key) == "external_web_access" && c.Bool() {
			return
		}
		t.other = append(t.other, string(key))
	}, "type", func() { t.kind = word(c) }, "name", &t.name, "description", &t.description, "execution", &t.execution,
		"parameters", func() { t.parameters = openai.OfKind(c, rawjson.Object) },
		"format", func() { t.format = openai.OfKind(c, rawjson.Object) },
		"tools", func() { t.tools = openai.OfKind(c, rawjson.Array) },
		"strict", &t.strict, "defer_loading", ignored)
	return t
}

// toolList reads an array of tools into a namespace.
func (d *decoder) toolList(c *rawjson.Cursor, namespace string) {
	for i := range c.Array() {
		t := readDeclaration(c)
		if c.Err() != nil || d.err != nil {
			return
		}
		if t.kind == "" || t.name == "" && (t.kind == "function" || t.kind == "custom" || t.kind == "namespace") {
			d.refuse(openai.Wrong(fmt.Sprintf("tools[%d]", i), "want a type, and a name where the type has one"))
			return
		}
		d.tool(&t, namespace)
	}
}

func (d *decoder) tool(t *declaration, namespace string) {
	where := "tools[]."
	switch {
	case t.kind == "function":
		d.declare(functionTool, namespace, &perigee.Function{
			Name: t.name, Description: t.description, Parameters: t.parameters, JSONSchema: true, Strict: t.strict,
		})
	case t.kind == "custom":
		d.declare(customTool, namespace, freeText(t))
	case t.kind == "tool_search" && t.execution == "client":
		d.notes.Mapped("tools[tool_search]")
		d.declare(searchTool, "", &perigee.Function{
			Name: "tool_search", Description: t.description, Parameters: t.parameters, JSONSchema: true,
		})
	case t.kind == "namespace" && namespace == "":
		where = "tools[namespace]."
		d.namespace(t)
	case strings.HasPrefix(t.kind, "web_search"):
		where = "tools[web_search]."
		d.webSearch()
	default:
		d.notes.Unknown("tools", []byte("["+openai.Brief(t.kind)+"]"))
		return
	}
	for _, name := range t.other {
		d.notes.Unknown(where, []byte(name))
	}
}

// declare declares a function to the model.
func (d *decoder) declare(kind toolKind, namespace string, f *perigee.Function) {
	tool := d.out.tools.add(kind, namespace, f.Name)
	if tool == nil {
		d.notes.Dropped("tools[] second " + openai.Brief(f.Name))
		return
	}
	if tool.flat != f.Name && namespace == "" {
		d.notes.Add(perigee.NoteRenamed, "tools[] "+openai.Brief(f.Name))
	}
	f.Name = tool.flat
	d.out.tools.declared = append(d.out.tools.declared, perigee.Tool{Function: f})
}

// namespace declares the tools of a group. The description of the group is added to the
// instructions once.
func (d *decoder) namespace(t *declaration) {
	if t.name != defaultNamespace {
		d.notes.Add(perigee.NoteRenamed, "tools[namespace] "+openai.Brief(t.name))
		if t.description != "" {
			d.instruct(perigee.Plain("Tools whose names begin with " + t.name + "__: " + t.description))
		}
	}
	if t.tools != nil {
		d.tools("tools["+openai.Brief(t.name)+"].tools", t.tools, t.name)
	}
}

func (d *decoder) webSearch() {
	d.out.searches = true
	if !slices.ContainsFunc(d.out.tools.declared, func(t perigee.Tool) bool { return t.Builtin == perigee.BuiltinSearch }) {
		d.out.tools.declared = append(d.out.tools.declared, perigee.Tool{Builtin: perigee.BuiltinSearch, Config: json.RawMessage("{}")})
	}
}

// freeText declares a tool that takes free text.
func freeText(t *declaration) *perigee.Function {
	input := &perigee.CustomInput{}
	if t.format != nil {
		input.Syntax, input.Definition = openai.ReadPair(rawjson.NewCursor(t.format), "syntax", "definition")
	}
	schema := openai.FreeText(input.Syntax, input.Definition)
	return &perigee.Function{Name: t.name, Description: t.description, Parameters: schema, JSONSchema: true, Custom: input}
}

// toolChoice reads which tools the model may, must or must not call, after all of them are known.
func (d *decoder) toolChoice() {
	if d.rawChoice == nil {
		return
	}
	c := rawjson.NewCursor(d.rawChoice)
	if c.Kind() == rawjson.String {
		word := c.String()
		switch mode, ok := openai.ToolModes[word]; {
		case !ok:
			d.refuse(openai.Wrong("tool_choice", "there is no choice %q", openai.Brief(word)).
				WithHint("use auto, none, required, validated or an object"))
		case mode != "":
			d.choose(mode, nil)
		}
		return
	}
	var kind, name, namespace, mode string
	var allowed []string
	c.Read(d.notes.Rest("tool_choice."), "type", &kind, "name", &name, "namespace", &namespace, "mode", &mode,
		"tools", func() { allowed = d.allowedTools(c) })
	if err := c.Err(); err != nil {
		d.err = invalidBody("tool_choice", err)
		return
	}
	switch kind {
	case "function", "custom":
		d.choose(perigee.ToolModeAny, []string{d.chosen(namespace, name)})
	case "allowed_tools":
		d.allow(mode, allowed)
	case "web_search", "web_search_preview", "web_search_preview_2025_03_11", "file_search", "code_interpreter", "image_generation",
		"computer", "computer_use", "computer_use_preview", "mcp", "shell", "local_shell", "apply_patch", "programmatic_tool_calling":
		// Tools of the vendor, and the search, which is up to the model.
		d.notes.Unknown("tool_choice", []byte("["+kind+"]"))
	default:
		d.refuse(openai.Wrong("tool_choice.type", "there is no choice of type %q", openai.Brief(kind)).
			WithHint("use function, custom, allowed_tools or the type of a tool of the vendor's"))
	}
}

// chosen returns the name under which the model gets a tool that the request chooses.
func (d *decoder) chosen(namespace, name string) string {
	if d.out.tools.find(namespace, name) == nil {
		d.refuse(openai.Wrong("tool_choice", "there is no tool %q in tools", openai.Brief(flatName(namespace, name))))
	}
	return d.out.tools.flat(namespace, name)
}

func (d *decoder) allowedTools(c *rawjson.Cursor) []string {
	allowed := []string{}
	for range c.Array() {
		var t tool
		var kind string
		c.Read(nil, "type", &kind, "name", &t.name, "namespace", &t.namespace)
		if kind != "function" && kind != "custom" {
			d.notes.Unknown("tool_choice.tools", []byte("["+openai.Brief(kind)+"]"))
			continue
		}
		allowed = append(allowed, d.chosen(t.namespace, t.name))
	}
	return allowed
}

// allow limits the model to some of the tools. If it may also answer with text, the remaining tools
// are not declared.
func (d *decoder) allow(mode string, allowed []string) {
	if mode == "required" {
		d.choose(perigee.ToolModeAny, allowed)
		return
	}
	want := map[string]bool{}
	for _, name := range allowed {
		want[name] = true
	}
	d.prompt.Tools = slices.DeleteFunc(slices.Clone(d.prompt.Tools), func(t perigee.Tool) bool {
		return t.Function != nil && !want[t.Function.Name]
	})
}

// choose sets the mode, where there are functions to choose among.
func (d *decoder) choose(mode string, allowed []string) {
	if !slices.ContainsFunc(d.prompt.Tools, func(t perigee.Tool) bool { return t.Function != nil }) {
		if mode != perigee.ToolModeNone {
			d.notes.Dropped("tool_choice")
		}
		return
	}
	d.prompt.ToolConfig = &perigee.ToolConfig{Mode: mode, Allowed: allowed}
}

// tools reads a list of tools at the path param.
func (d *decoder) tools(param string, raw json.RawMessage, namespace string) {
	c := d.doc.Value(raw)
	d.toolList(c, namespace)
	if err := c.Err(); err != nil {
		d.refuse(invalidBody(param, err))
	}
}
