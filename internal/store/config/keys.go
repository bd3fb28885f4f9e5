package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// keyForms are the beginnings of API keys by which a provider can be recognized, and its host, or the
// end of its hosts.
var keyForms = []struct{ prefix, owner, host string }{
	{"sk-ant-", "Anthropic", "api.anthropic.com"},
	{"sk-or-", "OpenRouter", "openrouter.ai"},
	{"sk-proj-", "OpenAI", "api.openai.com"},
	{"sk-svcacct-", "OpenAI", "api.openai.com"},
	{"gsk_", "Groq", "api.groq.com"},
	{"xai-", "xAI", "api.x.ai"},
	{"fw_", "Fireworks", "api.fireworks.ai"},
	{"AIza", "Google", ".googleapis.com"},
}

// LooksLikeKey reports whether a text begins like an API key of a provider.
func LooksLikeKey(text string) bool {
	return strings.HasPrefix(text, "sk-") || slices.ContainsFunc(keyForms, func(f struct{ prefix, owner, host string }) bool { return strings.HasPrefix(text, f.prefix) })
}

// publicHosts are the hosts that take only keys of their own, through all their APIs. Other hosts may
// pass keys on.
var publicHosts = []string{"api.openai.com", "openrouter.ai", "api.deepseek.com", "api.groq.com", "api.mistral.ai", "api.x.ai",
	"api.fireworks.ai", "api.anthropic.com", "generativelanguage.googleapis.com", "aiplatform.googleapis.com"}

// checkOwners warns about API keys that seem to belong to another provider than the upstream's.
func (l *loader) checkOwners(u Upstream, key string) {
	address, err := url.Parse(u.URL)
	if err != nil || !slices.Contains(publicHosts, address.Hostname()) {
		return
	}
	for i, secret := range u.Keys {
		for _, f := range keyForms {
			if strings.HasPrefix(secret.Reveal(), f.prefix) && !strings.HasSuffix(address.Hostname(), f.host) {
				l.warn(itemKey(key+".keys", i), "upstream %s: a key looks like one of %s, and %s takes only its own", u.Name, f.owner, address.Hostname())
			}
		}
	}
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

// checkNoVersion refuses a url with the version or a method of the API in it.
func (l *loader) checkNoVersion(u Upstream, key string, ends ...string) {
	address := strings.TrimRight(u.URL, "/")
	for _, end := range ends {
		if base, found := strings.CutSuffix(address, end); found && l.accepted(key) {
			l.problem(key, key+": the address ends with "+end+", which perigee adds itself", "use "+base)
		}
	}
}
