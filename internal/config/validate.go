package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/names"
)

const goodSecret = 16 // characters; shorter ones may be guessed

// validate checks what one value alone cannot tell. Every check goes on after a problem, and none looks at
// a value that was refused already.
func (l *loader) validate() {
	l.checkRequired(reflect.ValueOf(l.config).Elem(), "")
	l.checkLater(reflect.ValueOf(l.config).Elem(), "")
	l.checkDataDir()
	l.checkKeys()
	l.checkOpenDoor()
	l.checkTLS()
	l.checkOrigins()
	l.checkUpstreams()
	l.checkAliases()
	l.checkModelNames()
	l.checkRoutes()
	l.checkStore()
}

// checkStore finds a limit that would store nothing: most likely its unit is missing.
func (l *loader) checkStore() {
	const least = 1 << 20
	if n := l.config.Store.Responses; n > 0 && n < least && l.good("store.responses") {
		l.problem("store.responses", fmt.Sprintf("store.responses: %d bytes are less than 1MiB", n), "write a size such as 1GiB, or 0 for no limit")
	}
}

// checkRequired reports what list items cannot do without.
func (l *loader) checkRequired(v reflect.Value, key string) {
	for _, f := range fieldsOf(v.Type()) {
		key := join(key, f.name)
		if f.required && !l.isSet(key) && l.good(parent(key)) {
			l.problem(parent(key), fmt.Sprintf("%s needs %s", parent(key), f.name), "add "+f.name+": "+exampleOf(f))
		}
		if isStruct(f.typ) {
			l.checkRequired(v.Field(f.index), key)
		}
		if f.typ.Kind() == reflect.Slice && isStruct(f.typ.Elem()) {
			for i := range v.Field(f.index).Len() {
				l.checkRequired(v.Field(f.index).Index(i), fmt.Sprintf("%s[%d]", key, i))
			}
		}
	}
}

func exampleOf(f field) string {
	switch {
	case f.typ.Kind() == reflect.Slice:
		return "[" + f.example + "]"
	case f.example != "":
		return f.example
	}
	return f.enum[0]
}

func (l *loader) checkKeys() {
	names, secrets := make(map[string]bool), make(map[string]string)
	for i, k := range l.config.Keys {
		key := fmt.Sprintf("keys[%d]", i)
		if k.Name != "" && names[k.Name] {
			l.problem(key+".name", fmt.Sprintf("%s.name: another key is called %q, too", key, k.Name), "give each its own name")
		}
		names[k.Name] = true
		if l.good(key+".expires") && !k.Expires.IsZero() && !k.Expires.After(l.src.Now()) {
			l.warnAt(l.origin(key+".expires"), "%s.expires is in the past: requests with the key %s are rejected", key, k.Name)
		}
		if !l.isSet(key+".secret") || !l.good(key+".secret") {
			continue
		}
		secret := k.Secret.Reveal()
		other, taken := secrets[secret]
		switch {
		case secret == "":
			l.problem(key+".secret", key+".secret: the secret is empty", "make one: openssl rand -hex 16")
		case taken:
			l.problem(key+".secret", fmt.Sprintf("%s.secret: the same secret as %s", key, other), "give each key its own secret")
		default:
			secrets[secret] = key
			if utf8.RuneCountInString(secret) < goodSecret {
				l.warnAt(l.origin(key+".secret"), "%s.secret has less than %d characters, so others may guess it; make a better one: openssl rand -hex 16", key, goodSecret)
			}
		}
	}
}

// checkOpenDoor refuses to serve everybody who can reach the machine.
func (l *loader) checkOpenDoor() {
	if len(l.config.Keys) > 0 || !l.good("listen") || !l.good("keys") {
		return
	}
	host, _, err := net.SplitHostPort(l.config.Listen)
	if err == nil && !names.IsLoopback(host) {
		l.problem("listen", fmt.Sprintf("listen: %s can be reached from other machines, and there is no key", l.config.Listen),
			"add one under keys, or listen on 127.0.0.1")
	}
}

// checkOrigins refuses to let every web page in: any of them can put a sandboxed frame on itself, whose origin is null.
func (l *loader) checkOrigins() {
	l.checkTwice("origins", l.config.Origins)
	l.checkTwice("hosts", l.config.Hosts)
	if i := slices.Index(l.config.Origins, "null"); i >= 0 && len(l.config.Keys) == 0 && l.good("keys") {
		l.problem(fmt.Sprintf("origins[%d]", i), "origins: every web page can have the origin null, and there is no key", "add one under keys, or remove null")
	}
}

// maxAliasSteps is how many aliases may stand for each other in a row. It bounds the work of looking for circles.
const maxAliasSteps = 16

// checkAliases follows each alias to its end.
func (l *loader) checkAliases() {
	aliases := l.config.Models.Aliases
	for name := range aliases {
		key := join("models.aliases", name)
		if name == "" || strings.ContainsFunc(name, notVisible) {
			l.problem(key, fmt.Sprintf("models.aliases: %q is not the name of a model or a pattern", name), "write names without spaces")
			continue
		}
		if names.IsPattern(aliases[name]) {
			l.problem(key, fmt.Sprintf("models.aliases: %s stands for %q, which is a pattern", name, aliases[name]), "name one model")
			continue
		}
		seen := []string{name}
		for next, ok := aliases[name]; ok; next, ok = aliases[next] {
			if len(seen) > maxAliasSteps {
				l.problem(key, fmt.Sprintf("models.aliases: %s leads over more than %d other names", name, maxAliasSteps), "name the model itself")
				break
			}
			if slices.Contains(seen, next) {
				// Of all the names on a circle, one is enough to report it.
				if next == name && name == slices.Min(seen) {
					l.problem(key, fmt.Sprintf("models.aliases: %s never ends", strings.Join(append(seen, name), " → ")), "")
				}
				break
			}
			seen = append(seen, next)
		}
	}
}

func (l *loader) checkRoutes() {
	var names []string
	known := make(map[string]bool)
	for i, u := range l.config.Upstreams {
		if !l.good(fmt.Sprintf("upstreams[%d].name", i)) {
			return // a route may well mean the one whose name was refused
		}
		if u.Name != "" && !known[u.Name] {
			names, known[u.Name] = append(names, u.Name), true
		}
	}
	if !l.good("upstreams") {
		return
	}
	for i, r := range l.config.Models.Routes {
		key := fmt.Sprintf("models.routes[%d].to", i)
		if len(r.To) == 0 && l.isSet(key) && l.good(key) {
			l.problem(key, key+": expected at least one upstream", "")
		}
		for j, name := range r.To {
			item := fmt.Sprintf("%s[%d]", key, j)
			if known[name] || !l.good(item) {
				continue
			}
			l.problem(item, fmt.Sprintf("%s: no upstream is called %q", key, name), l.hint(func() string { return hintForUpstream(name, names) }))
		}
	}
}

// maxNamed is how many names are listed in a hint.
const maxNamed = 20

func hintForUpstream(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "none is configured"
	}
	if more := len(known) - maxNamed; more > 0 {
		return fmt.Sprintf("known upstreams: %s and %d more", strings.Join(known[:maxNamed], ", "), more)
	}
	return "known upstreams: " + strings.Join(known, ", ")
}
