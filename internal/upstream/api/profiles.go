package api

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/adapt"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/store/config"
)

// A profile is one of the servers with OpenAI's APIs: what it accepts, and how it writes the members
// in which servers differ. Each field that is set is a difference from the least that all accept.
type profile struct {
	name  string
	hosts []string // the ends of its host names
	// both is set if it has the Responses API as well, and agents should use it.
	both bool
	// counts is the path of the method that counts the tokens of a Chat request, or empty.
	counts string
	// keyInfo is the path of the method that describes a key, of a server that lists its models without
	// one, or empty.
	keyInfo string
	// silent is set if its messages have no reasoning, and members with reasoning are refused.
	silent bool
	chat   adapt.Server
	form   chat.Form
}

// common are the options that servers of the Chat Completions API accept unless they document
// something else.
var common = []string{adapt.OptionParallel, adapt.OptionSeed, adapt.OptionN, adapt.OptionLogitBias, adapt.OptionLogprobs, adapt.OptionName,
	adapt.OptionPresence, adapt.OptionFrequency}

// with returns the common options with more of them.
func with(more ...string) []string { return slices.Concat(common, more) }

// except returns the common options without some of them.
func except(some ...string) []string {
	return slices.DeleteFunc(slices.Clone(common), func(o string) bool { return slices.Contains(some, o) })
}

// openAI is OpenAI itself, and Azure, which serves the same models.
var openAI = adapt.Server{
	Options: with(adapt.OptionVerbosity, adapt.OptionTier), Stops: 4,
	Efforts: openAIEfforts, Fixed: openAIReasons, EffortAlone: openAIEffortAlone, MaxID: 40,
	Schemas: true, JSONWord: true, Custom: true, Allowed: true, Named: true, Developer: true, Documents: true, Sounds: true,
}

// profiles are the servers that the setting profile names. The last one is for all that are not known.
var profiles = []profile{
	{name: "openai", hosts: []string{"api.openai.com"}, both: true, silent: true, chat: openAI, form: chat.Form{Session: "prompt_cache_key"}},
	{name: "azure", hosts: []string{".openai.azure.com"}, both: true, silent: true, chat: openAI, form: chat.Form{Session: "prompt_cache_key"}},
	{name: "openrouter", hosts: []string{"openrouter.ai"}, keyInfo: "/key",
		chat: adapt.Server{
			Options: with(adapt.OptionVerbosity, adapt.OptionTopK, adapt.OptionImages), Stops: 4, Budgets: true,
			Schemas: true, Named: true, Documents: true, Sounds: true, Marks: true, Sealed: true,
		},
		form: chat.Form{MaxTokens: "max_tokens", Session: "session_id", Thinking: chat.ThinkingObject, Reasoning: chat.ReasoningDetails}},
	{name: "deepseek", hosts: []string{"api.deepseek.com"},
		chat: adapt.Server{
			Options: except(adapt.OptionN, adapt.OptionSeed, adapt.OptionLogitBias, adapt.OptionParallel), Stops: 16, Efforts: levels("none", "low", "high", "max"),
			Reasoning: true, KeepReasoning: true, JSONWord: true, Named: true,
		},
		form: chat.Form{MaxTokens: "max_tokens", Thinking: chat.ThinkingSwitch, Reasoning: chat.ReasoningContent, Joined: true}},
	{name: "groq", hosts: []string{"api.groq.com"},
		chat: adapt.Server{
			Options: append(except(adapt.OptionN, adapt.OptionLogitBias, adapt.OptionLogprobs, adapt.OptionName), adapt.OptionTier), Stops: 4,
			Efforts: groqEfforts, Schemas: true, Named: true,
		},
		form: chat.Form{MaxTokens: "max_tokens", Thinking: chat.ThinkingParsed}},
	{name: "mistral", hosts: []string{"api.mistral.ai"},
		chat: adapt.Server{
			Options: except(adapt.OptionLogitBias, adapt.OptionLogprobs, adapt.OptionName), Stops: 4, Efforts: mistralEfforts,
			Reasoning: true, Schemas: true, Documents: true, IDs: 9,
		},
		form: chat.Form{MaxTokens: "max_tokens", Seed: "random_seed", Required: "any", Documents: "document_url", Reasoning: chat.ReasoningParts}},
	{name: "xai", hosts: []string{"api.x.ai"},
		chat: adapt.Server{Options: except(adapt.OptionLogitBias), Stops: 4, Efforts: xAIEfforts, Schemas: true, Named: true},
		form: chat.Form{MaxTokens: "max_tokens"}},
	{name: "fireworks", hosts: []string{"api.fireworks.ai"},
		chat: adapt.Server{Options: with(adapt.OptionTopK), Stops: 4, Efforts: levels("none", "low", "medium", "high"),
			Reasoning: true, Schemas: true, Named: true},
		form: chat.Form{MaxTokens: "max_tokens", Reasoning: chat.ReasoningContent}},
	{name: "vllm", chat: local, form: chat.Form{MaxTokens: "max_tokens", Reasoning: chat.ReasoningField}},
	{name: "llamacpp", counts: "/chat/completions/input_tokens", chat: local, form: chat.Form{MaxTokens: "max_tokens", Reasoning: chat.ReasoningContent, Joined: true}},
	{name: "lmstudio", chat: local, form: chat.Form{MaxTokens: "max_tokens", Reasoning: chat.ReasoningField, Joined: true}},
	{name: "generic", chat: adapt.Server{Options: common, Stops: 4, Schemas: true, Named: true},
		form: chat.Form{MaxTokens: "max_tokens", Joined: true}},
}

// local are the servers that people run themselves. They ignore options that they do not have, and
// take any number of stop sequences.
var local = adapt.Server{Options: with(adapt.OptionTopK), Stops: math.MaxInt, Reasoning: true, Schemas: true, Named: true}

// profileOf returns the server that an upstream's profile names or, for auto, that its address
// belongs to.
func profileOf(u config.Upstream) *profile {
	host := ""
	if address, err := url.Parse(u.URL); err == nil {
		host = address.Hostname()
	}
	for i := range profiles {
		s := &profiles[i]
		if s.name == u.Profile || (u.Profile == "" || u.Profile == "auto") && s.serves(host) {
			return s
		}
	}
	return &profiles[len(profiles)-1]
}

// serves reports whether a host name is one of the server's.
func (s *profile) serves(host string) bool {
	return slices.ContainsFunc(s.hosts, func(end string) bool {
		return host == end || strings.HasSuffix(host, "."+strings.TrimPrefix(end, "."))
	})
}

// levels returns a function for a server on which all models have the same levels of thinking.
func levels(list ...string) func(string) []string { return func(string) []string { return list } }

// openAIGeneration returns the generation of a GPT model, such as 5.4, and whether the name has one.
func openAIGeneration(model string) (generation float64, ok bool) {
	name, ok := strings.CutPrefix(model, "gpt-")
	if !ok {
		return 0, false
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		name = name[:i]
	}
	generation, err := strconv.ParseFloat(name, 64)
	return generation, err == nil
}

// openAIReasons reports whether a model of OpenAI reasons. Such models refuse sampling parameters.
func openAIReasons(model string) bool {
	if strings.Contains(model, "-chat") {
		return false
	}
	generation, ok := openAIGeneration(model)
	return ok && generation >= 5 || len(model) > 1 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9' || strings.HasPrefix(model, "codex-")
}

// openAIEffortAlone reports whether a model refuses reasoning_effort beside functions on Chat.
func openAIEffortAlone(model string) bool {
	generation, ok := openAIGeneration(model)
	return ok && generation >= 5.4 && openAIReasons(model)
}

// openAIEfforts returns the levels of thinking of a model of OpenAI.
func openAIEfforts(model string) []string {
	generation, _ := openAIGeneration(model)
	switch {
	case !openAIReasons(model):
		return nil
	case generation == 0 || strings.Contains(model, "codex") && generation < 5.2:
		return []string{"low", "medium", "high"}
	case generation < 5.1:
		return []string{"minimal", "low", "medium", "high"}
	case generation < 5.2:
		return []string{"none", "low", "medium", "high"}
	case generation < 6:
		return []string{"none", "low", "medium", "high", "xhigh"}
	}
	return []string{"none", "low", "medium", "high", "xhigh", "max"}
}

// groqEfforts returns the levels of thinking of a model at Groq.
func groqEfforts(model string) []string {
	switch {
	case strings.Contains(model, "gpt-oss"):
		return []string{"low", "medium", "high"}
	case strings.Contains(model, "qwen3"):
		return []string{"none"} // and as much as the model likes
	}
	return nil
}

// mistralEfforts returns the levels of thinking of a model of Mistral.
func mistralEfforts(model string) []string {
	if strings.HasPrefix(model, "magistral") {
		return []string{"none", "high"}
	}
	return nil
}

// xAIEfforts returns the levels of thinking of a model of xAI.
func xAIEfforts(model string) []string {
	if strings.HasPrefix(model, "grok-4.20") {
		return nil
	}
	return []string{"none", "low", "medium", "high", "xhigh"}
}
