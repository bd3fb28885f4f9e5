package config

import (
	"cmp"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee"
	"perigee/internal/lib/netguard"
)

// An environmentUpstream is an upstream that perigee has without a configuration file if one of its
// variables has an API key; the first one with a key is used. The one without variables is an Ollama
// server that answers.
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
	{"ollama", KindOllama, "", nil},
}

// KeyVariables returns the variables that perigee searches for API keys if there is no
// configuration file, in order.
func KeyVariables() (names []string) {
	for _, u := range environmentUpstreams {
		names = append(names, u.variables...)
	}
	return names
}

// An EnvironmentUpstream is an upstream without a configuration file: the API key is in Variable, or
// a server answers at Address.
type EnvironmentUpstream struct{ Name, Variable, Address string }

// Source returns the variable or the address.
func (u EnvironmentUpstream) Source() string { return cmp.Or(u.Variable, u.Address) }

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

// useEnvironment adds the upstreams of the environment if there is no file.
func (l *loader) useEnvironment() {
	if l.Path != "" {
		return
	}
	for _, u := range environmentUpstreams {
		if u.kind == KindOllama {
			l.useOllama(u)
			continue
		}
		variable, placeholders := u.keyIn(l.src)
		l.Placeholders = append(l.Placeholders, placeholders...)
		if variable == "" {
			continue
		}
		l.Environment = append(l.Environment, EnvironmentUpstream{Name: u.name, Variable: variable})
		origin := Origin{Source: "environment " + variable}
		item := l.addUpstream(Upstream{Name: u.name, Kind: u.kind, URL: u.url, Keys: make([]perigee.Secret, 1)}, origin)
		l.Origins[item+".keys"] = origin
		key := reflect.ValueOf(&l.Config.Upstreams[len(l.Config.Upstreams)-1].Keys[0]).Elem()
		l.set(setting{key: itemKey(item+".keys", 0), field: upstreamField("keys"), value: key, item: true}, "env:"+variable, origin)
	}
}

// addUpstream adds an upstream that is not in the file, and returns its key.
func (l *loader) addUpstream(u Upstream, origin Origin) string {
	item := itemKey("upstreams", len(l.Config.Upstreams))
	l.Config.Upstreams = append(l.Config.Upstreams, u)
	set := []string{item, item + ".name", item + ".kind"}
	if len(l.Config.Upstreams) == 1 {
		set = append(set, "upstreams")
	}
	if u.URL != "" {
		set = append(set, item+".url")
	}
	for _, key := range set {
		l.Origins[key] = origin
	}
	return item
}

// ollamaHost is the variable in which Ollama's own programs find the address of its server.
const ollamaHost = "OLLAMA_HOST"

// useOllama adds an Ollama server that answers.
func (l *loader) useOllama(u environmentUpstream) {
	address := OllamaAddress(l.src.lookup(ollamaHost))
	parsed, err := url.Parse(address)
	warn := func(message, hint string) {
		l.Warnings = append(l.Warnings, Problem{Origin{Source: "environment " + ollamaHost}, ollamaHost + " is " + message, hint})
	}
	switch {
	case l.src.AnswersOllama == nil:
	case err != nil:
		warn("not used: it is not an address", "")
	case parsed.Scheme != "https" && !netguard.IsLoopback(parsed.Hostname()):
		warn("not used: perigee reaches servers on other machines only with https://; forward a port of this machine instead", "")
	case l.src.AnswersOllama(address):
		l.Environment = append(l.Environment, EnvironmentUpstream{Name: u.name, Address: address})
		l.addUpstream(Upstream{Name: u.name, Kind: u.kind, URL: address}, Origin{Source: "Ollama at " + address})
	case strings.HasSuffix(parsed.Path, "/v1"):
		warn("set, but no Ollama server answers at "+parsed.Redacted(), "run export "+ollamaHost+"=… in the shell that starts perigee, with the address without /v1")
	case l.src.lookup(ollamaHost) != "":
		warn("set, but no Ollama server answers at "+parsed.Redacted(), "start it with ollama serve, or unset "+ollamaHost)
	}
}

// Surroundings returns the upstreams of the environment, the variables that were passed over, and the
// warnings about them, as Load does without a file. It has nothing else.
func Surroundings(src Sources) *Loaded {
	l := newLoader(src)
	l.useEnvironment()
	return l.loaded()
}

// OllamaAddress returns the base URL of an Ollama server for the value of OLLAMA_HOST, by the rules of
// Ollama's own programs: scheme, host and port may each be missing, a URL without a port has the
// default port of its scheme, and an invalid port is replaced. An unspecified address, on which the
// server listens, is a loopback address.
func OllamaAddress(value string) string {
	value = strings.Trim(strings.TrimSpace(value), `"' `)
	port := "11434"
	scheme, rest, hasScheme := strings.Cut(value, "://")
	switch {
	case !hasScheme:
		scheme, rest = "http", value
	case scheme == "https":
		port = "443"
	case scheme == "http":
		port = "80"
	}
	rest, path, _ := strings.Cut(rest, "/")
	host, given, err := net.SplitHostPort(rest)
	if err != nil {
		host, given = strings.Trim(rest, "[]"), port
	}
	if n, err := strconv.Atoi(given); err == nil && n >= 0 && n <= 65535 {
		port = given
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return strings.TrimSuffix(scheme+"://"+net.JoinHostPort(host, port)+"/"+path, "/")
}
