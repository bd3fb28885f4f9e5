package replay

import "fmt"

// The rules of this file keep requests valid for the dialects while parts of them are left out. The
// dialects use different names for the same things, so the rules hold for all of them at once.

// required are members that are never left out: the dialects require them, so every request without
// one fails in another way.
var required = set("model", "messages", "contents", "input", "role", "type", "name", "content", "parts", "function", "functionDeclarations",
	"function_declarations", "id", "call_id", "tool_call_id", "tool_use_id", "arguments", "args", "output", "response", "max_tokens",
	"input_schema", "text", "source", "data", "media_type", "mimeType", "mime_type", "fileUri", "file_uri", "inlineData", "inline_data",
	"image_url", "url", "functionCall", "function_call", "functionResponse", "function_response", "requests", "thinking", "signature")

// free are members with values that the dialect does not define: schemas, and arguments and results
// of functions. Everything in them may be left out.
var free = set("parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema", "responseSchema", "response_schema",
	"responseJsonSchema", "schema", "args", "response", "metadata")

// nonempty are arrays that keep at least one element.
var nonempty = set("messages", "contents", "input", "content", "parts", "requests", "system")

// removedIfEmpty are arrays that are left out with their last element.
var removedIfEmpty = set("tools", "tool_calls", "required", "propertyOrdering", "functionDeclarations", "function_declarations", "enum",
	"anyOf", "oneOf", "allOf", "stop", "stop_sequences", "safetySettings")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// A document is a request with the links between its nodes.
type document struct {
	root  *node
	links map[string][]*node // calls of functions and their results, by the id of the call
	named map[*node][]*node  // by property of a schema, the elements of required and the like with its name
	free  map[*node]bool     // values inside free members
}

func newDocument(root *node) *document {
	d := &document{root: root, links: map[string][]*node{}, named: map[*node][]*node{}, free: map[*node]bool{}}
	root.walk(func(n *node) bool {
		if n.parent != nil {
			name := n.name()
			// A function call of Anthropic has its arguments in input, which is the conversation
			// elsewhere.
			d.free[n] = d.free[n.parent] || free[name] || name == "input" && n.kind == object
		}
		if n.kind != object {
			return true
		}
		if d.free[n] {
			d.nameProperties(n)
		} else if id := linkOf(n); id != "" {
			d.links[id] = append(d.links[id], n)
		}
		return true
	})
	d.pairByPosition(root.member("contents"))
	return d
}

// linkOf returns the id that links a function call and its result, or "" if the value is neither.
func linkOf(n *node) string {
	for _, name := range []string{"tool_call_id", "tool_use_id", "call_id"} {
		if id := n.member(name).string(); id != "" {
			return id
		}
	}
	switch kind := n.member("type").string(); kind {
	case "function", "tool_use", "server_tool_use", "mcp_tool_use":
		return n.member("id").string()
	}
	for _, name := range []string{"functionCall", "function_call", "functionResponse", "function_response"} {
		if inner := n.member(name); inner != nil && inner.kind == object {
			return inner.member("id").string()
		}
	}
	return ""
}

// nameProperties records which elements of required and propertyOrdering name the properties of a
// schema.
func (d *document) nameProperties(schema *node) {
	properties := schema.member("properties")
	if properties == nil || properties.kind != object {
		return
	}
	for _, list := range []*node{schema.member("required"), schema.member("propertyOrdering")} {
		if list == nil || list.kind != array {
			continue
		}
		for _, element := range list.list {
			if property := properties.member(element.string()); property != nil {
				d.named[property] = append(d.named[property], element)
			}
		}
	}
}

// pairByPosition links the calls of functions in Gemini's dialect with their results where they
// have no ids: the results are in the content after the calls, in the same order.
func (d *document) pairByPosition(contents *node) {
	if contents == nil || contents.kind != array {
		return
	}
	parts := func(content *node, names ...string) (list []*node) {
		if content.kind != object {
			return nil
		}
		all := content.member("parts")
		if all == nil {
			return nil
		}
		for _, part := range all.list {
			for _, name := range names {
				if inner := part.member(name); inner != nil && linkOf(part) == "" {
					list = append(list, part)
				}
			}
		}
		return list
	}
	for i := 0; i+1 < len(contents.list); i++ {
		calls := parts(contents.list[i], "functionCall", "function_call")
		results := parts(contents.list[i+1], "functionResponse", "function_response")
		for j := range min(len(calls), len(results)) {
			d.links[fmt.Sprintf("\x00%d %d", i, j)] = []*node{calls[j], results[j]}
		}
	}
}

// removable reports whether a child of a value may be left out on its own.
func (d *document) removable(n *node) bool {
	return n.parent.kind == array || d.free[n.parent] || !required[n.name()]
}

// complete leaves out nodes that are invalid without the nodes that are left out already.
func (d *document) complete(v version) {
	for changed := true; changed; {
		changed = false
		remove := func(n *node) {
			if v.has(n) {
				v.without[n], changed = true, true
			}
		}
		for _, linked := range d.links {
			gone := false
			for _, n := range linked {
				gone = gone || !v.has(n)
			}
			for _, n := range linked {
				if gone {
					remove(n)
				}
			}
		}
		for property, elements := range d.named {
			for _, element := range elements {
				if v.without[property] {
					remove(element)
				}
			}
		}
		d.root.walk(func(n *node) bool {
			if v.without[n] {
				return false
			}
			if n.kind == array && len(n.list) > 0 && n.parent != nil && len(v.children(n)) == 0 {
				d.emptied(n, remove)
			}
			return true
		})
		d.dropChoice(v, remove)
	}
}

// emptied leaves out an array that lost its last element: alone where it is optional, with the
// message that it belongs to where it is not.
func (d *document) emptied(n *node, remove func(*node)) {
	switch name := n.name(); {
	case removedIfEmpty[name] && !d.free[n] && (name == "functionDeclarations" || name == "function_declarations"):
		remove(n.parent)
	case name == "tool_calls" && !d.free[n]:
		if said := n.parent.member("content"); said == nil || said.kind == literal { // the message has no other content
			remove(n.parent)
			return
		}
		remove(n)
	case removedIfEmpty[name]:
		remove(n)
	case nonempty[name] && !d.free[n] && n.parent != d.root && n.parent.parent != nil && n.parent.parent.kind == array:
		remove(n.parent)
	}
}

// dropChoice leaves out the tool choice if there are no tools, or if the tool that it names is left
// out.
func (d *document) dropChoice(v version, remove func(*node)) {
	tools := d.root.member("tools")
	for _, name := range []string{"tool_choice", "toolConfig", "tool_config", "parallel_tool_calls"} {
		choice := d.root.member(name)
		if choice == nil || tools == nil {
			continue
		}
		if v.without[tools] {
			remove(choice)
			continue
		}
		wanted := choice.member("name").string()
		if function := choice.member("function"); wanted == "" && function != nil {
			wanted = function.member("name").string()
		}
		if wanted != "" && !offered(v, tools, wanted) {
			remove(choice)
		}
	}
}

// offered reports whether a tool is among those that are left.
func offered(v version, tools *node, name string) (found bool) {
	tools.walk(func(n *node) bool {
		if v.without[n] {
			return false
		}
		found = found || n.kind == object && n.member("name").string() == name
		return !found
	})
	return found
}
