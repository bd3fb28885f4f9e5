package openai

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/simulator/completion"
)

// Profile is one server with this API: what it refuses, and how its answers differ from OpenAI's.
// The zero value of each field is OpenAI's way, except for Strict.
type Profile struct {
	Name   string
	About  string   // for the list of profiles
	Bases  []string // prefixes of its paths, besides /v1
	Models []Model

	Strict    bool // refuses members that the API does not have
	Limited   bool // reasoning models refuse max_tokens and sampling parameters
	Keyless   bool // needs no key unless keys are configured
	AnyModel  bool // serves the first model under every name
	Truncates bool // cuts prompts that are too long, silently
	Stateless bool // /responses stores nothing
	NoReplies bool // no /responses
	Public    bool // lists its models without a key, and describes a key at GET /key

	Reasoning reasoningForm
	Details   bool // reasoning_details beside the reasoning
	// KeepReasoning refuses a request with tools in which an assistant message with calls has lost its
	// reasoning_content.
	KeepReasoning bool

	WholeCalls bool // a tool call is one delta
	NoIndex    bool // deltas of tool calls have no index
	EmptyNames bool // later deltas of a tool call have an empty name
	CallPrefix string
	CallLength int  // of an id after its prefix; 24 if 0
	CheckIDs   bool // refuses ids of other forms in the history

	Usage   usagePlace
	Native  bool   // native_finish_reason, provider and cost
	Filters bool   // content filter results
	Stops   bool   // stop_reason
	Timings bool   // timings
	Comment string // a comment before the first event
	Errors  errorForm
	Choices []string // values of tool_choice; auto, none and required if nil
	MaxStop int      // elements of stop; 4 if 0, any number if negative
	Efforts []string // values of reasoning_effort; all if nil

	NoChoice    bool // ignores tool_choice, n and max_completion_tokens
	NoImageURLs bool // takes images as data only

	Refused map[string]string // top-level members that it refuses, with the message
}

// Model is a model of a profile.
type Model struct {
	ID         string
	Owner      string
	Context    int // tokens; 0 means no limit
	Thinks     bool
	NoEffort   bool // refuses reasoning_effort
	Alone      bool // refuses reasoning_effort together with function tools on Chat
	Forgets    bool // refuses reasoning_content in the history
	Embeds     bool
	Draws      bool
	Dimensions int     // of its embeddings
	Extra      members // of its entry in the list
	reasoning  reasoningForm
}

// reasoningForm is where an answer has its thoughts.
type reasoningForm string

const (
	reasoningHidden  reasoningForm = ""
	reasoningField   reasoningForm = "reasoning"
	reasoningContent reasoningForm = "reasoning_content"
	reasoningParts   reasoningForm = "parts" // content is an array with parts of type thinking
	reasoningTags    reasoningForm = "tags"  // in the text, between <think> and </think>
)

// usagePlace is where a stream has its usage.
type usagePlace int

const (
	usageAsked  usagePlace = iota // in a last chunk without choices, if the request asks for it
	usageAlways                   // in a last chunk with an empty delta
	usageFinish                   // in the chunk with the finish reason
	usageEvery                    // in every chunk
	usageGroq                     // in x_groq of the chunk with the finish reason
)

// errorForm is the form of an error body.
type errorForm int

const (
	errorObject    errorForm = iota // {"error":{"message","type","param","code"}}
	errorShort                      // the same without param, and mostly without code
	errorRouter                     // {"error":{"message","code":400,"metadata"}}
	errorFlat                       // {"object":"error","message","type","param","code"}
	errorText                       // {"code":"…","error":"…"}
	errorFireworks                  // {"error":"…"} for 401 and 403, else an object
	errorVLLM                       // an object with an integer code and names of Python classes
	errorLlama                      // an object with an integer code, and sizes if the prompt is too long
)

const (
	million  = 1_047_576
	standard = 400_000
)

var profiles = []Profile{
	{Name: "openai", About: "OpenAI: refuses unknown members, and max_tokens and sampling parameters of reasoning models; reasoning is hidden on Chat and sealed on Responses",
		Strict: true, Limited: true, Models: openAIModels},
	{Name: "azure", About: "Azure OpenAI: as openai, with the api-key header, /openai/v1, content filter results and 400 content_filter",
		Bases: []string{"/openai/v1"}, Strict: true, Limited: true, Filters: true, Models: openAIModels},
	{Name: "openrouter", About: "OpenRouter: reasoning and reasoning_details, a comment before the data, usage with cost, numbers as error codes; lists models without a key, GET /key describes it",
		Bases: []string{"/api/v1"}, Reasoning: reasoningField, Details: true, Usage: usageAlways, Native: true, Stateless: true, Public: true,
		Comment: "OPENROUTER PROCESSING", Errors: errorRouter, Models: []Model{
			{ID: "anthropic/claude-sonnet-5", Thinks: true, Context: 1_000_000, Extra: routed("Anthropic: Claude Sonnet 5", 1_000_000)},
			{ID: "openai/gpt-5.4", Thinks: true, Context: standard, Extra: routed("OpenAI: GPT-5.4", standard)},
			{ID: "deepseek/deepseek-v4-pro", Thinks: true, Context: 131_072, Extra: routed("DeepSeek: V4 Pro", 131_072)},
			{ID: "meta-llama/llama-3.3-70b-instruct", Context: 131_072, Extra: routed("Meta: Llama 3.3 70B Instruct", 131_072)},
		}},
	{Name: "deepseek", About: "DeepSeek: reasoning_content, which must come back with tool calls; deepseek-r1 refuses it",
		Bases: []string{""}, Reasoning: reasoningContent, KeepReasoning: true, Stateless: true, MaxStop: 16, Models: []Model{
			{ID: "deepseek-chat", Owner: "deepseek", Thinks: true, Context: 131_072},
			{ID: "deepseek-reasoner", Owner: "deepseek", Thinks: true, Context: 131_072},
			{ID: "deepseek-v4-pro", Owner: "deepseek", Thinks: true, Context: 131_072},
			{ID: "deepseek-r1", Owner: "deepseek", Thinks: true, Context: 65_536, Forgets: true},
		}},
	{Name: "groq", About: "Groq: reasoning by reasoning_format, usage in x_groq, errors mostly without a code",
		Efforts: []string{"none", "default", "low", "medium", "high"}, Bases: []string{"/openai/v1"}, Reasoning: reasoningField, Usage: usageGroq, Stateless: true, Errors: errorShort, Models: []Model{
			{ID: "openai/gpt-oss-120b", Owner: "OpenAI", Thinks: true, Context: 131_072, Extra: members{{"active", true}, {"context_window", 131_072}, {"max_completion_tokens", 65_536}}},
			{ID: "qwen/qwen3-32b", Owner: "Alibaba Cloud", Thinks: true, Context: 131_072, reasoning: reasoningTags, Extra: members{{"active", true}, {"context_window", 131_072}, {"max_completion_tokens", 40_960}}},
			{ID: "llama-3.3-70b-versatile", Owner: "Meta", Context: 131_072, Extra: members{{"active", true}, {"context_window", 131_072}, {"max_completion_tokens", 32_768}}},
		}},
	{Name: "mistral", About: "Mistral: thinking as content parts, calls in one delta without an index, flat errors; refuses seed, tool_choice required and other ids of calls",
		Efforts: []string{"none", "high"}, Reasoning: reasoningParts, Usage: usageFinish, Errors: errorFlat, WholeCalls: true, NoIndex: true, CallLength: 9, CheckIDs: true, NoReplies: true,
		Choices: []string{"auto", "none", "any"}, Refused: map[string]string{"seed": "Extra inputs are not permitted"}, Models: []Model{
			{ID: "mistral-large-latest", Owner: "mistralai", Context: 131_072, Extra: members{{"name", "mistral-large-2512"}, {"max_context_length", 131_072}, {"capabilities", members{{"completion_chat", true}, {"function_calling", true}, {"vision", true}, {"reasoning", false}}}}},
			{ID: "magistral-medium-latest", Owner: "mistralai", Thinks: true, Context: 131_072, Extra: members{{"name", "magistral-medium-2509"}, {"max_context_length", 131_072}, {"capabilities", members{{"completion_chat", true}, {"function_calling", true}, {"vision", true}, {"reasoning", true}}}}},
			{ID: "mistral-embed", Owner: "mistralai", Context: 8192, Embeds: true},
		}},
	{Name: "xai", About: "xAI: reasoning_content, calls in one delta without an index, usage in every chunk, errors as text; grok-4.20 refuses reasoning_effort",
		Efforts: []string{"none", "low", "medium", "high", "xhigh"}, Reasoning: reasoningContent, Usage: usageEvery, Errors: errorText, WholeCalls: true, NoIndex: true, Models: []Model{
			{ID: "grok-4.20-reasoning", Owner: "xai", Thinks: true, NoEffort: true, Context: 2_000_000},
			{ID: "grok-4.20-non-reasoning", Owner: "xai", NoEffort: true, Context: 2_000_000},
			{ID: "grok-4.3", Owner: "xai", Thinks: true, Context: 1_000_000},
		}},
	{Name: "fireworks", About: "Fireworks: reasoning_content, usage with the finish reason, errors as text for 401 and 403",
		Efforts: []string{"none", "low", "medium", "high"}, Bases: []string{"/inference/v1"}, Reasoning: reasoningContent, Usage: usageFinish, Errors: errorFireworks, Models: []Model{
			{ID: "accounts/fireworks/models/deepseek-v4-pro", Owner: "fireworks", Thinks: true, Context: 163_840, Extra: members{{"context_length", 163_840}, {"supports_chat", true}, {"supports_tools", true}, {"supports_image_input", false}}},
			{ID: "accounts/fireworks/models/llama-v3p3-70b-instruct", Owner: "fireworks", Context: 131_072, Extra: members{{"context_length", 131_072}, {"supports_chat", true}, {"supports_tools", true}, {"supports_image_input", false}}},
		}},
	{Name: "vllm", About: "vLLM: reasoning, stop_reason, integer error codes, max_model_len",
		Reasoning: reasoningField, Stops: true, MaxStop: -1, Errors: errorVLLM, Keyless: true, CallPrefix: "chatcmpl-tool-", CallLength: 32, Models: []Model{
			{ID: "Qwen/Qwen3-32B", Owner: "vllm", Thinks: true, Context: 40_960, Extra: members{{"root", "Qwen/Qwen3-32B"}, {"parent", nil}, {"max_model_len", 40_960}, {"permission", []any{}}}},
			{ID: "meta-llama/Llama-3.3-70B-Instruct", Owner: "vllm", Context: 131_072, Extra: members{{"root", "meta-llama/Llama-3.3-70B-Instruct"}, {"parent", nil}, {"max_model_len", 131_072}, {"permission", []any{}}}},
		}},
	{Name: "llamacpp", About: "llama.cpp: reasoning_content, timings, exceed_context_size_error, any name of a model, /props and /health",
		Bases: []string{""}, Reasoning: reasoningContent, Timings: true, MaxStop: -1, Errors: errorLlama, Keyless: true, AnyModel: true, Stateless: true, CallLength: 32, Models: []Model{
			{ID: "qwen3-8b-q4_k_m.gguf", Owner: "llamacpp", Thinks: true, Context: 16_384, Extra: members{{"meta", members{{"vocab_type", 2}, {"n_vocab", 151_936}, {"n_ctx_train", 40_960}, {"n_embd", 4096}, {"n_params", int64(8_190_735_360)}, {"size", int64(5_019_811_840)}}}}},
		}},
	{Name: "lmstudio", About: "LM Studio: <think> in the text, empty names in later deltas of calls, /api/v1/models",
		Reasoning: reasoningTags, EmptyNames: true, MaxStop: -1, Keyless: true, CallLength: 9, Models: []Model{
			{ID: "openai/gpt-oss-20b", Owner: "organization_owner", Thinks: true, Context: 32_768, reasoning: reasoningField},
			{ID: "qwen/qwen3-8b", Owner: "organization_owner", Thinks: true, Context: 8192},
		}},
	{Name: "ollama", About: "Ollama's /v1: reasoning, whole calls, no image URLs; ignores tool_choice and cuts long prompts",
		NoChoice: true, NoImageURLs: true, MaxStop: -1, Reasoning: reasoningField, WholeCalls: true, CallLength: 8, Keyless: true, Truncates: true, Stateless: true, Models: []Model{
			{ID: "qwen3:8b", Owner: "library", Thinks: true, Context: 40_960},
			{ID: "llama3.2:3b", Owner: "library", Context: 4096},
			{ID: "nomic-embed-text:latest", Owner: "library", Context: 2048, Embeds: true},
		}},
	{Name: "generic", About: "another compatible server: reasoning_content, no checks beyond types",
		Reasoning: reasoningContent, MaxStop: -1, Keyless: true, Stateless: true, Models: []Model{
			{ID: "local-model", Owner: "local", Context: 32_768},
			{ID: "local-thinking-model", Owner: "local", Thinks: true, Context: 32_768},
			{ID: "local-embedding-model", Owner: "local", Context: 8192, Embeds: true},
		}},
}

var openAIModels = []Model{
	{ID: "gpt-6-sol", Owner: "system", Thinks: true, Alone: true, Context: million},
	{ID: "gpt-6-luna", Owner: "system", Thinks: true, Alone: true, Context: standard},
	{ID: "gpt-5.6-sol", Owner: "system", Thinks: true, Alone: true, Context: million},
	{ID: "gpt-5.5", Owner: "system", Thinks: true, Alone: true, Context: million},
	{ID: "gpt-5.4", Owner: "system", Thinks: true, Alone: true, Context: million},
	{ID: "gpt-5.4-mini", Owner: "system", Thinks: true, Alone: true, Context: standard},
	{ID: "gpt-5.2", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-5.1", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-5.1-codex", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-5", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-5-mini", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-5-nano", Owner: "system", Thinks: true, Context: standard},
	{ID: "gpt-4.1", Owner: "system", Context: million},
	{ID: "gpt-4.1-mini", Owner: "system", Context: million},
	{ID: "gpt-4o", Owner: "system", Context: 128_000},
	{ID: "gpt-4o-mini", Owner: "system", Context: 128_000},
	{ID: "text-embedding-3-small", Owner: "system", Context: 8192, Embeds: true, Dimensions: 1536},
	{ID: "text-embedding-3-large", Owner: "system", Context: 8192, Embeds: true, Dimensions: 3072},
	{ID: "gpt-image-1", Owner: "system", Draws: true},
}

// routed returns the entry of a model in OpenRouter's list.
func routed(name string, context int) members {
	return members{{"name", name}, {"canonical_slug", strings.ToLower(strings.ReplaceAll(name, ": ", "/"))}, {"context_length", context},
		{"architecture", members{{"modality", "text+image->text"}, {"input_modalities", []string{"text", "image"}}, {"output_modalities", []string{"text"}}, {"tokenizer", "Other"}}},
		{"pricing", members{{"prompt", "0.000003"}, {"completion", "0.000015"}, {"input_cache_read", "0.0000003"}, {"request", "0"}, {"image", "0"}}},
		{"top_provider", members{{"context_length", context}, {"max_completion_tokens", 65_536}, {"is_moderated", false}}},
		{"supported_parameters", []string{"include_reasoning", "max_tokens", "reasoning", "response_format", "stop", "structured_outputs", "temperature", "tool_choice", "tools", "top_p"}},
		{"reasoning", members{{"supported_efforts", []string{"high", "medium", "low", "minimal", "none"}}, {"default_effort", "medium"}, {"mandatory", false}}}}
}

// Profiles lists the names of the profiles. The first is the default.
func Profiles() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// About describes a profile in one line.
func About(name string) string { return ProfileNamed(name).About }

// ProfileNamed returns a profile, or nil; an empty name is the default.
func ProfileNamed(name string) *Profile {
	for i := range profiles {
		if profiles[i].Name == name || name == "" {
			return &profiles[i]
		}
	}
	return nil
}

// Model returns a model of the server.
func (p *Profile) Model(id string) *Model {
	i := slices.IndexFunc(p.Models, func(m Model) bool { return m.ID == id })
	switch {
	case i >= 0:
		return &p.Models[i]
	case p.AnyModel:
		return &p.Models[0]
	}
	return nil
}

// shows returns where answers of a model have their thoughts.
func (p *Profile) shows(m *Model) reasoningForm {
	if m.reasoning != "" {
		return m.reasoning
	}
	return p.Reasoning
}

// callID returns the id of a call.
func (p *Profile) callID(r *completion.Reply, numbers ...int) string {
	prefix, length := p.CallPrefix, p.CallLength
	if length == 0 {
		prefix, length = "call_", 24
	}
	return prefix + r.ID(completion.Name("call", numbers...), length)
}

// Path returns the part of a path after the prefix of the API, and false if the path is not of this
// server.
func (p *Profile) Path(path string) (rest string, ok bool) {
	for _, base := range append([]string{"/v1"}, p.Bases...) {
		if rest, ok := strings.CutPrefix(path, base+"/"); ok && (Routed(rest) || rest == "key" && p.Public) {
			return rest, true
		}
	}
	return "", false
}

// Routed reports whether a path belongs to these APIs.
func Routed(rest string) bool {
	name, _, _ := strings.Cut(rest, "/")
	return slices.Contains([]string{"models", "chat", "responses", "embeddings", "images"}, name)
}

// ModelList is the answer to GET /models.
func (p *Profile) ModelList() any {
	entries := []members{}
	for i := range p.Models {
		entries = append(entries, p.entry(&p.Models[i]))
	}
	if p.Native {
		return members{{"data", entries}}
	}
	return members{{"object", "list"}, {"data", entries}}
}

// KeyInfo is the answer to GET /key, for a key without a limit.
func (p *Profile) KeyInfo() any {
	return members{{"data", members{{"label", "sk-or-v1-sim"}, {"limit", nil}, {"limit_remaining", nil}, {"limit_reset", nil}, {"usage", 0},
		{"is_free_tier", false}}}}
}

// ModelEntry is the answer to GET /models/ID.
func (p *Profile) ModelEntry(id string) (any, *Error) {
	m := p.Model(id)
	if m == nil {
		e := noModel(id)
		e.Message, e.Param = fmt.Sprintf("The model '%s' does not exist", id), "model"
		return nil, e
	}
	return p.entry(m), nil
}

func (p *Profile) entry(m *Model) members {
	entry := members{{"id", m.ID}, {"object", "model"}, {"created", 1_767_225_600}, {"owned_by", m.Owner}}
	if p.Native {
		entry = members{{"id", m.ID}, {"created", 1_767_225_600}}
	}
	return append(entry, m.Extra...)
}

// Encode returns the body of an error in the form of the server.
func (p *Profile) Encode(e *Error) []byte { return Encode(p.errorBody(e)) }

func (p *Profile) errorBody(e *Error) members {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	inner := members{{"message", e.Message}, {"type", e.Type}, {"param", null(e.Param)}, {"code", null(e.Code)}}
	switch p.Errors {
	case errorShort:
		inner = inner[:2]
		if slices.Contains([]string{"context_length_exceeded", "invalid_api_key", "model_not_found", "rate_limit_exceeded"}, e.Code) {
			inner.put("code", e.Code)
		}
	case errorRouter:
		inner = members{{"message", e.Message}, {"code", e.Status}}
		if e.Status == 403 {
			inner.put("metadata", members{{"reasons", []string{"policy"}}, {"flagged_input", ""}, {"provider_name", "Simulator"}})
		} else if e.Status >= 500 || e.Status == 429 {
			inner.put("metadata", members{{"raw", e.Message}, {"provider_name", "Simulator"}})
		}
	case errorFlat:
		return append(members{{"object", "error"}}, inner...)
	case errorText:
		code := "Client specified an invalid argument"
		switch {
		case e.Status == 401 || e.Status == 403:
			code = "The caller does not have permission to execute the specified operation"
		case e.Status == 404:
			code = "Some requested entity was not found"
		case e.Status == 402 || e.Status == 429:
			code = "Some resource has been exhausted"
		case e.Status >= 500:
			code = "The service is currently unavailable"
		}
		return members{{"code", code}, {"error", e.Message}}
	case errorFireworks:
		if e.Status == 401 || e.Status == 403 {
			return members{{"error", e.Message}}
		}
		inner = append(members{{"object", "error"}}, inner...)
	case errorVLLM:
		inner = members{{"message", e.Message}, {"type", pythonName(e.Status)}, {"param", null(e.Param)}, {"code", e.Status}}
	case errorLlama:
		inner = members{{"code", e.Status}, {"message", e.Message}, {"type", llamaType(e)}}
		if e.Prompt > 0 {
			inner.put("n_prompt_tokens", e.Prompt)
			inner.put("n_ctx", e.Context)
		}
	}
	if p.Filters && e.Code == "content_filter" {
		inner.put("status", e.Status)
		inner.put("innererror", members{{"code", "ResponsibleAIPolicyViolation"}, {"content_filter_result", filtered(true)}})
	}
	return members{{"error", inner}}
}

func pythonName(status int) string {
	names := map[int]string{400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError", 408: "APITimeoutError", 422: "UnprocessableEntityError", 429: "RateLimitError"}
	if name, ok := names[status]; ok {
		return name
	}
	return "InternalServerError"
}

func llamaType(e *Error) string {
	switch {
	case e.Code == "context_length_exceeded":
		return "exceed_context_size_error"
	case e.Status == 401:
		return "authentication_error"
	case e.Status == 403:
		return "permission_error"
	case e.Status == 404:
		return "not_found_error"
	case e.Status == 503:
		return "unavailable_error"
	case e.Status >= 500:
		return "server_error"
	}
	return invalidRequest
}

// Header returns the headers of an error.
func (p *Profile) Header(e *Error) map[string]string {
	header := map[string]string{}
	if e.RetryAfter > 0 {
		header["Retry-After"] = strconv.Itoa(int((e.RetryAfter.Milliseconds() + 999) / 1000))
		if p.Limited {
			header["Retry-After-Ms"] = strconv.FormatInt(e.RetryAfter.Milliseconds(), 10)
		}
	}
	return header
}

// Headers returns headers that all answers have.
func (p *Profile) Headers(id string) map[string]string {
	switch {
	case p.Native:
		return map[string]string{"X-Generation-Id": "gen-" + id}
	case p.Limited:
		return map[string]string{"Openai-Version": "2020-10-01", "Openai-Processing-Ms": "1"}
	}
	return nil
}

// StreamError returns an error inside an answer that has begun: the events of a stream, or the
// body of a whole answer.
func (p *Profile) StreamError(e *Error, stream bool) []completion.Event {
	body := p.errorBody(e)
	if p.Errors == errorRouter && !stream {
		body = members{{"id", "gen-error"}, {"object", "chat.completion"}, {"created", 0}, {"model", ""}, {"provider", "Simulator"},
			{"choices", []any{members{{"index", 0}, {"message", members{{"role", "assistant"}, {"content", ""}}}, {"finish_reason", "error"},
				{"native_finish_reason", "error"}, {"error", members{{"code", e.Status}, {"message", e.Message}}}}}}}
	} else if p.Errors == errorRouter {
		body = members{{"id", "gen-error"}, {"object", "chat.completion.chunk"}, {"created", 0}, {"model", ""}, {"provider", "Simulator"},
			{"error", members{{"code", "server_error"}, {"message", e.Message}}},
			{"choices", []any{members{{"index", 0}, {"delta", members{{"content", ""}}}, {"finish_reason", "error"}, {"native_finish_reason", "error"}}}}}
	}
	events := []completion.Event{{Data: Encode(body)}}
	if p.Errors == errorVLLM || p.Errors == errorRouter {
		events = append(events, completion.Event{Data: []byte("[DONE]")})
	}
	return events
}

// Properties is the answer of llama.cpp to GET /props.
func (p *Profile) Properties() any {
	m := p.Models[0]
	return members{{"default_generation_settings", members{{"id", 0}, {"n_ctx", m.Context}}}, {"total_slots", 1}, {"model_path", "/models/" + m.ID},
		{"modalities", members{{"vision", false}, {"audio", false}}}, {"build_info", "b0-simulator"}}
}

// NativeModels is the answer of LM Studio to GET /api/v1/models.
func (p *Profile) NativeModels() any {
	list := []any{}
	for _, m := range p.Models {
		capabilities := members{{"vision", false}, {"trained_for_tool_use", true}}
		if m.Thinks {
			capabilities.put("reasoning", members{{"allowed_options", []string{"off", "on"}}, {"default", "on"}})
		}
		list = append(list, members{{"type", "llm"}, {"key", m.ID}, {"display_name", m.ID}, {"max_context_length", 4 * m.Context},
			{"loaded_instances", []any{members{{"id", m.ID}, {"config", members{{"context_length", m.Context}, {"parallel", 1}}}}}}, {"capabilities", capabilities}})
	}
	return members{{"models", list}}
}

// refusedMembers refuses the members that this server does not take.
func (c *checker) refusedMembers(o object) {
	for _, name := range slices.Sorted(maps.Keys(c.profile.Refused)) {
		if o[name] != nil {
			c.fail(&Error{Status: 422, Type: invalidRequest, Param: name, Rule: "refused_member", Message: name + ": " + c.profile.Refused[name]})
		}
	}
}
