package config

import (
	"slices"

	"perigee/internal/adapt/models"
)

// The kinds of upstreams.
const (
	KindGemini      = "gemini"
	KindOpenAI      = "openai"
	KindAnthropic   = "anthropic"
	KindOllama      = "ollama"
	KindVertex      = "vertex"
	KindAntigravity = "antigravity"
	KindLangserver  = "langserver"
	KindIDE         = "ide"
	KindSimulator   = "simulator"
)

// A Kind is a kind of upstream. Configuration, manual, doctor, telemetry and prices read its
// properties here; the gateway has a builder for each kind.
type Kind struct {
	Name  string
	About string // describes it in the manual: "gemini " + About + "."

	// Keys is set if requests have API keys. Such a kind has the settings that are tagged with
	// kinds:"@keys", and an entry in Providers of internal/upstream/api.
	Keys        bool
	KeyVariable string // the usual environment variable of a key
	Keyless     bool   // only the default url needs a key
	NoKey       bool   // not even the default url needs a key
	URL         string // the default of url

	Profiles []string // the values of profile; empty if it has none

	SignsIn  bool   // perigee login adds its credentials
	Look     string // the command that shows why it cannot be reached; empty for ways that all have
	Provider string // gen_ai.provider.name in OpenTelemetry's conventions

	Free  bool            // calls cost nothing
	Lacks []models.Family // families of models that it cannot have

	// OwnModels is set if its servers have models that perigee's table does not know, and lack models
	// that it knows: their lists decide.
	OwnModels bool
}

// Kinds are all kinds, in the order of the manual.
var Kinds = []Kind{
	{
		Name: KindGemini, About: "is the official Gemini API with an API key (recommended)",
		Keys: true, KeyVariable: "GEMINI_API_KEY", URL: "https://generativelanguage.googleapis.com",
		Provider: "gcp.gemini", Lacks: []models.Family{models.Claude, models.GPTOSS},
	},
	{
		Name: KindOpenAI, About: "is OpenAI, or any other server with its Chat Completions API",
		Keys: true, KeyVariable: "OPENAI_API_KEY", Keyless: true, URL: "https://api.openai.com/v1",
		Provider: "openai", OwnModels: true,
		Profiles: []string{"auto", "openai", "azure", "openrouter", "deepseek", "groq", "mistral", "xai", "fireworks", "vllm", "llamacpp", "lmstudio", "generic"},
	},
	{
		Name: KindAnthropic, About: "is the Messages API of Anthropic, or of a compatible server",
		Keys: true, KeyVariable: "ANTHROPIC_API_KEY", URL: "https://api.anthropic.com",
		Provider: "anthropic", OwnModels: true, Lacks: []models.Family{models.Gemini, models.Gemini2, models.Image, models.Embedding, models.GPTOSS},
	},
	{
		Name: KindOllama, About: "is a server of Ollama, in its own API",
		Keys: true, KeyVariable: "OLLAMA_API_KEY", NoKey: true, URL: "http://127.0.0.1:11434",
		Provider: "ollama", OwnModels: true, Lacks: []models.Family{models.Claude, models.Gemini, models.Gemini2, models.Image, models.Embedding},
	},
	{
		Name: KindVertex, About: "is Vertex AI of Google Cloud, with Gemini and Claude",
		Keys: true, KeyVariable: "VERTEX_API_KEY", NoKey: true, URL: "https://aiplatform.googleapis.com",
		Provider: "gcp.vertex_ai", OwnModels: true, Lacks: []models.Family{models.GPTOSS},
	},
	{
		Name: KindAntigravity, About: "is the Antigravity gateway with your own Google sign-in",
		SignsIn: true, Provider: "gcp.gen_ai",
	},
	{
		Name: KindLangserver, About: "is the language server of the Antigravity IDE, which perigee runs without the IDE " +
			"and signs in with your account",
		SignsIn: true, Look: "perigee langserver status", Provider: "gcp.gen_ai", Profiles: []string{"auto", "classic", "hub"},
	},
	{
		Name: KindIDE, About: "is an open Antigravity IDE, whose agent answers as the model antigravity-agent",
		Look: "perigee bridge list", Provider: "gcp.gen_ai",
	},
	{
		Name: KindSimulator, About: "is the built-in simulator",
		Provider: "perigee.simulator", Free: true,
	},
}

// KindOf returns the kind of a name, or the zero Kind if there is none.
func KindOf(name string) Kind {
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return Kinds[i]
	}
	return Kind{}
}

// kindNames returns the names of the kinds for which has is true.
func kindNames(has func(Kind) bool) (names []string) {
	for _, k := range Kinds {
		if has(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// withKinds completes the description of a field of upstreams from the table of kinds: the names of
// all kinds, the kinds with keys for @keys, and the default of url.
func (f *field) withKinds() {
	switch f.path {
	case "Upstream.Kind":
		f.enum = kindNames(func(Kind) bool { return true })
	case "Upstream.URL":
		f.presets = make(map[string]string)
		for _, k := range Kinds {
			if k.URL != "" {
				f.presets[k.Name] = k.URL
			}
		}
	}
	if i := slices.Index(f.kinds, "@keys"); i >= 0 {
		f.kinds = slices.Replace(f.kinds, i, i+1, kindNames(func(k Kind) bool { return k.Keys })...)
	}
}
