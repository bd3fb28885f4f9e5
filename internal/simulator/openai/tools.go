package openai

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/simulator/rules"
)

const (
	maxTools      = 128
	maxNameSize   = 64
	maxChatID     = 40 // of a call in Chat
	maxResponseID = 64 // of a call in Responses
)

// toolName refuses names that do not match ^[a-zA-Z0-9_-]{1,64}$.
func (c *checker) toolName(name, path string) {
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			continue
		}
		c.fail(badValue(path, "invalid_value", "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."))
		return
	}
	if name == "" {
		c.fail(badValue(path, "empty_string", "empty string. Expected a string with minimum length 1, but got an empty string instead."))
	}
	c.shorter(name, path, maxNameSize)
}

// shorter refuses a string that is too long.
func (c *checker) shorter(text, path string, limit int) {
	if n := utf8.RuneCountInString(text); n > limit {
		c.fail(badValue(path, "string_above_max_length", "string too long. Expected a string with maximum length %d, but got a string with length %d instead.", limit, n))
	}
}

// called checks the name and the id of a call in the history.
func (c *checker) called(call *rules.Call, namePath, idPath string, limit int) {
	if c.err == nil && c.profile.Limited {
		c.toolName(call.Name, namePath)
		c.shorter(call.ID, idPath, limit)
	}
}

// tools reads tools, or the older functions.
func (c *chatCheck) tools() {
	list := c.array(c.root, "", "tools")
	c.atMost(list, "tools", maxTools)
	if list != nil && len(list) == 0 && c.profile.Strict {
		c.fail(badValue("tools", "empty_array", "empty array. Expected an array with minimum length 1, but got an empty array instead."))
	}
	for i, each := range list {
		path := at("tools", i)
		tool := c.object(each, path)
		kind := c.required(tool, path, "type")
		switch {
		case c.err != nil:
			return
		case kind == "function":
			c.known(tool, path, "type", "function")
			if tool["function"] == nil {
				c.fail(missing(path + ".function"))
				return
			}
			c.function(c.inner(tool, path, "function"), path+".function", c.Parsed)
		case kind == "custom" && c.profile.Strict:
			if tool["custom"] == nil {
				c.fail(missing(path + ".custom"))
				return
			}
			c.customTool(c.inner(tool, path, "custom"), path+".custom", c.Parsed, c.custom)
		case c.profile.Strict:
			c.fail(invalidValue(path+".type", kind, "function", "custom"))
		}
	}
	functions := c.array(c.root, "", "functions")
	c.legacy = len(functions) > 0
	for i, each := range functions {
		c.function(c.object(each, at("functions", i)), at("functions", i), c.Parsed)
	}
}

// function reads the declaration of a function.
func (c *checker) function(o object, path string, into *rules.Parsed) {
	name := c.required(o, path, "name")
	if c.err != nil {
		return
	}
	c.toolName(name, join(path, "name"))
	c.unique(name, path, into)
	f := rules.Function{Name: name, Description: c.text(o, path, "description"), JSONSchema: true}
	strict, _ := c.boolean(o, path, "strict")
	if parameters := c.inner(o, path, "parameters"); parameters != nil {
		problem := ""
		if c.profile.Strict {
			problem = schemaProblem(parameters, nil)
		}
		if kind := parameters["type"]; kind != "object" && c.profile.Strict {
			if kind == nil {
				kind = "None"
			}
			problem = fmt.Sprintf("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'.", kind)
		}
		if strict && problem == "" {
			problem = strictProblem(parameters, nil)
		}
		if problem != "" {
			c.fail(&Error{Status: 400, Type: invalidRequest, Param: join(path, "parameters"), Code: "invalid_function_parameters", Rule: "invalid_function_parameters",
				Message: fmt.Sprintf("Invalid schema for function '%s': %s", name, problem)})
		}
		f.Parameters = Encode(parameters)
	}
	c.declare(f, into)
}

// customTool reads the declaration of a tool that takes text. The model sees a function with one
// string.
func (c *checker) customTool(o object, path string, into *rules.Parsed, custom map[string]bool) {
	name := c.required(o, path, "name")
	if c.err != nil {
		return
	}
	c.toolName(name, join(path, "name"))
	c.unique(name, path, into)
	if format := c.inner(o, path, "format"); format != nil {
		kind := c.required(format, join(path, "format"), "type")
		c.oneOf(format, join(path, "format"), "type", "text", "grammar")
		grammar := format
		if inner, ok := format["grammar"].(object); ok {
			grammar = inner
		}
		if kind == "grammar" {
			c.required(grammar, join(path, "format"), "definition")
			c.required(grammar, join(path, "format"), "syntax")
			c.oneOf(grammar, join(path, "format"), "syntax", "lark", "regex")
		}
	}
	custom[name] = true
	c.declare(rules.Function{Name: name, Description: c.text(o, path, "description"), JSONSchema: true,
		Parameters: []byte(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)}, into)
}

func (c *checker) unique(name, path string, into *rules.Parsed) {
	if slices.ContainsFunc(into.Functions, func(f rules.Function) bool { return f.Name == name }) && !c.profile.Keyless {
		c.fail(objection("duplicate_tool", join(path, "name"), "Invalid '%s': tool names must be unique, but '%s' is used more than once.", join(path, "name"), name))
	}
}

func (c *checker) declare(f rules.Function, into *rules.Parsed) {
	into.Functions = append(into.Functions, f)
	into.TextBytes += len(f.Name) + len(f.Description) + len(f.Parameters)
}

// toolChoice reads tool_choice, or the older function_call.
func (c *chatCheck) toolChoice() {
	if choice := c.root["function_call"]; choice != nil && c.legacy {
		if named, ok := choice.(object); ok {
			c.Parsed.ToolMode, c.Parsed.AllowedNames = "ANY", []string{c.required(named, "function_call", "name")}
		} else if choice == "none" {
			c.Parsed.ToolMode = "NONE"
		}
	}
	choice := c.root["tool_choice"]
	if choice == nil || c.profile.NoChoice {
		return
	}
	if len(c.Parsed.Functions) == 0 && c.profile.Strict {
		c.fail(objection("tool_choice", "tool_choice", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."))
		return
	}
	switch v := choice.(type) {
	case string:
		c.chooseMode(v, c.Parsed)
	case object:
		c.chooseNamed(v)
	default:
		c.fail(invalidType("tool_choice", "one of a string or object", v))
	}
}

// chooseMode sets the mode for a word.
func (c *checker) chooseMode(word string, into *rules.Parsed) {
	values := c.profile.Choices
	if values == nil {
		values = []string{"none", "auto", "required"}
	}
	if !slices.Contains(values, word) {
		c.fail(invalidValue("tool_choice", word, values...))
	}
	into.ToolMode = map[string]string{"none": "NONE", "required": "ANY", "any": "ANY"}[word]
}

// chooseNamed sets the mode for an object that names tools.
func (c *chatCheck) chooseNamed(choice object) {
	kind := c.required(choice, "tool_choice", "type")
	switch c.oneOf(choice, "tool_choice", "type", "function", "custom", "allowed_tools"); kind {
	case "function", "custom":
		inner := c.inner(choice, "tool_choice", kind)
		if inner == nil {
			c.fail(missing("tool_choice." + kind))
			return
		}
		c.choose(c.required(inner, "tool_choice."+kind, "name"), c.Parsed)
	case "allowed_tools":
		inner := c.inner(choice, "tool_choice", "allowed_tools")
		c.allowed(inner, "tool_choice.allowed_tools", c.Parsed)
	}
	if c.profile.Choices != nil {
		c.fail(invalidValue("tool_choice", "function", c.profile.Choices...))
	}
}

// allowed reads the list of allowed tools.
func (c *checker) allowed(o object, path string, into *rules.Parsed) {
	mode := c.required(o, path, "mode")
	c.oneOf(o, path, "mode", "auto", "required")
	into.ToolMode = map[string]string{"required": "ANY"}[mode]
	for i, each := range c.array(o, path, "tools") {
		tool := c.object(each, at(path+".tools", i))
		if inner, ok := tool["function"].(object); ok {
			tool = inner
		}
		if name, ok := tool["name"].(string); ok {
			into.AllowedNames = append(into.AllowedNames, name)
		}
	}
}

// choose demands a call of one function.
func (c *checker) choose(name string, into *rules.Parsed) {
	into.ToolMode, into.AllowedNames = "ANY", []string{name}
	if !slices.ContainsFunc(into.Functions, func(f rules.Function) bool { return f.Name == name }) {
		c.fail(objection("tool_choice", "tool_choice", "Tool choice '%s' not found in 'tools' parameter.", name))
	}
}

// context writes the place in a schema as OpenAI does.
func context(path []string) string {
	quoted := make([]string, len(path))
	for i, p := range path {
		quoted[i] = "'" + p + "'"
	}
	if len(quoted) == 1 {
		return "(" + quoted[0] + ",)"
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// schemaProblem returns what every schema of a function must not have, or "".
func schemaProblem(schema object, path []string) string {
	switch schema["type"] {
	case "object":
		if _, ok := schema["properties"].(object); !ok && len(path) == 0 && schema["$ref"] == nil {
			return fmt.Sprintf("In context=%s, object schema missing properties.", context(path))
		}
	case "array":
		if schema["items"] == nil && schema["prefixItems"] == nil {
			return fmt.Sprintf("In context=%s, array schema missing items.", context(path))
		}
	}
	return below(schema, path, schemaProblem)
}

// strictProblem returns what a strict schema must not have, or "".
func strictProblem(schema object, path []string) string {
	properties, isObject := schema["properties"].(object)
	if isObject || schema["type"] == "object" {
		if schema["additionalProperties"] != false {
			return fmt.Sprintf("In context=%s, 'additionalProperties' is required to be supplied and to be false.", context(path))
		}
		required, _ := schema["required"].([]any)
		for _, name := range sortedKeys(properties) {
			if !slices.Contains(required, any(name)) {
				return fmt.Sprintf("In context=%s, 'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", context(path), name)
			}
		}
	}
	return below(schema, path, strictProblem)
}

// below applies a check to the schemas inside a schema.
func below(schema object, path []string, check func(object, []string) string) string {
	visit := func(v any, names ...string) string {
		if inner, ok := v.(object); ok && len(path) < 64 {
			return check(inner, slices.Concat(path, names))
		}
		return ""
	}
	for _, group := range []string{"properties", "$defs", "definitions"} {
		named, _ := schema[group].(object)
		for _, name := range sortedKeys(named) {
			if problem := visit(named[name], group, name); problem != "" {
				return problem
			}
		}
	}
	if problem := visit(schema["items"], "items"); problem != "" {
		return problem
	}
	for _, group := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := schema[group].([]any)
		for i, each := range list {
			if problem := visit(each, group, fmt.Sprint(i)); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func sortedKeys(o object) []string {
	var keys []string
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
