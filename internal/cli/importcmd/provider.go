package importcmd

import (
	"net/url"
	"slices"
	"strings"

	"perigee/internal/store/config"
)

const (
	kindVertex = "vertex"
	kindOllama = "ollama"
)

// A provider is how perigee calls a provider that another program knows by name.
type provider struct{ kind, url, profile, key string }

// providers are by LiteLLM's names. Those without an address need one in the file.
var providers = map[string]provider{
	"openai":       {kind: config.KindOpenAI, key: "OPENAI_API_KEY"},
	"azure":        {kind: config.KindOpenAI, key: "AZURE_API_KEY"},
	"azure_ai":     {kind: config.KindOpenAI, key: "AZURE_AI_API_KEY"},
	"anthropic":    {kind: config.KindAnthropic, key: "ANTHROPIC_API_KEY"},
	"gemini":       {kind: config.KindGemini, key: "GEMINI_API_KEY"},
	"vertex_ai":    {kind: kindVertex},
	"ollama":       {kind: kindOllama, url: "http://127.0.0.1:11434"},
	"ollama_chat":  {kind: kindOllama, url: "http://127.0.0.1:11434"},
	"openrouter":   {kind: config.KindOpenAI, url: "https://openrouter.ai/api/v1", key: "OPENROUTER_API_KEY"},
	"deepseek":     {kind: config.KindOpenAI, url: "https://api.deepseek.com", key: "DEEPSEEK_API_KEY"},
	"groq":         {kind: config.KindOpenAI, url: "https://api.groq.com/openai/v1", key: "GROQ_API_KEY"},
	"mistral":      {kind: config.KindOpenAI, url: "https://api.mistral.ai/v1", key: "MISTRAL_API_KEY"},
	"xai":          {kind: config.KindOpenAI, url: "https://api.x.ai/v1", key: "XAI_API_KEY"},
	"fireworks_ai": {kind: config.KindOpenAI, url: "https://api.fireworks.ai/inference/v1", key: "FIREWORKS_AI_API_KEY"},
	"hosted_vllm":  {kind: config.KindOpenAI, profile: "vllm", key: "HOSTED_VLLM_API_KEY"},
	"lm_studio":    {kind: config.KindOpenAI, profile: "lmstudio", key: "LM_STUDIO_API_KEY"},
	"openai_like":  {kind: config.KindOpenAI},
}

// methods are the ends of addresses that perigee adds itself, by kind.
var methods = map[string][]string{
	config.KindOpenAI:    {"/chat/completions", "/completions", "/responses", "/embeddings"},
	config.KindAnthropic: {"/v1/messages", "/v1"},
	config.KindGemini:    {"/v1beta/models", "/v1beta", "/v1"},
	kindOllama:           {"/v1/chat/completions", "/v1", "/api/chat", "/api/generate", "/api"},
}

// address returns the address of an upstream of a kind without the method of the API. The unspecified
// address, which servers listen on, is this machine.
func address(kind, base string) string {
	base = strings.TrimRight(base, "/")
	for _, method := range methods[kind] {
		if cut, found := strings.CutSuffix(base, method); found {
			base = cut
			break
		}
	}
	if u, err := url.Parse(base); err == nil && slices.Contains([]string{"0.0.0.0", "::"}, u.Hostname()) {
		base = strings.Replace(strings.Replace(base, "0.0.0.0", "127.0.0.1", 1), "[::]", "[::1]", 1)
	}
	return base
}

// isAzure reports whether an address is Azure's, where the model is the name of a deployment.
func isAzure(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".openai.azure.com") || strings.HasSuffix(u.Hostname(), ".services.ai.azure.com"))
}

// azureAddress returns the address of Azure's API without versions for a resource.
func azureAddress(base string) string {
	if u, err := url.Parse(base); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host + "/openai/v1"
	}
	return base
}

// isOllama reports whether an address is the one of an Ollama server.
func isOllama(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Port() == "11434"
}

// member returns the name of a common member of a request in the API of a kind, or "".
func member(kind, name string) string {
	if kind == config.KindGemini || kind == kindVertex {
		return map[string]string{"temperature": "generationConfig.temperature", "top_p": "generationConfig.topP",
			"max_tokens": "generationConfig.maxOutputTokens"}[name]
	}
	if kind == kindOllama {
		return map[string]string{"temperature": "options.temperature", "top_p": "options.top_p", "max_tokens": "options.num_predict"}[name]
	}
	if kind == config.KindAnthropic && name == "seed" {
		return ""
	}
	return name
}
