package openai

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// Response is a Responses request that the rules accept.
type Response struct {
	Parsed *rules.Parsed
	Model  *Model
	Stream bool

	in         Input
	root       object
	name       string
	input      []any // items of this request
	keep       bool  // the answer is stored
	summary    bool  // the answer shows a summary of the thoughts
	encrypted  bool  // the answer has encrypted reasoning
	custom     map[string]bool
	namespaces map[string]string // of functions that have one
}

var responseMembers = []string{"access_programs", "background", "client_metadata", "context_management", "conversation", "include", "input", "instructions",
	"max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
	"prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature",
	"text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"}

var countMembers = []string{"conversation", "input", "instructions", "model", "parallel_tool_calls", "personality", "previous_response_id", "reasoning",
	"text", "tool_choice", "tools", "truncation"}

var includable = []string{"file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs", "reasoning.encrypted_content", "message.output_text.logprobs"}

// responseCheck is the reading of a Responses request.
type responseCheck struct {
	checker
	*Response
	names map[string]string // names of called tools, by call id
	calls map[string]string // calls without an output so far: call id to kind
}

// CheckResponse applies the rules of Responses, for an answer or only for a count of its tokens.
// Exactly one of its results is nil.
func CheckResponse(in Input, count bool) (*Response, *Error) {
	root, err := decode(in.Body)
	if err != nil {
		return nil, err
	}
	c := &responseCheck{checker: checker{profile: in.Profile}, names: map[string]string{}, calls: map[string]string{},
		Response: &Response{Parsed: &rules.Parsed{}, in: in, root: root, custom: map[string]bool{}, namespaces: map[string]string{}}}
	allowed := responseMembers
	if count {
		allowed = countMembers
	}
	c.known(root, "", allowed...)
	for _, step := range []func(){c.model, c.scalars, c.limits, c.thinking, c.format, c.tools, c.toolChoice, c.conversation, c.include} {
		if step(); c.err != nil {
			return nil, c.err
		}
	}
	return c.Response, nil
}

// Fits refuses the request if its prompt exceeds the context of the model.
func (c *Response) Fits(prompt int) *Error {
	e := fits(c.in.Profile, c.Model, "input", prompt)
	if e != nil && c.in.Profile.Limited {
		e.Message = "Your input exceeds the context window of this model. Please adjust your input and try again."
	}
	return e
}

func (c *responseCheck) model() {
	c.name = c.required(c.root, "", "model")
	if c.err != nil {
		return
	}
	if c.Model = c.profile.Model(c.name); c.Model == nil {
		e := noModel(c.name)
		if c.profile.Limited {
			e.Status, e.Param = 400, "model"
			e.Message = fmt.Sprintf("The requested model '%s' does not exist.", c.name)
		}
		c.fail(e)
	} else if c.Model.Embeds || c.Model.Draws {
		c.fail(unsupported("model", "unsupported_model", "The requested model '%s' cannot be used with the Responses API.", c.name))
	}
}

// scalars checks the types of members that change little.
func (c *responseCheck) scalars() {
	for _, name := range []string{"user", "safety_identifier", "prompt_cache_key", "previous_response_id"} {
		c.text(c.root, "", name)
	}
	for _, name := range []string{"parallel_tool_calls", "background"} {
		c.boolean(c.root, "", name)
	}
	c.Stream, _ = c.boolean(c.root, "", "stream")
	store, given := c.boolean(c.root, "", "store")
	c.keep = (store || !given) && !c.profile.Stateless
	c.Parsed.System = c.text(c.root, "", "instructions")
	c.Parsed.TextBytes += len(c.Parsed.System)
	if c.profile.Strict {
		c.oneOf(c.root, "", "truncation", "auto", "disabled")
		c.oneOf(c.root, "", "service_tier", "auto", "default", "flex", "scale", "priority", "fast")
		c.stringMap(c.root, "", "metadata")
		if c.root["stream_options"] != nil && !c.Stream {
			c.fail(objection("stream_options", "stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled."))
		}
	}
	c.integer(c.root, "", "top_logprobs", 0, 20)
	c.integer(c.root, "", "max_tool_calls", 1, 1<<53)
}

// limits reads the length of the answer and the sampling parameters.
func (c *responseCheck) limits() {
	low := 1.0
	if c.profile.Limited {
		low = 16
	}
	if n := c.integer(c.root, "", "max_output_tokens", low, 1<<53); n != nil {
		c.Parsed.Config.MaxTokens = *n
	}
	reasoning, _ := c.root["reasoning"].(object)
	limited := c.profile.Limited && c.Model.Thinks && reasoning["effort"] != "none"
	for _, name := range []string{"temperature", "top_p"} {
		high := map[string]float64{"temperature": 2, "top_p": 1}[name]
		if v := c.decimal(c.root, "", name, 0, high); v != nil && limited && *v != 1 {
			c.fail(unsupported(name, "unsupported_parameter", "Unsupported parameter: '%s' is not supported with this model.", name))
		}
	}
}

func (c *responseCheck) thinking() {
	reasoning := c.inner(c.root, "", "reasoning")
	c.known(reasoning, "reasoning", "effort", "summary", "generate_summary", "context", "mode")
	effort := c.oneOf(reasoning, "reasoning", "effort", efforts...)
	c.summary = c.oneOf(reasoning, "reasoning", "summary", "auto", "concise", "detailed") != ""
	for _, name := range []string{"effort", "summary"} {
		if reasoning[name] != nil && !c.Model.Thinks && c.profile.Limited && reasoning[name] != "none" {
			c.fail(unsupported("reasoning."+name, "unsupported_parameter", "Unsupported parameter: 'reasoning.%s' is not supported with this model.", name))
		}
	}
	if c.Model.NoEffort && effort != "" {
		c.fail(objection("reasoning_effort", "reasoning.effort", "Model %s does not support parameter reasoningEffort.", c.name))
	}
	c.Parsed.Config.Thinking.Include = c.Model.Thinks && effort != "none"
}

// format reads the format of the text.
func (c *responseCheck) format() {
	text := c.inner(c.root, "", "text")
	c.known(text, "text", "format", "verbosity")
	c.oneOf(text, "text", "verbosity", "low", "medium", "high")
	format := c.inner(text, "text", "format")
	if format == nil {
		return
	}
	kind := c.required(format, "text.format", "type")
	switch c.oneOf(format, "text.format", "type", "json_object", "json_schema", "text"); kind {
	case "json_object":
		c.Parsed.Config.ResponseMIME = "application/json"
		if c.profile.Strict && !strings.Contains(strings.ToLower(string(Encode(c.root["input"]))+c.Parsed.System), "json") {
			c.fail(objection("json_word", "input", "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."))
		}
	case "json_schema":
		c.known(format, "text.format", "type", "name", "description", "schema", "strict")
		c.schemaFormat(format, "text.format", "text.format.schema", c.Parsed)
	}
}

// include checks the list of extra output.
func (c *responseCheck) include() {
	for i, each := range c.array(c.root, "", "include") {
		name, ok := each.(string)
		switch {
		case !ok:
			c.fail(invalidType(at("include", i), "a string", each))
		case !slices.Contains(includable, name):
			c.fail(invalidValue(at("include", i), name, includable...))
		}
		c.encrypted = c.encrypted || name == "reasoning.encrypted_content"
	}
}

// tools reads the declared tools.
func (c *responseCheck) tools() {
	list := c.array(c.root, "", "tools")
	c.atMost(list, "tools", maxTools)
	for i, each := range list {
		c.tool(each, at("tools", i))
	}
}

var hostedTools = []string{"file_search", "computer", "computer_use_preview", "web_search", "web_search_2025_08_26", "web_search_preview",
	"web_search_preview_2025_03_11", "mcp", "code_interpreter", "programmatic_tool_calling", "image_generation", "local_shell", "shell", "tool_search", "apply_patch"}

var functionMembers = []string{"type", "name", "description", "parameters", "strict", "async", "defer_loading", "allowed_callers", "output_schema"}

// tool reads one tool.
func (c *responseCheck) tool(v any, path string) {
	o := c.object(v, path)
	kind := c.required(o, path, "type")
	switch {
	case c.err != nil:
	case kind == "function":
		c.known(o, path, functionMembers...)
		c.function(o, path, c.Parsed)
	case kind == "custom":
		c.known(o, path, "type", "name", "description", "format", "async", "defer_loading", "allowed_callers")
		c.customTool(o, path, c.Parsed, c.custom)
	case kind == "namespace":
		c.namespace(o, path)
	case slices.Contains(hostedTools, kind):
		c.Parsed.BuiltIns = append(c.Parsed.BuiltIns, kind)
	case c.profile.Strict:
		c.fail(invalidValue(path+".type", kind, append([]string{"function", "custom", "namespace"}, hostedTools...)...))
	}
}

// namespace reads a group of tools. Names may repeat in other groups.
func (c *responseCheck) namespace(o object, path string) {
	space := c.required(o, path, "name")
	c.known(o, path, "type", "name", "description", "tools")
	own := &rules.Parsed{}
	for i, each := range c.array(o, path, "tools") {
		where := at(path+".tools", i)
		tool := c.object(each, where)
		switch c.required(tool, where, "type") {
		case "function":
			c.function(tool, where, own)
		case "custom":
			c.customTool(tool, where, own, c.custom)
		}
		if c.err != nil {
			return
		}
	}
	for _, f := range own.Functions {
		if c.namespaces[f.Name] == "" {
			c.namespaces[f.Name] = space
			c.declare(f, c.Parsed)
		}
	}
}

func (c *responseCheck) toolChoice() {
	choice := c.root["tool_choice"]
	switch v := choice.(type) {
	case nil:
	case string:
		c.chooseMode(v, c.Parsed)
		if c.Parsed.ToolMode == "ANY" && len(c.Parsed.Functions) == 0 && len(c.Parsed.BuiltIns) == 0 {
			c.fail(objection("tool_choice", "tool_choice", "Tool choice 'required' must be specified with 'tools' parameter."))
		}
	case object:
		switch kind := c.required(v, "tool_choice", "type"); {
		case kind == "function" || kind == "custom":
			c.choose(c.required(v, "tool_choice", "name"), c.Parsed)
		case kind == "allowed_tools":
			c.allowed(v, "tool_choice", c.Parsed)
		case !slices.Contains(hostedTools, kind) && c.profile.Strict:
			c.fail(invalidValue("tool_choice.type", kind, append([]string{"function", "custom", "allowed_tools"}, hostedTools...)...))
		}
	default:
		c.fail(invalidType("tool_choice", "one of a string or object", v))
	}
}
