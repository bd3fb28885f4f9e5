package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A declaration is one element of tools with the members of all kinds side by side.
type declaration struct {
	kind        string
	name        string
	description string
	schema      []byte
	examples    []byte
	width       int64
	height      int64
	strict      *bool
	remote      bool // only code on Anthropic's servers may call it
	cache       *perigee.CacheMark
	limits      []string
}

func (d *decoder) tool(c *rawjson.Cursor) {
	var t declaration
	d.readDeclaration(c, &t)
	if c.Err() != nil {
		return
	}
	d.named = append(d.named, t.name)
	if t.remote {
		d.notes.Mapped("tools[].allowed_callers")
	}
	if t.kind == "" || t.kind == "custom" {
		d.declare(&t)
		return
	}
	if schema, description := clientTool(&t); schema != "" {
		t.schema, t.description = []byte(schema), description
		d.declare(&t)
		return
	}
	builtin := serverTool(t.kind)
	if builtin == "" {
		d.notes.Unknown("tools[] ", []byte(t.kind))
		return
	}
	for _, limit := range t.limits {
		d.notes.Dropped("tools[]." + limit)
	}
	d.prompt.Tools = append(d.prompt.Tools, perigee.Tool{Builtin: builtin, Config: []byte("{}"), Cache: t.cache})
}

func (d *decoder) readDeclaration(c *rawjson.Cursor, t *declaration) {
	c.Read(func(key []byte) {
		switch string(key) {
		case "max_uses", "allowed_domains", "blocked_domains", "user_location", "max_content_tokens", "url_sources", "max_characters":
			if c.Kind() != rawjson.Null {
				t.limits = append(t.limits, string(key))
			}
		case "cache_control":
			t.cache = dialect.ReadCacheMark(c)
		case "eager_input_streaming", "defer_loading", "display_number", "enable_zoom",
			"response_inclusion", "use_cache", "citations", "caching":
			// Arguments always come whole, and deferred tools are declared at once.
		case "model", "max_tokens", "configs", "default_config", "mcp_server_name", "tools":
			// They belong to kinds of tools that are noted as a whole.
		default:
			if c.Kind() != rawjson.Null {
				d.notes.Unknown("tools[].", key)
			}
		}
	}, "type", &t.kind, "name", &t.name, "description", &t.description, "input_schema", &t.schema, "input_examples", &t.examples,
		"strict", &t.strict, "display_width_px", &t.width, "display_height_px", &t.height, "allowed_callers", func() {
			t.remote = true
			for range c.Array() {
				t.remote = t.remote && string(c.Bytes()) != "direct"
			}
		})
}

// declare adds a function of the client.
func (d *decoder) declare(t *declaration) {
	f := &perigee.Function{Name: t.name, Description: t.description, Parameters: t.schema, JSONSchema: true, Strict: t.strict}
	if len(t.examples) > 0 && string(t.examples) != "[]" {
		d.notes.Mapped("tools[].input_examples")
		f.Description = labelled("", f.Description, "Examples of input: "+string(t.examples))
	}
	for _, limit := range t.limits {
		d.notes.Dropped("tools[]." + limit)
	}
	d.prompt.Tools = append(d.prompt.Tools, perigee.Tool{Function: f, Cache: t.cache})
}

// serverTool returns the name of a tool of Anthropic's servers that other providers have as well, or
// "" if none has it. The date at the end of kind does not matter.
func serverTool(kind string) string {
	switch {
	case strings.HasPrefix(kind, "web_search_"):
		return perigee.BuiltinSearch
	case strings.HasPrefix(kind, "web_fetch_"):
		return perigee.BuiltinFetch
	case strings.HasPrefix(kind, "code_execution_"):
		return perigee.BuiltinCode
	}
	return ""
}

// toolChange adds a tool in the middle of a conversation, or withdraws one.
func (d *decoder) toolChange(b *block) {
	d.inside(b.tool, "tool", func(c *rawjson.Cursor) {
		var kind, name string
		c.Read(nil, "type", &kind, "name", &name, "definition", func() { d.tool(c) })
		switch {
		case kind == "tool_definition":
		case kind != "tool_reference":
			d.notes.Dropped(string(b.kind) + " blocks")
		case d.removed == nil:
			d.removed = map[string]bool{name: string(b.kind) == "tool_removal"}
		default: // an addition of a tool that was declared anyway only undoes a removal
			d.removed[name] = string(b.kind) == "tool_removal"
		}
	})
}

// A choice is the value of tool_choice.
type choice struct{ kind, name string }

func (d *decoder) toolChoice(c *rawjson.Cursor) {
	c.Read(func(key []byte) { d.notes.Unknown("tool_choice.", key) },
		"type", &d.choice.kind, "name", &d.choice.name, "disable_parallel_tool_use", func() {
			if c.Bool() {
				d.prompt.Generation.ParallelCalls = new(false)
			}
		})
}

// finishTools applies tool_choice to the declared tools. The provider refuses a choice without
// functions.
func (d *decoder) finishTools() {
	if len(d.removed) > 0 {
		d.prompt.Tools = slices.DeleteFunc(d.prompt.Tools, func(t perigee.Tool) bool {
			return t.Function != nil && d.removed[t.Function.Name]
		})
	}
	config := &perigee.ToolConfig{}
	switch d.choice.kind {
	case "":
		return
	case "auto":
		config.Mode = perigee.ToolModeAuto
	case "any":
		config.Mode = perigee.ToolModeAny
	case "tool":
		config.Mode, config.Allowed = perigee.ToolModeAny, []string{d.choice.name}
	case "none":
		config.Mode = perigee.ToolModeNone
	default:
		d.fail(invalid("tool_choice.type: want auto, any, tool or none, found " + strconv.Quote(fieldName([]byte(d.choice.kind)))))
		return
	}
	if d.choice.kind == "tool" && !slices.Contains(d.named, d.choice.name) {
		d.fail(invalid("tool_choice: Tool '" + fieldName([]byte(d.choice.name)) + "' not found in provided tools"))
		return
	}
	possible := slices.ContainsFunc(d.prompt.Tools, func(t perigee.Tool) bool {
		return t.Function != nil && (d.choice.kind != "tool" || t.Function.Name == d.choice.name)
	})
	if possible {
		d.prompt.ToolConfig = config
	} else if d.choice.kind == "any" || d.choice.kind == "tool" {
		d.notes.Dropped("tool_choice")
	}
}
