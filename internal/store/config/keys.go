package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// keyForms are the beginnings of API keys by which a provider can be recognized, the longest ones
// first, with the kinds of upstreams and the hosts that they are for.
var keyForms = []struct {
	prefix, owner, kind string
	hosts               []string
}{
	{"sk-ant-", "Anthropic", "anthropic", nil},
	{"sk-or-", "OpenRouter", KindOpenAI, []string{"openrouter.ai"}},
	{"sk-proj-", "OpenAI", KindOpenAI, []string{"api.openai.com"}},
	{"gsk_", "Groq", KindOpenAI, []string{"api.groq.com"}},
	{"xai-", "xAI", KindOpenAI, []string{"api.x.ai"}},
	{"AIza", "Google", KindGemini, nil},
}

// publicHosts are the hosts that take only keys of their own. Other hosts may pass keys on.
var publicHosts = []string{"api.openai.com", "openrouter.ai", "api.deepseek.com", "api.groq.com", "api.mistral.ai", "api.x.ai",
	"api.fireworks.ai", "api.anthropic.com", "generativelanguage.googleapis.com"}

// ownerOf returns the provider that a key seems to belong to, if it is not the upstream's, or "".
func ownerOf(key string, u Upstream) string {
	address, err := url.Parse(u.URL)
	if err != nil || u.URL != "" && !slices.Contains(publicHosts, address.Hostname()) {
		return ""
	}
	for _, f := range keyForms {
		if strings.HasPrefix(key, f.prefix) {
			if f.kind == u.Kind && (f.hosts == nil || slices.Contains(f.hosts, address.Hostname())) {
				return ""
			}
			return f.owner
		}
	}
	return ""
}

// methods are the ends of URLs that name a method of an API. url ends before them.
var methods = []string{"/chat/completions", "/completions", "/responses", "/embeddings", "/models", "/messages"}

// checkAddress refuses a url with a method in it, and OpenAI's without the version.
func (l *loader) checkAddress(u Upstream, key string) {
	if u.Kind != KindOpenAI || !l.accepted(key+".url") {
		return
	}
	address := strings.TrimRight(u.URL, "/")
	if address == "https://api.openai.com" {
		l.problem(key+".url", key+".url: the version is missing", "use "+address+"/v1")
		return
	}
	for _, method := range methods {
		if base, found := strings.CutSuffix(address, method); found {
			l.problem(key+".url", fmt.Sprintf("%s.url: %s is a method of the API, which perigee adds itself", key, method), "use "+base)
			return
		}
	}
}

// checkNoVersion refuses the url of a Messages API with a version, or a method, in it.
func (l *loader) checkNoVersion(u Upstream, key string) {
	address := strings.TrimRight(u.URL, "/")
	for _, end := range []string{"/v1", "/v1/messages", "/v1/models"} {
		if base, found := strings.CutSuffix(address, end); found && l.accepted(key) {
			l.problem(key, key+": the address ends with "+end+", which perigee adds itself", "use "+base)
		}
	}
}
