package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HasAccounts reports whether the upstream has accounts of its own, which a sign-in or an import
// adds.
func (u Upstream) HasAccounts() bool {
	return u.Kind == KindAntigravity || u.Kind == KindLangserver && u.AccountsFrom == "" && !u.Attach
}

// ForAccounts returns the settings with which the accounts of the upstream sign in and are
// selected. For a language server they are the defaults of kind antigravity, with cloud_url as the
// only endpoint if it is set, and without the pool of quota of the command-line tool, because a
// language server does not make its requests.
func (u Upstream) ForAccounts() Upstream {
	if u.Kind != KindLangserver {
		return u
	}
	defaults := Config{Upstreams: []Upstream{{Kind: KindAntigravity}}}
	walkSettings(&defaults, func(s setting) bool {
		if s.kind == KindAntigravity && !s.item {
			setPreset(s)
		}
		return s.key == "upstreams" || s.key == "upstreams[0]"
	})
	settings := defaults.Upstreams[0]
	settings.Name, settings.Proxy, settings.AcceptTermsRisk, settings.OAuth = u.Name, u.Proxy, u.AcceptTermsRisk, u.OAuth
	settings.Pools = settings.Pools[:1]
	if u.CloudURL != "" {
		settings.Endpoints = []string{u.CloudURL}
	}
	return settings
}

// unusedWithAttach are the keys for starting a language server, which does not happen with attach.
var unusedWithAttach = []string{"accounts_from", "account", "oauth", "profile", "version", "intercept", "cloud_url",
	"start_timeout", "memory", "allow", "policies", "args", "env"}

// checkLangserver checks the keys that only upstreams of kind langserver have.
func (l *loader) checkLangserver(u Upstream, key string) {
	if u.Attach {
		if l.isSet(key+".binary") && u.Binary != "" {
			l.problem(key+".binary", key+": attach uses the language server of a running IDE, and binary starts another one",
				"remove one of them")
		}
		for _, name := range unusedWithAttach {
			if l.isSet(joinKey(key, name)) {
				l.warn(joinKey(key, name), "%s.%s has no effect, since attach is true", key, name)
			}
		}
		return
	}
	l.checkAccountsFrom(u, key)
	l.checkIntercept(u, key)
	l.checkDuplicates(key+".allow", u.Allow)
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		switch at := joinKey(key+".env", name); {
		case !isVariable(name):
			l.problem(at, fmt.Sprintf("%s.env: %q is not the name of an environment variable", key, name),
				"use letters, digits and _, and begin with a letter or _")
		case name == "HOME":
			l.warn(at, "%s.env: HOME replaces the private home directory of the language server; it reads and writes the .gemini directory there", key)
		}
	}
	l.checkWorkspace(u.Workspace, key+".workspace")
}

// checkIntercept refuses a second upstream behind the intercepting proxy, which has one listener
// and cannot distinguish their calls, and permissions that would make perigee act for the other
// user of a transparent redirect.
func (l *loader) checkIntercept(u Upstream, key string) {
	if u.Intercept == "endpoint" || !l.accepted(key+".intercept") {
		return
	}
	for i, other := range l.Config.Upstreams {
		if at := itemKey("upstreams", i); at != key && other.Kind == KindLangserver && other.Intercept != "endpoint" && at < key {
			l.problem(key+".intercept", fmt.Sprintf("%s.intercept: %s uses the intercepting proxy already", key, other.Name), "use endpoint")
		}
	}
	if u.Intercept == "transparent" && len(u.Allow) > 0 {
		l.problem(key+".allow", fmt.Sprintf("%s.allow: with intercept: transparent the language server runs as another user, who may do nothing as you", key),
			"remove allow, or use intercept: endpoint")
	}
}

// checkAccountsFrom finds the upstream that provides the accounts.
func (l *loader) checkAccountsFrom(u Upstream, key string) {
	at := key + ".accounts_from"
	if u.AccountsFrom == "" {
		return
	}
	var known []string
	for i, other := range l.Config.Upstreams {
		if !l.accepted(itemKey("upstreams", i)+".name") || !l.accepted(itemKey("upstreams", i)+".kind") {
			return // it may be the one
		}
		if other.Kind == KindAntigravity {
			known = append(known, other.Name)
		}
	}
	if !slices.Contains(known, u.AccountsFrom) {
		l.problem(at, fmt.Sprintf("%s: there is no upstream of kind antigravity named %q", at, u.AccountsFrom),
			l.hint(func() string { return hintForUpstream(u.AccountsFrom, known) }))
	} else if l.isSet(key + ".oauth") {
		l.warn(key+".oauth", "%s.oauth has no effect, since the accounts are those of %s", key, u.AccountsFrom)
	}
}

// checkWorkspace reports a directory that the language server cannot work in, or in which it would
// find the secrets of perigee.
func (l *loader) checkWorkspace(dir, key string) {
	if dir == "" || l.src.ReadFile != nil {
		return
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		l.warn(key, "%s: %s: %s", key, dir, reason(err))
	case !info.IsDir():
		l.problem(key, fmt.Sprintf("%s: %s is not a directory", key, dir), "name a directory, or leave it out for a private one")
	}
	if inside, err := filepath.Rel(dir, l.Config.DataDir); err == nil && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
		l.warn(key, "%s: %s contains data_dir, where perigee stores secrets; choose another directory", key, dir)
	}
}
