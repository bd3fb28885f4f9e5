package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const nameRule = "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$`) })

func validName(name string) bool { return namePattern().MatchString(name) }

// declare spells a request with one function of the given parameters, for examples.
func declare(parameters string) string {
	return `{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":` + parameters + `}]}]}`
}

// toolRules check declared functions and the other tools of a request.
func toolRules() []Rule {
	const validated = `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`
	empty := strings.TrimSuffix(declare(`{"type":"object","properties":{}}`), `}`) + validated + `}`
	filled := strings.TrimSuffix(declare(`{"type":"object","properties":{"p":{"type":"string"}}}`), `}`) + validated + `}`
	return []Rule{
		{Name: "tools.name", Section: "4.5", Step: 11, check: checkToolNames,
			Pass: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"mcp.server:read-file"}]}]}`),
			Fail: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"ok"},{"name":"1st/tool"}]}]}`),
			Text: "* GenerateContentRequest.tools[0].function_declarations[1].name: " + nameRule},
		{Name: "tools.duplicate", Section: "4.5", Step: 11, check: checkDuplicates,
			Pass: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"functionDeclarations":[{"name":"g"}]}]}`),
			Fail: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"functionDeclarations":[{"name":"f"}]}]}`),
			Text: "Duplicate function declaration found: f"},
		{Name: "tools.mixed", Section: "5.3", Step: 11, check: checkMixed,
			Pass: internal(`{` + hi + `,"tools":[{"googleSearch":{}},{"urlContext":{}}]}`),
			Fail: internal(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"googleSearch":{}}]}`),
			Text: "Tool use with function calling is unsupported"},
		{Name: "tools.mixed_undeclared", Section: "5.3", Step: 11, check: checkMixedBeta,
			Pass: beta(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"googleSearch":{}}],"toolConfig":{"includeServerSideToolInvocations":true}}`),
			Fail: beta(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"googleSearch":{}}]}`),
			Text: "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling."},
		{Name: "tools.mixed_vertex", Section: "5.3", Step: 11, check: checkMixedVertex,
			Pass: onVertex(`{` + hi + `,"tools":[{"googleSearch":{}},{"urlContext":{}}]}`),
			Fail: onVertex(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"googleSearch":{}}]}`),
			Text: "Multiple tools are supported only when they are all search tools."},
		{Name: "tools.two_schemas", Section: "6.2", Step: 11, check: checkTwoSchemas,
			Pass: beta(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":["object"],"$schema":"x"}}]}]}`),
			Fail: beta(`{` + hi + `,"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object"},"parametersJsonSchema":{"type":"object"}}]}]}`),
			Text: "* GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema: parameters_json_schema must not be set when parameters is set"},
		{Name: "tools.schema_required", Section: "6.1", Step: 11, check: checkSchemas(requiredErrors),
			Pass: internal(declare(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)),
			Fail: internal(declare(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]}`)),
			Text: "* GenerateContentRequest.tools[0].function_declarations[0].parameters.required[1]: property is not defined"},
		{Name: "tools.schema_items", Section: "6.1", Step: 11, check: checkSchemas(itemsErrors),
			Pass: internal(declare(`{"type":"object","properties":{"a":{"type":"ARRAY","items":{"type":"STRING"}}}}`)),
			Fail: internal(declare(`{"type":"object","properties":{"a":{"type":"ARRAY"}}}`)),
			Text: "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[a].items: missing field"},
		{Name: "tools.claude_empty_schema", Section: "4.6", Step: 11, check: checkEmptySchema,
			Pass: onClaude(filled),
			Fail: onClaude(empty),
			Text: "tools.0.custom.input_schema.properties: Input should have at least one property when the mode is VALIDATED"},
	}
}

// eachFunction visits the declarations with their place.
func (r *request) eachFunction(visit func(tool, index int, declaration *node)) {
	for i, tool := range r.root.list("tools") {
		for j, f := range tool.list("functionDeclarations") {
			visit(i, j, &f)
		}
	}
}

func checkToolNames(r *request) *Refusal {
	var errs fieldErrors
	r.eachFunction(func(i, j int, f *node) {
		if !validName(f.text("name")) {
			errs.add(nameRule, "tools[%d].function_declarations[%d].name", i, j)
		}
	})
	return errs.refusal()
}

func checkDuplicates(r *request) *Refusal {
	seen := map[string]bool{}
	for _, f := range r.parsed.Functions {
		if seen[f.Name] {
			return refuse("Duplicate function declaration found: " + f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// mixed reports whether there are both functions and a tool that the provider runs itself.
func (r *request) mixed() bool {
	grounding := slices.ContainsFunc(r.parsed.BuiltIns, func(name string) bool {
		return name == "googleSearch" || name == "googleSearchRetrieval" || name == "urlContext"
	})
	return grounding && len(r.parsed.Functions) > 0
}

func checkMixed(r *request) *Refusal {
	if r.in.Surface == V1Internal && r.mixed() {
		return refuse("Tool use with function calling is unsupported")
	}
	return nil
}

func checkMixedVertex(r *request) *Refusal {
	if r.in.Surface != Vertex || !r.mixed() {
		return nil
	}
	return refuse("Multiple tools are supported only when they are all search tools.")
}

func checkMixedBeta(r *request) *Refusal {
	if r.in.Surface != V1Beta || !r.mixed() {
		return nil
	}
	if on := r.root.get("toolConfig").get("includeServerSideToolInvocations"); on != nil && string(on.raw) == "true" {
		return nil
	}
	return refuse("Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.")
}

func checkTwoSchemas(r *request) *Refusal {
	var errs fieldErrors
	r.eachFunction(func(i, j int, f *node) {
		if f.get("parameters") != nil && f.get("parametersJsonSchema") != nil {
			errs.add("parameters_json_schema must not be set when parameters is set", "tools[%d].function_declarations[%d].parameters_json_schema", i, j)
		}
	})
	return errs.refusal()
}

// checkSchemas applies a check to every schema of the request, tools' and answer's, at every depth.
func checkSchemas(check func(schema *node, path string, errs *fieldErrors)) func(*request) *Refusal {
	return func(r *request) *Refusal {
		var errs fieldErrors
		r.eachFunction(func(i, j int, f *node) {
			path := fmt.Sprintf("tools[%d].function_declarations[%d].", i, j)
			eachSchema(f.get("parameters"), path+"parameters", &errs, check)
			eachSchema(f.get("response"), path+"response", &errs, check)
		})
		eachSchema(r.root.get("generationConfig").get("responseSchema"), "generation_config.response_schema", &errs, check)
		return errs.refusal()
	}
}

// eachSchema ends by itself: the walker has limited the depth.
func eachSchema(n *node, path string, errs *fieldErrors, check func(*node, string, *fieldErrors)) {
	if n == nil {
		return
	}
	check(n, path, errs)
	eachSchema(n.get("items"), path+".items", errs, check)
	if properties := n.get("properties"); properties != nil {
		for i, name := range properties.keys {
			eachSchema(&properties.items[i], path+".properties["+name+"]", errs, check)
		}
	}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		for i, branch := range n.list(union) {
			eachSchema(&branch, fmt.Sprintf("%s.%s[%d]", path, snakeCase(union), i), errs, check)
		}
	}
}

func requiredErrors(schema *node, path string, errs *fieldErrors) {
	required := schema.list("required")
	if len(required) == 0 {
		return
	}
	known := map[string]bool{}
	if properties := schema.get("properties"); properties != nil {
		for _, name := range properties.keys {
			known[name] = true
		}
	}
	for i, name := range texts(required) {
		if !known[name] {
			errs.add("property is not defined", "%s.required[%d]", path, i)
		}
	}
}

func itemsErrors(schema *node, path string, errs *fieldErrors) {
	if strings.EqualFold(schema.text("type"), "array") && schema.get("items") == nil {
		errs.add("missing field", "%s.items", path)
	}
}

func checkEmptySchema(r *request) *Refusal {
	if r.in.Model.Family != Claude || r.in.Surface != V1Internal || r.parsed.ToolMode != "VALIDATED" {
		return nil
	}
	var refusal *Refusal
	count := 0
	r.eachFunction(func(_, _ int, f *node) {
		schema := f.get("parameters")
		properties := schema.get("properties")
		if refusal == nil && (!strings.EqualFold(schema.text("type"), "object") || properties == nil || len(properties.items) == 0) {
			refusal = refuse(fmt.Sprintf("tools.%d.custom.input_schema.properties: Input should have at least one property when the mode is VALIDATED", count))
		}
		count++
	})
	return refusal
}
