package anthropic

import (
	"strings"
	"sync"
)

// The patterns of names, as errors quote them.
const (
	toolNamePattern = "^[a-zA-Z0-9_-]{1,128}$"
	callNamePattern = "^[a-zA-Z0-9_-]{1,200}$"
	callIDPattern   = "^[a-zA-Z0-9_-]+$"
)

// The prefixes of the betas that members and blocks belong to.
const (
	betaContext    = "context-management-"
	betaMCP        = "mcp-client-"
	betaFallbacks  = "server-side-fallback-"
	betaThreads    = "message-threads-"
	betaCompact    = "compact-"
	betaToolChange = "mid-conversation-tool-changes-|inline-tools-"
	betaAdvisor    = "advisor-tool-"
	betaMidSystem  = "mid-conversation-"
)

// schemaOf returns the declared members of the body of a method.
func schemaOf(m Method) shape {
	if m == Count {
		return countSchema()
	}
	return createSchema()
}

var createSchema = sync.OnceValue(func() shape {
	return recordOf(append(sharedMembers(),
		need("max_tokens", whole(0)),
		may("metadata", record(may("user_id", upTo(256)))),
		may("stop_sequences", list(str)),
		may("stream", boolean),
		may("temperature", between(0, 1)),
		may("top_k", whole(0)),
		may("top_p", between(0, 1)),
		may("service_tier", oneOf("auto", "standard_only")),
		may("container", anything),
		may("inference_geo", str),
		may("diagnostics", record(may("previous_message_id", str))),
		beta("fallbacks", betaFallbacks, anything),
		beta("fallback_credit_token", "fallback-credit-", anything),
		beta("thread", betaThreads, tagged(form("create"), form("continue", need("previous_message_id", str)))),
		beta("tags", "request-tags-", anything),
	))
})

var countSchema = sync.OnceValue(func() shape { return recordOf(sharedMembers()) })

// sharedMembers are the members of both methods.
func sharedMembers() []member {
	format := record(need("type", oneOf("json_schema")), need("schema", dictionary))
	effort := oneOf("low", "medium", "high", "xhigh", "max")
	display := oneOf("summarized", "omitted")
	binding := beta("block_binding", "thinking-binding-controls-", dictionary)
	parallel := may("disable_parallel_tool_use", boolean)
	message := record(
		need("role", oneOf("user", "assistant", "system")),
		need("content", textOr(tagged(blocks()...))),
		beta("clear_at", "mid-conversation-system-clear-at-", oneOf("never", "next_user_message")),
		beta("output_config", "mid-conversation-output-config-", record(may("effort", effort))),
	)
	return []member{
		need("model", str),
		need("messages", list(message)),
		may("system", textOr(record(need("type", oneOf("text")), need("text", str), cacheMember(), may("citations", anything)))),
		may("thinking", tagged(
			form("enabled", need("budget_tokens", whole(1024)), may("display", display), binding),
			form("disabled"),
			form("adaptive", may("display", display), binding),
		)),
		may("tools", list(tool)),
		may("tool_choice", tagged(form("auto", parallel), form("any", parallel), form("tool", need("name", str), parallel), form("none"))),
		may("output_config", record(may("effort", effort), may("format", format), beta("task_budget", "task-budgets-", dictionary))),
		cacheMember(),
		may("speed", oneOf("standard", "fast")),
		beta("context_management", betaContext, record(may("edits", list(dictionary)))),
		beta("compaction", betaCompact, anything),
		beta("mcp_servers", betaMCP, list(dictionary)),
		beta("output_format", "structured-outputs-", format),
	}
}

func cacheMember() member {
	return may("cache_control", tagged(form("ephemeral", may("ttl", oneOf("5m", "1h")))))
}

// blocks are the content blocks of a message.
func blocks() []variant {
	id := need("id", word(1<<10, callIDPattern))
	of := need("tool_use_id", word(1<<10, callIDPattern))
	result := func(tag string) variant {
		return form(tag, of, need("content", anything), cacheMember(), may("caller", anything), may("is_error", boolean))
	}
	call := func(tag string, more ...member) variant {
		return form(tag, append(more, id, need("name", word(200, callNamePattern)), need("input", dictionary), cacheMember(), may("caller", anything))...)
	}
	nested := textOr(tagged(append(media(), form("tool_reference", need("tool_name", str), cacheMember()))...))
	return append(media(),
		form("thinking", need("thinking", str), need("signature", str)),
		form("redacted_thinking", need("data", str)),
		call("tool_use", may("toolset_name", str)),
		form("tool_result", of, may("content", nested), may("is_error", boolean), cacheMember(), may("toolset_name", str)),
		call("server_tool_use"),
		result("web_search_tool_result"), result("web_fetch_tool_result"), result("code_execution_tool_result"),
		result("bash_code_execution_tool_result"), result("text_editor_code_execution_tool_result"), result("tool_search_tool_result"),
		form("container_upload", need("file_id", str), cacheMember()),
		result("advisor_tool_result").with(betaAdvisor),
		call("mcp_tool_use", need("server_name", str)).with(betaMCP),
		result("mcp_tool_result").with(betaMCP),
		form("compaction", may("content", str), cacheMember(), may("signature", str)).with(betaCompact),
		form("tool_addition", need("tool", dictionary), cacheMember()).with(betaToolChange),
		form("tool_removal", need("tool", dictionary), cacheMember()).with(betaToolChange),
		variant{tag: "fallback", shape: dictionary, beta: betaFallbacks},
	)
}

// media are the blocks that are also legal inside the result of a tool.
func media() []variant {
	text := form("text", need("text", str), cacheMember(), may("citations", list(dictionary)))
	image := form("image", cacheMember(), may("transformations", anything), need("source", tagged(
		form("base64", need("media_type", oneOf("image/jpeg", "image/png", "image/gif", "image/webp")), need("data", str)),
		form("url", need("url", str)),
		form("file", need("file_id", str)),
	)))
	document := form("document", cacheMember(), may("title", str), may("context", str), may("citations", record(may("enabled", boolean))),
		need("source", tagged(
			form("base64", need("media_type", oneOf("application/pdf")), need("data", str)),
			form("text", need("media_type", oneOf("text/plain")), need("data", str)),
			form("content", need("content", textOr(tagged(text, image)))),
			form("url", need("url", str)),
			form("file", need("file_id", str)),
		)))
	found := form("search_result", need("source", str), need("title", str), need("content", list(tagged(text))),
		cacheMember(), may("citations", record(may("enabled", boolean))))
	return []variant{text, image, document, found}
}

// serverTools are the tools that have their own type, by the start of the type.
var serverTools = []struct {
	prefix, beta string
	unnamed      bool
}{
	{prefix: "web_search_2"}, {prefix: "web_fetch_2"}, {prefix: "code_execution_2"}, {prefix: "bash_2"}, {prefix: "text_editor_2"},
	{prefix: "memory_2"}, {prefix: "tool_search_tool_bm25_2"}, {prefix: "tool_search_tool_regex_2"},
	{prefix: "browser_toolset_2", unnamed: true}, {prefix: "computer_toolset_2", unnamed: true},
	{prefix: "computer_2", beta: "computer-use-"}, {prefix: "advisor_2", beta: betaAdvisor}, {prefix: "mcp_toolset", beta: betaMCP, unnamed: true},
}

var customTool = sync.OnceValue(func() shape {
	return record(
		need("name", word(128, toolNamePattern)),
		need("input_schema", dictionary),
		may("type", oneOf("custom")),
		may("description", str),
		may("strict", boolean),
		may("defer_loading", boolean),
		may("eager_input_streaming", boolean),
		may("allowed_callers", list(str)),
		may("input_examples", list(dictionary)),
		cacheMember(),
	)
})

// tool checks a tool: a custom one exactly, one of the provider's by its type and its name.
func tool(w *walk, path string, n node) {
	kind := n.get("type").text()
	if n.kind() != '{' || kind == "" || kind == "custom" {
		customTool()(w, path+".custom", n)
		return
	}
	for _, known := range serverTools {
		if !strings.HasPrefix(kind, known.prefix) || known.beta != "" && !w.allowed(known.beta) {
			continue
		}
		if !known.unnamed && n.get("name").kind() != '"' {
			w.object("schema.required", join(path, kind)+".name", "Field required")
		}
		return
	}
	w.object("schema.tag", path, "Input tag '%s' found using 'type' does not match any of the expected tags", kind)
}
