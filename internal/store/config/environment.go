package config

import (
	"reflect"
	"unicode/utf8"

	"perigee"
)

// An environmentUpstream is an upstream that perigee has without a configuration file if one of its
// variables has an API key. The first one with a key is used.
type environmentUpstream struct {
	name, kind, url string // url is empty for the default of the kind
	variables       []string
}

// environmentUpstreams are in the order in which models are searched. Variables with base URLs are
// not read: they point clients at perigee.
var environmentUpstreams = []environmentUpstream{
	{"studio", KindGemini, "", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{"anthropic", KindAnthropic, "", []string{"ANTHROPIC_API_KEY"}},
	{"openai", KindOpenAI, "", []string{"OPENAI_API_KEY"}},
	{"openrouter", KindOpenAI, "https://openrouter.ai/api/v1", []string{"OPENROUTER_API_KEY"}},
	{"deepseek", KindOpenAI, "https://api.deepseek.com", []string{"DEEPSEEK_API_KEY"}},
	{"groq", KindOpenAI, "https://api.groq.com/openai/v1", []string{"GROQ_API_KEY"}},
	{"mistral", KindOpenAI, "https://api.mistral.ai/v1", []string{"MISTRAL_API_KEY"}},
	{"xai", KindOpenAI, "https://api.x.ai/v1", []string{"XAI_API_KEY"}},
}

// KeyVariables returns the variables that perigee searches for API keys if there is no
// configuration file, in order.
func KeyVariables() (names []string) {
	for _, u := range environmentUpstreams {
		names = append(names, u.variables...)
	}
	return names
}

// An EnvironmentUpstream is an upstream that is configured by an environment variable alone.
type EnvironmentUpstream struct{ Name, Variable string }

// MinAPIKey is the length of the shortest value of a variable that counts as an API key. Shorter
// values are placeholders, such as the ones that clients of perigee have.
const MinAPIKey = 16

// keyIn returns the variable of an upstream that has an API key, or "", and the variables before it
// that have placeholders.
func (u environmentUpstream) keyIn(src Sources) (variable string, placeholders []string) {
	for _, name := range u.variables {
		switch value := src.lookup(name); {
		case value == "":
		case utf8.RuneCountInString(value) < MinAPIKey:
			placeholders = append(placeholders, name)
		default:
			return name, placeholders
		}
	}
	return "", placeholders
}

// useEnvironmentKeys adds the upstreams with API keys in the environment if there is no file.
func (l *loader) useEnvironmentKeys() {
	if l.Path != "" {
		return
	}
	for _, u := range environmentUpstreams {
		variable, placeholders := u.keyIn(l.src)
		l.Placeholders = append(l.Placeholders, placeholders...)
		if variable == "" {
			continue
		}
		l.Environment = append(l.Environment, EnvironmentUpstream{u.name, variable})
		i := len(l.Config.Upstreams)
		l.Config.Upstreams = append(l.Config.Upstreams, Upstream{Name: u.name, Kind: u.kind, URL: u.url, Keys: make([]perigee.Secret, 1)})
		item, origin := itemKey("upstreams", i), Origin{Source: "environment " + variable}
		set := []string{item, item + ".name", item + ".kind", item + ".keys"}
		if i == 0 {
			set = append(set, "upstreams")
		}
		if u.url != "" {
			set = append(set, item+".url")
		}
		for _, key := range set {
			l.Origins[key] = origin
		}
		key := reflect.ValueOf(&l.Config.Upstreams[i].Keys[0]).Elem()
		l.set(setting{key: itemKey(item+".keys", 0), field: upstreamField("keys"), value: key, item: true}, "env:"+variable, origin)
	}
}
