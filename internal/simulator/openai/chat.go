package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// Input is a request to check, and its caller.
type Input struct {
	Profile *Profile
	Body    []byte
	Org     string // of the API key; sealed reasoning is bound to it
	Sealer  Sealer
	Store   *Store // of responses; Chat does not need it
}

// Chat is a Chat Completions request that the rules accept.
type Chat struct {
	Parsed *rules.Parsed
	Model  *Model
	Stream bool

	in           Input
	name         string        // of the model, as requested
	shows        reasoningForm // where the answer has its thoughts
	includeUsage bool
	continuous   bool            // usage in every chunk
	custom       map[string]bool // names of tools that take text
	legacy       bool            // functions instead of tools
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

var chatMembers = []string{"messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
	"max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty",
	"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed",
	"service_tier", "stop", "store", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
	"verbosity", "web_search_options"}

// chatCheck is the reading of a Chat request.
type chatCheck struct {
	checker
	*Chat
	root  object
	names map[string]string // names of called functions, by call id
}

// CheckChat applies the rules of Chat Completions. Exactly one of its results is nil.
func CheckChat(in Input) (*Chat, *Error) {
	root, err := decode(in.Body)
	if err != nil {
		return nil, err
	}
	c := &chatCheck{checker: checker{profile: in.Profile}, root: root, names: map[string]string{},
		Chat: &Chat{Parsed: &rules.Parsed{}, in: in, custom: map[string]bool{}}}
	for _, step := range []func(){c.model, c.unknownMembers, c.sampling, c.lengths, c.format, c.stream, c.tools, c.toolChoice, c.thinking, c.messages, c.scalars} {
		if step(); c.err != nil {
			return nil, c.err
		}
	}
	return c.Chat, nil
}

// Fits refuses the request if its prompt exceeds the context of the model.
func (c *Chat) Fits(prompt int) *Error {
	return fits(c.in.Profile, c.Model, "messages", prompt)
}

func fits(p *Profile, m *Model, param string, prompt int) *Error {
	if m.Context == 0 || prompt <= m.Context || p.Truncates {
		return nil
	}
	e := tooLong(param, prompt, m.Context)
	switch p.Errors {
	case errorRouter:
		e.Message = fmt.Sprintf("This endpoint's maximum context length is %d tokens. However, you requested about %d tokens. Please reduce the length of either one, or use the context-compression plugin.", m.Context, prompt)
	case errorFlat:
		e.Message, e.Code = fmt.Sprintf("Prompt contains %d tokens, too large for model with %d maximum context length", prompt, m.Context), "3051"
	case errorText:
		e.Message = fmt.Sprintf("This model's maximum prompt length is %d but the request contains %d tokens.", m.Context, prompt)
	case errorLlama:
		e.Message = fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", prompt, m.Context)
	}
	return e
}

func (c *chatCheck) model() {
	c.name = c.required(c.root, "", "model")
	if c.err != nil {
		return
	}
	if c.Model = c.profile.Model(c.name); c.Model == nil {
		c.fail(noModel(c.name))
	} else if c.Model.Embeds || c.Model.Draws {
		c.fail(&Error{Status: 404, Type: invalidRequest, Param: "model", Rule: "model_kind",
			Message: "This is not a chat model and thus not supported in the v1/chat/completions endpoint."})
	}
}

func (c *chatCheck) unknownMembers() {
	c.refusedMembers(c.root)
	if !c.profile.Strict {
		return
	}
	var unknown []string
	for name := range c.root {
		if !slices.Contains(chatMembers, name) || name == "reasoning_effort" && !c.Model.Thinks {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	switch len(unknown) {
	case 0:
	case 1:
		c.fail(objection("unknown_parameter", "", "Unrecognized request argument supplied: %s", unknown[0]))
	default:
		c.fail(objection("unknown_parameter", "", "Unrecognized request arguments supplied: %s", strings.Join(unknown, ", ")))
	}
}

// sampling reads temperature and the like. Reasoning models of OpenAI take the defaults only, unless
// they do not reason.
func (c *chatCheck) sampling() {
	values := []struct {
		name            string
		low, high, only float64
	}{{"temperature", 0, 2, 1}, {"top_p", 0, 1, 1}, {"presence_penalty", -2, 2, 0}, {"frequency_penalty", -2, 2, 0}}
	limited := c.profile.Limited && c.Model.Thinks && c.root["reasoning_effort"] != "none"
	for _, each := range values {
		v := c.decimal(c.root, "", each.name, each.low, each.high)
		if v != nil && limited && *v != each.only {
			c.fail(unsupported(each.name, "unsupported_value", "Unsupported value: '%s' does not support %v with this model. Only the default (%v) value is supported.", each.name, *v, each.only))
		}
	}
}

// lengths reads the limits of the answer.
func (c *chatCheck) lengths() {
	old, current := c.integer(c.root, "", "max_tokens", 1, 1<<53), c.integer(c.root, "", "max_completion_tokens", 1, 1<<53)
	if old != nil && c.profile.Limited && c.Model.Thinks {
		c.fail(unsupported("max_tokens", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."))
	}
	if old != nil && current != nil && c.profile.Limited {
		c.fail(unsupported("max_tokens", "invalid_parameter_combination", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."))
	}
	if current != nil && !c.profile.NoChoice {
		c.Parsed.Config.MaxTokens = *current
	} else if old != nil {
		c.Parsed.Config.MaxTokens = *old
	}
	if n := c.integer(c.root, "", "n", 1, 128); n != nil && !c.profile.NoChoice {
		c.Parsed.Config.CandidateCount = *n
	}
	c.Parsed.Config.Stop = c.stops(c.root["stop"])
}

func (c *chatCheck) stops(given any) []string {
	switch v := given.(type) {
	case nil:
	case string:
		return []string{v}
	case []any:
		if limit := cmp.Or(c.profile.MaxStop, 4); limit > 0 {
			c.atMost(v, "stop", limit)
		}
		var stops []string
		for i, each := range v {
			stop, ok := each.(string)
			if !ok {
				c.fail(invalidType(at("stop", i), "a string", each))
			}
			stops = append(stops, stop)
		}
		return stops
	default:
		c.fail(invalidType("stop", "one of a string or array of strings", v))
	}
	return nil
}

// format reads response_format.
func (c *chatCheck) format() {
	format := c.inner(c.root, "", "response_format")
	if format == nil {
		return
	}
	kind := c.required(format, "response_format", "type")
	switch c.oneOf(format, "response_format", "type", "json_object", "json_schema", "text"); kind {
	case "json_object":
		c.Parsed.Config.ResponseMIME = "application/json"
		if c.profile.Strict && !strings.Contains(strings.ToLower(string(Encode(c.root["messages"]))), "json") {
			c.fail(objection("json_word", "messages", "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."))
		}
	case "json_schema":
		if format["json_schema"] == nil {
			c.fail(missing("response_format.json_schema"))
			return
		}
		inner := c.inner(format, "response_format", "json_schema")
		c.known(inner, "response_format.json_schema", "name", "description", "schema", "strict")
		c.schemaFormat(inner, "response_format.json_schema", "response_format", c.Parsed)
	}
}

// schemaFormat reads the name and the schema of a structured output.
func (c *checker) schemaFormat(o object, path, param string, into *rules.Parsed) {
	name := c.required(o, path, "name")
	c.toolName(name, join(path, "name"))
	schema := c.inner(o, path, "schema")
	if schema == nil {
		c.fail(missing(join(path, "schema")))
		return
	}
	if strict, _ := c.boolean(o, path, "strict"); strict {
		if problem := strictProblem(schema, nil); problem != "" {
			c.fail(objection("strict_schema", param, "Invalid schema for response_format '%s': %s", name, problem))
		}
	}
	into.Config.ResponseMIME, into.Config.ResponseJSON = "application/json", Encode(schema)
}

func (c *chatCheck) stream() {
	c.Stream, _ = c.boolean(c.root, "", "stream")
	options := c.inner(c.root, "", "stream_options")
	if options == nil {
		return
	}
	if !c.Stream && c.profile.Strict {
		c.fail(objection("stream_options", "stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled."))
	}
	c.known(options, "stream_options", "include_usage", "include_obfuscation")
	c.includeUsage, _ = c.boolean(options, "stream_options", "include_usage")
	c.continuous, _ = c.boolean(options, "stream_options", "continuous_usage_stats")
	c.continuous = c.continuous && c.includeUsage && c.profile.Stops
}

// thinking decides whether the model thinks and whether the answer shows it.
func (c *chatCheck) thinking() {
	values := efforts
	if c.profile.Efforts != nil {
		values = c.profile.Efforts
	}
	effort := c.oneOf(c.root, "", "reasoning_effort", values...)
	if effort != "" {
		switch {
		case c.Model.NoEffort:
			c.fail(objection("reasoning_effort", "reasoning_effort", "Model %s does not support parameter reasoningEffort.", c.name))
		case c.Model.Alone && c.profile.Limited && effort != "none" && len(c.Parsed.Functions) > 0:
			c.fail(objection("reasoning_effort_with_tools", "reasoning_effort", "Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. Please use /v1/responses instead.", c.name))
		case !c.Model.Thinks && c.profile.Errors == errorFlat:
			c.fail(objection("reasoning_effort", "reasoning_effort", "reasoning_effort is not enabled for this model"))
		}
	}
	on := c.Model.Thinks && effort != "none"
	shown := true
	if thinking := c.inner(c.root, "", "thinking"); thinking != nil && c.text(thinking, "thinking", "type") == "disabled" {
		on = false
	}
	if reasoning := c.inner(c.root, "", "reasoning"); reasoning != nil {
		enabled, given := c.boolean(reasoning, "reasoning", "enabled")
		if c.oneOf(reasoning, "reasoning", "effort", efforts...) == "none" || given && !enabled {
			on = false
		}
		exclude, _ := c.boolean(reasoning, "reasoning", "exclude")
		shown = !exclude
	}
	if include, given := c.boolean(c.root, "", "include_reasoning"); given {
		shown = shown && include
	}
	if kwargs := c.inner(c.root, "", "chat_template_kwargs"); kwargs != nil {
		if enabled, given := c.boolean(kwargs, "chat_template_kwargs", "enable_thinking"); given {
			on = c.Model.Thinks && enabled
		}
	}
	c.Parsed.Config.Thinking.Include = on
	if on && shown {
		c.shows = c.reasoningFormat()
	}
}

// reasoningFormat returns where the thoughts are, which Groq lets the request choose.
func (c *chatCheck) reasoningFormat() reasoningForm {
	form := c.profile.shows(c.Model)
	if c.profile.Usage != usageGroq {
		return form
	}
	structured := len(c.Parsed.Functions) > 0 || c.Parsed.Config.ResponseMIME != ""
	switch format := c.oneOf(c.root, "", "reasoning_format", "parsed", "raw", "hidden"); {
	case format == "raw" && structured:
		c.fail(objection("reasoning_format", "reasoning_format", "`reasoning_format` must be `parsed` or `hidden` when using tools or JSON mode"))
	case format == "hidden":
		return reasoningHidden
	case format == "raw":
		return reasoningTags
	case format == "parsed" || structured:
		return reasoningField
	}
	return form
}

// scalars checks the types of members that change nothing here.
func (c *chatCheck) scalars() {
	for _, name := range []string{"user", "safety_identifier", "prompt_cache_key"} {
		c.text(c.root, "", name)
	}
	for _, name := range []string{"store", "logprobs", "parallel_tool_calls"} {
		c.boolean(c.root, "", name)
	}
	c.integer(c.root, "", "seed", -1<<63, 1<<63)
	c.integer(c.root, "", "top_logprobs", 0, 20)
	c.inner(c.root, "", "logit_bias")
	if c.profile.Strict {
		c.oneOf(c.root, "", "service_tier", "auto", "default", "flex", "scale", "priority", "fast")
		c.oneOf(c.root, "", "verbosity", "low", "medium", "high")
		c.stringMap(c.root, "", "metadata")
		if c.root["top_logprobs"] != nil && c.root["logprobs"] != true {
			c.fail(objection("top_logprobs", "top_logprobs", "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled."))
		}
		if c.root["parallel_tool_calls"] != nil && len(c.Parsed.Functions) == 0 {
			c.fail(objection("parallel_tool_calls", "parallel_tool_calls", "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."))
		}
	}
}
