package anthropic

import (
	"fmt"
	"slices"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// toolRules check declared tools and the choice among them.
func toolRules() []Rule {
	withTools := func(choice string) Example { return asked(declared + `,"tool_choice":` + choice) }
	schema := func(s string) Example { return asked(`"tools":[{"name":"f","input_schema":` + s + `}]`) }
	return []Rule{
		{Name: "tools.unique", Section: "13", check: checkUnique,
			Pass: asked(declared), Fail: asked(`"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`),
			Text: "tools: Tool names must be unique."},
		{Name: "tools.type", Section: "13", check: checkSchemaType,
			Pass: schema(`{"type":"object","properties":{}}`), Fail: schema(`{"type":"array"}`),
			Text: "tools.0.custom.input_schema.type: Input should be 'object'"},
		{Name: "tools.union", Section: "13", check: checkSchemaUnion,
			Pass: schema(`{"type":"object","properties":{"a":{"anyOf":[]}}}`), Fail: schema(`{"type":"object","anyOf":[]}`),
			Text: "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"},
		{Name: "tools.strict", Section: "13", check: checkStrict,
			Pass: asked(`"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","additionalProperties":false}}]`),
			Fail: asked(`"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}]`),
			Text: "tools.0.custom: For 'object' type, 'additionalProperties' must be explicitly set to false"},
		{Name: "tool_choice.tools", Section: "3.2", check: checkChoice,
			Pass: withTools(`{"type":"any"}`), Fail: asked(`"tool_choice":{"type":"auto"}`),
			Text: "tool_choice may only be specified while providing tools."},
		{Name: "tool_choice.name", Section: "13", check: checkChosen,
			Pass: withTools(`{"type":"tool","name":"f"}`), Fail: withTools(`{"type":"tool","name":"g"}`),
			Text: "Tool 'g' not found in provided tools"},
		{Name: "tool_choice.thinking", Section: "3.3", check: checkForced,
			Pass: asked(declared + `,"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`),
			Fail: asked(declared + `,"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024}`),
			Text: "Thinking may not be enabled when tool_choice forces tool use."},
	}
}

func (t Tool) custom() bool { return t.Type == "" || t.Type == "custom" }

func checkUnique(r *Request) *Refusal {
	seen := map[string]bool{}
	for _, t := range r.Tools {
		if t.Name != "" && seen[t.Name] {
			return invalid("", "tools: Tool names must be unique.")
		}
		seen[t.Name] = true
	}
	return nil
}

func checkSchemaType(r *Request) *Refusal {
	for i, t := range r.Tools {
		switch kind := t.node.get("input_schema").get("type"); {
		case !t.custom() || kind.text() == "object":
		case kind.kind() == 0:
			return invalid("", "tools.%d.custom.input_schema.type: Field required", i)
		default:
			return invalid("", "tools.%d.custom.input_schema.type: Input should be 'object'", i)
		}
	}
	return nil
}

func checkSchemaUnion(r *Request) *Refusal {
	for i, t := range r.Tools {
		for _, key := range t.node.get("input_schema").keys {
			if key == "oneOf" || key == "allOf" || key == "anyOf" {
				return invalid("", "tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
			}
		}
	}
	return nil
}

func checkStrict(r *Request) *Refusal {
	for i, t := range r.Tools {
		if t.custom() && t.node.get("strict").isTrue() && open(t.node.get("input_schema")) {
			return invalid("", "tools.%d.custom: For 'object' type, 'additionalProperties' must be explicitly set to false", i)
		}
	}
	return nil
}

func checkChoice(r *Request) *Refusal {
	if len(r.Tools) == 0 && r.Choice != "" && r.Choice != "none" {
		return invalid("", "tool_choice may only be specified while providing tools.")
	}
	return nil
}

func checkChosen(r *Request) *Refusal {
	if r.Choice == "tool" && !slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == r.Chosen }) {
		return invalid("", "Tool '%s' not found in provided tools", r.Chosen)
	}
	return nil
}

func checkForced(r *Request) *Refusal {
	if r.Thinking.Type == "enabled" && (r.Choice == "any" || r.Choice == "tool") {
		return invalid("", "Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

// cacheRules check the breakpoints of the prompt cache.
func cacheRules() []Rule {
	marked := func(ttl string) string {
		return `{"type":"text","text":"a","cache_control":{"type":"ephemeral"` + ttl + `}}`
	}
	five := marked("") + "," + marked("") + "," + marked("") + "," + marked("")
	return []Rule{
		{Name: "cache.count", Section: "3.6", check: checkMarks,
			Pass: asked("", user(five)), Fail: asked(`"system":[`+marked("")+`]`, user(five)),
			Text: "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{Name: "cache.order", Section: "3.6", check: checkMarkOrder,
			Pass: asked(`"system":[`+marked(`,"ttl":"1h"`)+`]`, user(marked(""))), Fail: asked(`"system":[`+marked("")+`]`, user(marked(`,"ttl":"1h"`))),
			Text: "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."},
		{Name: "cache.automatic", Section: "3.6", check: checkAutomatic,
			Pass: asked(`"cache_control":{"type":"ephemeral"}`, user(marked(""))), Fail: asked(`"cache_control":{"type":"ephemeral","ttl":"1h"}`, user(marked(""))),
			Text: "cache_control: the last block has a cache_control with a different ttl"},
	}
}

// mark is a breakpoint of the prompt cache.
type mark struct {
	path string
	ttl  string
}

func markOf(path string, n node) []mark {
	given := n.get("cache_control")
	if !given.given() {
		return nil
	}
	ttl := given.get("ttl").text()
	if ttl == "" {
		ttl = "5m"
	}
	return []mark{{path, ttl}}
}

// marks lists the breakpoints on blocks in the order of the prompt.
func (r *Request) marks() []mark {
	var out []mark
	for i, t := range r.Tools {
		out = append(out, markOf(fmt.Sprintf("tools.%d", i), t.node)...)
	}
	for i, n := range r.root.get("system").kids {
		out = append(out, markOf(fmt.Sprintf("system.%d", i), n)...)
	}
	for i, m := range r.Messages {
		for j, b := range m.Blocks {
			path := fmt.Sprintf("messages.%d.content.%d", i, j)
			for k, inner := range b.Result {
				out = append(out, markOf(fmt.Sprintf("%s.content.%d", path, k), inner.node)...)
			}
			out = append(out, markOf(path, b.node)...)
		}
	}
	return out
}

// lastMark returns the breakpoint on the last block of the request, if it has one.
func (r *Request) lastMark() []mark {
	if len(r.Messages) == 0 {
		return nil
	}
	blocks := r.Messages[len(r.Messages)-1].Blocks
	if len(blocks) == 0 {
		return nil
	}
	return markOf("", blocks[len(blocks)-1].node)
}

const maxMarks = 4

func checkMarks(r *Request) *Refusal {
	n := len(r.marks())
	if r.root.get("cache_control").given() && len(r.lastMark()) == 0 {
		n++
	}
	if n > maxMarks {
		return invalid("", "A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, n)
	}
	return nil
}

func checkMarkOrder(r *Request) *Refusal {
	short := false
	for _, m := range r.marks() {
		if m.ttl == "1h" && short {
			return invalid("", "%s.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.", m.path)
		}
		short = short || m.ttl == "5m"
	}
	return nil
}

func checkAutomatic(r *Request) *Refusal {
	if whole, last := markOf("", r.root), r.lastMark(); len(whole) > 0 && len(last) > 0 && whole[0].ttl != last[0].ttl {
		return invalid("", "cache_control: the last block has a cache_control with a different ttl")
	}
	return nil
}
