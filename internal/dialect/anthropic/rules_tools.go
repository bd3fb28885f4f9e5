package anthropic

// declared is a tool with one more member.
func declared(member string) string {
	return `"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},` + member + `}]`
}

var toolRules = []rule{
	{"tools[].name", carried, "name", `"tools":[{"name":"f","input_schema":{"type":"object"}}]`},
	{"tools[].type=custom", carried, "a function", declared(`"type":"custom"`)},
	{"tools[].description", carried, "description", declared(`"type":null`)},
	{"tools[].input_schema", carried, "parametersJsonSchema", `"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}]`},
	{"tools[].input_examples", mapped, "at the end of the description", declared(`"input_examples":[{"a":1}]`)},
	{"tools[].cache_control", accepted, "the provider caches by itself", declared(`"cache_control":{"type":"ephemeral"}`)},
	{"tools[].strict", accepted, "the provider follows schemas as well as it can", declared(`"strict":true`)},
	{"tools[].eager_input_streaming", accepted, "input comes whole, as early as it is known", declared(`"eager_input_streaming":true`)},
	{"tools[].defer_loading", accepted, "the tool is declared at once", declared(`"defer_loading":true`)},
	{"tools[].allowed_callers", mapped, "a tool for code on Anthropic's servers is called directly", declared(`"allowed_callers":["code_execution_20250825"]`)},
	{"tool_choice.type=auto", carried, "mode AUTO", declared(`"type":"custom"`) + `,"tool_choice":{"type":"auto"}`},
	{"tool_choice.type=any", carried, "mode ANY", declared(`"type":"custom"`) + `,"tool_choice":{"type":"any"}`},
	{"tool_choice.type=tool", carried, "mode ANY with one allowed name", declared(`"type":"custom"`) + `,"tool_choice":{"type":"tool","name":"f"}`},
	{"tool_choice.type=none", carried, "mode NONE", declared(`"type":"custom"`) + `,"tool_choice":{"type":"none"}`},
	{"tool_choice.type=tool, a name that is not in tools", refused, "the error says so in the words of the API", declared(`"type":"custom"`) + `,"tool_choice":{"type":"tool","name":"g"}`},
	{"tool_choice.type, a word that the API has not", refused, "want auto, any, tool or none", declared(`"type":"custom"`) + `,"tool_choice":{"type":"required"}`},
	{"tool_choice", dropped, "without a function to choose: the provider decides about its own tools", `"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`},
	{"tool_choice.disable_parallel_tool_use", dropped, "the provider cannot be held to one call", declared(`"type":"custom"`) + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`},
}

var toolKindRules = []rule{
	{"tools[] web_search_20250305", carried, "googleSearch; searches and sources come back as server_tool_use, web_search_tool_result and citations", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`},
	{"tools[].max_uses", dropped, "the model decides how often", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}]`},
	{"tools[].allowed_domains", dropped, "the search is not limited", `"tools":[{"type":"web_search_20260209","name":"web_search","allowed_domains":["example.com"]}]`},
	{"tools[].blocked_domains", dropped, "the search is not limited", `"tools":[{"type":"web_search_20260318","name":"web_search","blocked_domains":["example.com"]}]`},
	{"tools[].user_location", dropped, "the provider takes no place", `"tools":[{"type":"web_search_20250305","name":"web_search","user_location":{"type":"approximate","city":"Bern"}}]`},
	{"tools[] web_fetch_20250910", carried, "urlContext", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`},
	{"tools[].max_content_tokens", dropped, "pages are not cut", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch","max_content_tokens":1000}]`},
	{"tools[].url_sources", dropped, "any address may be fetched", `"tools":[{"type":"web_fetch_20260318","name":"web_fetch","url_sources":{"type":"all"}}]`},
	{"tools[] code_execution_20250825", carried, "codeExecution; code and output come back as server_tool_use and code_execution_tool_result", `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`},
	{"tools[] bash_20250124", carried, "a function with the documented input", `"tools":[{"type":"bash_20250124","name":"bash"}]`},
	{"tools[] text_editor_20250728", carried, "a function with the documented input", `"tools":[{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}]`},
	{"tools[].max_characters", dropped, "the client cuts what it sends", `"tools":[{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":1000}]`},
	{"tools[] computer_20251124", carried, "a function with the documented input", `"tools":[{"type":"computer_20251124","name":"computer","display_width_px":1024,"display_height_px":768}]`},
	{"tools[] memory_20250818", carried, "a function with the documented input", `"tools":[{"type":"memory_20250818","name":"memory"}]`},
	{"tools[] tool_search_tool_regex_20251119", dropped, "all tools are declared at once", `"tools":[{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"}]`},
	{"tools[] tool_search_tool_bm25_20251119", dropped, "all tools are declared at once", `"tools":[{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"}]`},
	{"tools[] mcp_toolset", dropped, "the provider connects to no MCP servers", `"tools":[{"type":"mcp_toolset","mcp_server_name":"s"}]`},
	{"tools[] advisor_20260301", dropped, "a second model of Anthropic's", `"tools":[{"type":"advisor_20260301","name":"advisor","model":"claude-opus-4-6"}]`},
	{"tools[] computer_toolset_20260801", dropped, "its many tools are Claude's own", `"tools":[{"type":"computer_toolset_20260801"}]`},
	{"tools[] browser_toolset_20260801", dropped, "its many tools are Claude's own", `"tools":[{"type":"browser_toolset_20260801"}]`},
}
