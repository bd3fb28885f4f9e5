package config

import "fmt"

// What the three kinds that use private interfaces have to hear before anybody signs in.
const (
	termsMessage = "%s: accept_terms_risk is not true. Kind %s uses a private interface: the provider's terms do not allow other clients on it, and accounts have been suspended"
	termsHint    = "recommended instead: kind: gemini with an API key. To go on at your own risk, set accept_terms_risk: true"
)

func (l *loader) checkUpstreams() {
	names := make(map[string]bool)
	for i, u := range l.config.Upstreams {
		key := fmt.Sprintf("upstreams[%d]", i)
		l.checkUpstreamName(u, key, names)
		if !l.good(key+".kind") || !l.isSet(key+".kind") {
			continue
		}
		switch u.Kind {
		case KindGemini:
			if len(u.Keys) == 0 && l.good(key+".keys") {
				l.problem(key+".keys", fmt.Sprintf("%s: kind gemini needs an API key", key), "add keys: [env:GEMINI_API_KEY]")
			}
			for j, secret := range u.Keys {
				item := fmt.Sprintf("%s.keys[%d]", key, j)
				if secret.IsZero() && l.good(item) {
					l.problem(item, item+": the key is empty", "")
				}
			}
		case KindAntigravity, KindLangserver, KindIDE:
			if !u.AcceptTermsRisk && l.good(key+".accept_terms_risk") {
				at := key + ".kind"
				if l.isSet(key + ".accept_terms_risk") {
					at = key + ".accept_terms_risk"
				}
				l.problem(at, fmt.Sprintf(termsMessage, key, u.Kind), termsHint)
			}
		}
		if u.Kind == KindAntigravity {
			if u.OAuth.ClientID == "" && l.good(key+".oauth") && l.good(key+".oauth.client_id") {
				l.warn("upstream %s has no oauth.client_id; sign-in and import will use the one of an installed Antigravity IDE", u.Name)
			}
			l.checkNotEmpty(key+".endpoints", len(u.Endpoints), "an address")
			l.checkNotEmpty(key+".pools", len(u.Pools), "a pool")
			l.checkTwice(key+".endpoints", u.Endpoints)
			l.checkTwice(key+".pools", u.Pools)
		}
	}
}

// inheritProxy gives upstreams that have no proxy of their own the one for all.
func (l *loader) inheritProxy() {
	if l.config.Proxy.IsZero() || !l.good("proxy") {
		return
	}
	for i := range l.config.Upstreams {
		u, key := &l.config.Upstreams[i], fmt.Sprintf("upstreams[%d].proxy", i)
		if !l.isSet(key) && (u.Kind == KindGemini || u.Kind == KindAntigravity) {
			u.Proxy, l.origins[key], l.shown[key] = l.config.Proxy, l.origins["proxy"], l.shown["proxy"]
		}
	}
}

func (l *loader) checkUpstreamName(u Upstream, key string, names map[string]bool) {
	at := key + ".name"
	if !l.good(at) || !l.isSet(at) {
		return
	}
	if names[u.Name] {
		l.problem(at, fmt.Sprintf("%s: another upstream is called %q, too", at, u.Name), "give each its own name")
	}
	names[u.Name] = true
	if u.Name == KindSimulator && u.Kind != KindSimulator && l.good(key+".kind") {
		l.problem(at, at+": simulator is the name of the built-in one", "choose another name")
	}
}

func (l *loader) checkNotEmpty(key string, n int, what string) {
	if n == 0 && l.good(key) {
		l.problem(key, fmt.Sprintf("%s: expected at least %s", key, what), "leave it out for the default")
	}
}

func (l *loader) checkTwice(key string, list []string) {
	seen := make(map[string]bool)
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		if seen[item] && l.good(at) {
			l.problem(at, fmt.Sprintf("%s: %s stands there twice", key, item), "")
		}
		seen[item] = true
	}
}
