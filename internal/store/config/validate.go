package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/match"
	"perigee/internal/lib/netguard"
	"perigee/internal/store/datadir"
)

// validate checks rules that involve more than one value. Every check runs, whatever is found
// before; loader.problem and loader.warn ignore values that were refused already.
func (l *loader) validate() {
	l.checkFields()
	l.warnAboutDeprecated(l.Config)
	l.checkDataDir()
	l.checkKeys()
	l.checkListener()
	l.checkTLS()
	l.checkInterception()
	l.checkMCP()
	l.checkOrigins()
	l.checkUpstreams()
	l.checkAliases()
	l.checkModelNames()
	l.checkRoutes()
	l.checkStore()
	l.checkPrices()
	l.checkBudgets()
	l.checkVariables()
	l.warnAboutReadableSecrets()
}

// checkFields reports required values that are missing.
func (l *loader) checkFields() {
	walkSettings(l.Config, func(s setting) bool {
		if !s.item && s.field.required && !l.isSet(s.key) {
			l.problem(s.key, fmt.Sprintf("%s needs %s", parentKey(s.key), s.field.name), "add "+s.field.name+": "+exampleOf(s.field))
		}
		return true
	})
}

// warnAboutDeprecated warns about each key that is set although it is deprecated, in the struct that
// c points to.
func (l *loader) warnAboutDeprecated(c any) {
	walkSettings(c, func(s setting) bool {
		if !s.item && s.field.deprecated != "" && l.isSet(s.key) {
			l.warn(s.key, "%s is deprecated %s", s.key, s.field.deprecated)
		}
		return true
	})
}

// checkDataDir warns about a data directory that cannot be used: commands that only read the
// configuration need no data.
func (l *loader) checkDataDir() {
	if l.Config.DataDir == "" {
		l.problem("data_dir", "data_dir: no home directory found", "set data_dir or PERIGEE_DATA_DIR")
	} else if l.src.ReadFile == nil {
		if err := datadir.CheckWritable(l.Config.DataDir); err != nil {
			l.warn("data_dir", "data_dir: %s", err)
		}
	}
}

// checkStore reports a limit that is too small to store anything, probably because its unit is
// missing.
func (l *loader) checkStore() {
	if n := l.Config.Store.Responses; n > 0 && n < 1<<20 {
		l.problem("store.responses", fmt.Sprintf("store.responses: %d bytes is less than 1MiB", n),
			"write a size such as 1GiB, or 0 for no limit")
	}
}

const goodSecret = 16 // characters; shorter ones can be guessed

func (l *loader) checkKeys() {
	names, secrets := make(map[string]bool), make(map[string]string)
	for i, k := range l.Config.Keys {
		key := itemKey("keys", i)
		if k.Name != "" && names[k.Name] {
			l.problem(key+".name", fmt.Sprintf("%s.name: another key has the name %q as well", key, k.Name), "use a different name")
		}
		names[k.Name] = true
		if !k.Expires.IsZero() && !k.Expires.After(l.src.Now()) {
			l.warn(key+".expires", "%s.expires is in the past: requests with the key %s are rejected", key, k.Name)
		}
		if !l.isSet(key+".secret") || !l.accepted(key+".secret") {
			continue
		}
		secret := k.Secret.Reveal()
		other, taken := secrets[secret]
		switch {
		case secret == "":
			l.problem(key+".secret", key+".secret: the secret is empty", "generate one with openssl rand -hex 16")
		case taken:
			l.problem(key+".secret", fmt.Sprintf("%s.secret: the same secret as %s", key, other), "give each key its own secret")
		case utf8.RuneCountInString(secret) < goodSecret:
			l.warn(key+".secret", "%s.secret has fewer than %d characters and can be guessed; generate one with openssl rand -hex 16",
				key, goodSecret)
		}
		secrets[secret] = cmp.Or(other, key)
	}
}

// checkListener refuses to serve other machines without a key.
func (l *loader) checkListener() {
	if len(l.Config.Keys) == 0 && !netguard.ListensOnLoopback(l.Config.Listen) && l.accepted("keys") {
		l.problem("listen", fmt.Sprintf("listen: %s can be reached from other machines, but no key is configured", l.Config.Listen),
			"add one under keys, or listen on 127.0.0.1")
	}
}

// checkInterception refuses a proxy that other machines could use: it would give them access to the
// network of this one.
func (l *loader) checkInterception() {
	i := l.Config.Interception
	l.checkDuplicates("interception.hosts", i.Hosts)
	if !netguard.ListensOnLoopback(i.Listen) {
		l.problem("interception.listen", fmt.Sprintf("interception.listen: %s can be reached from other machines", i.Listen), "listen on 127.0.0.1")
	}
}

// checkMCP checks rules that concern several keys of mcp.
func (l *loader) checkMCP() {
	m := l.Config.MCP
	l.checkNotEmpty("mcp.ask", m.Ask, "one of ide, langserver and model")
	l.checkDuplicates("mcp.roots", m.Roots)
	if m.AskMax < m.AskTimeout {
		l.problem("mcp.ask_max", fmt.Sprintf("mcp.ask_max: %s is shorter than mcp.ask_timeout (%s)", m.AskMax, m.AskTimeout), "make it longer")
	}
	for _, root := range m.Roots {
		if info, err := os.Stat(root); l.src.ReadFile == nil && (err != nil || !info.IsDir()) {
			l.warn("mcp.roots", "mcp.roots: %s is not a directory that can be read", root)
		}
	}
}

// checkOrigins refuses the origin null without a key: every web page can open a sandboxed frame,
// which has the origin null.
func (l *loader) checkOrigins() {
	l.checkDuplicates("origins", l.Config.Origins)
	l.checkDuplicates("hosts", l.Config.Hosts)
	if i := slices.Index(l.Config.Origins, "null"); i >= 0 && len(l.Config.Keys) == 0 && l.accepted("keys") {
		l.problem(itemKey("origins", i), "origins: any web page can have the origin null, but no key is configured",
			"add one under keys, or remove null")
	}
}

const (
	termsMessage = "%s: accept_terms_risk is not true. Kind %s uses a private API: " +
		"the provider's terms allow only its own clients there, and accounts have been suspended"
	termsHint = "use kind: gemini with an API key instead, or set accept_terms_risk: true to accept the risk"
)

func (l *loader) checkUpstreams() {
	names := make(map[string]bool)
	for i, u := range l.Config.Upstreams {
		key := itemKey("upstreams", i)
		l.checkUpstreamName(u, key, names)
		if !l.accepted(key+".kind") || !l.isSet(key+".kind") {
			continue
		}
		if k := KindOf(u.Kind); k.Keys && len(u.Keys) == 0 && u.needsKey(k) && l.accepted(key+".url") {
			l.problem(key+".keys", fmt.Sprintf("%s: kind %s needs an API key", key, k.Name), "add keys: [env:"+k.KeyVariable+"]")
		}
		for j, secret := range u.Keys {
			if item := itemKey(key+".keys", j); secret.IsZero() {
				l.problem(item, item+": the key is empty", "")
			}
		}
		if terms := key + ".accept_terms_risk"; upstreamField("accept_terms_risk").belongs(u.Kind) && !u.AcceptTermsRisk && l.accepted(terms) {
			at := key + ".kind"
			if l.isSet(terms) {
				at = terms
			}
			l.problem(at, fmt.Sprintf(termsMessage, key, u.Kind), termsHint)
		}
		if u.HasAccounts() && u.OAuth.ClientID == "" && l.accepted(key+".oauth.client_id") {
			l.warn("", "upstream %s has no oauth.client_id; sign-in and import use the client of an installed Antigravity IDE", u.Name)
		}
		if KindOf(u.Kind).Keys {
			l.checkRequests(u, key)
		}
		if list := KindOf(u.Kind).Profiles; list != nil && !slices.Contains(list, u.Profile) && l.accepted(key+".profile") {
			l.problem(key+".profile", fmt.Sprintf("%s.profile: kind %s has no profile %s", key, u.Kind, u.Profile), "use "+strings.Join(list[:len(list)-1], ", ")+" or "+list[len(list)-1])
		}
		switch u.Kind {
		case KindAnthropic:
			l.checkNoVersion(u, key+".url", "/v1", "/v1/messages", "/v1/models")
		case KindOllama:
			l.checkNoVersion(u, key+".url", "/v1", "/api", "/api/chat")
		case KindVertex:
			l.checkVertex(u, key)
		case KindAntigravity:
			l.checkNotEmpty(key+".endpoints", u.Endpoints, "an address")
			l.checkNotEmpty(key+".pools", u.Pools, "a pool")
		case KindLangserver:
			l.checkLangserver(u, key)
		case KindIDE:
			l.checkWorkspace(u.Workspace, key+".workspace")
		}
	}
}

// needsKey reports whether calls of the upstream need a key.
func (u *Upstream) needsKey(k Kind) bool {
	return u.Auth != "none" && !k.NoKey && (!k.Keyless || u.URL == "" || sameHost(u.URL, k.URL))
}

// checkVertex refuses settings of a project beside API keys, which belong to a project themselves, and
// variables that would change the address of calls.
func (l *loader) checkVertex(u Upstream, key string) {
	for _, v := range []struct {
		key, own, name string
		check          func(string) string
	}{{"project", u.Project, "GOOGLE_CLOUD_PROJECT", CheckProject}, {"location", u.Location, "GOOGLE_CLOUD_LOCATION", CheckLocation}} {
		if why := v.check(l.src.lookup(v.name)); why != "" && v.own == "" && len(u.Keys) == 0 && !l.spared(joinKey(key, v.key)) {
			l.report(Origin{Source: "environment " + v.name}, joinKey(key, v.key)+": "+why, "set "+v.key+" of the upstream "+u.Name+", or unset "+v.name)
		}
	}
	for _, name := range []string{"project", "location", "credentials"} {
		if at := key + "." + name; len(u.Keys) > 0 && l.isSet(at) {
			l.problem(at, at+": keys are set, too, and API keys belong to a project and the location global", "remove keys, or "+name)
		}
	}
}

// sameHost reports whether two addresses have the same host.
func sameHost(a, b string) bool {
	one, err := url.Parse(a)
	other, err2 := url.Parse(b)
	return err == nil && err2 == nil && strings.EqualFold(one.Hostname(), other.Hostname())
}

func (l *loader) checkUpstreamName(u Upstream, key string, names map[string]bool) {
	at := key + ".name"
	if !l.isSet(at) {
		return
	}
	if names[u.Name] {
		l.problem(at, fmt.Sprintf("%s: another upstream has the name %q as well", at, u.Name), "use a different name")
	}
	names[u.Name] = true
	if u.Name == KindSimulator && u.Kind != KindSimulator && l.accepted(key+".kind") {
		l.problem(at, at+": the name simulator is reserved for kind simulator", "choose another name")
	}
}

func (l *loader) checkNotEmpty(key string, list []string, what string) {
	if len(list) == 0 {
		l.problem(key, fmt.Sprintf("%s: expected at least %s", key, what), "leave it out for the default")
	}
	l.checkDuplicates(key, list)
}

func (l *loader) checkDuplicates(key string, list []string) {
	seen := make(map[string]bool)
	for i, item := range list {
		if seen[item] {
			l.problem(itemKey(key, i), fmt.Sprintf("%s: %s is listed twice", key, item), "")
		}
		seen[item] = true
	}
}

// maxAliasSteps bounds the length of a chain of aliases.
const maxAliasSteps = 16

// checkAliases follows each alias to its end.
func (l *loader) checkAliases() {
	aliases := l.Config.Models.Aliases
	for name, target := range aliases {
		key := joinKey("models.aliases", name)
		if name == "" || strings.ContainsFunc(name, notVisible) {
			l.problem(key, fmt.Sprintf("models.aliases: %q is neither a model name nor a pattern", name), "use a name without spaces")
			continue
		}
		if match.IsPattern(target) {
			l.problem(key, fmt.Sprintf("models.aliases: %s refers to %q, which is a pattern", name, target), "refer to one model")
			continue
		}
		seen := []string{name}
		for next, ok := target, true; ok; next, ok = aliases[next] {
			if len(seen) > maxAliasSteps {
				l.problem(key, fmt.Sprintf("models.aliases: %s is resolved through more than %d other aliases", name, maxAliasSteps), "refer to the model directly")
				break
			}
			if slices.Contains(seen, next) {
				// Of all names in a cycle, only the first in order is reported.
				if next == name && name == slices.Min(seen) {
					l.problem(key, fmt.Sprintf("models.aliases: %s is a cycle", strings.Join(append(seen, name), " → ")), "")
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
	for i, u := range l.Config.Upstreams {
		if !l.accepted(itemKey("upstreams", i) + ".name") {
			return // a route may refer to the upstream with the refused name
		}
		if u.Name != "" && !known[u.Name] {
			names, known[u.Name] = append(names, u.Name), true
		}
	}
	if !l.accepted("upstreams") {
		return
	}
	for i, r := range l.Config.Models.Routes {
		item := itemKey("models.routes", i)
		key := item + ".to"
		switch refused := !l.accepted(key) || !l.accepted(item+".model"); {
		case len(r.To) > 0 || refused:
		case l.isSet(key):
			l.problem(key, key+": expected at least one upstream", "")
		case r.Model == "" && l.isSet(item):
			l.problem(item, item+": expected to, model or both", "to: [NAME] names the upstreams of the route")
		}
		if match.IsPattern(r.Model) {
			l.problem(item+".model", fmt.Sprintf("%s.model: %s is a pattern", item, r.Model), "name one model")
		}
		for j, name := range r.To {
			if item := itemKey(key, j); !known[name] && l.accepted(item) {
				l.problem(item, fmt.Sprintf("%s: there is no upstream named %q", key, name), l.hint(func() string { return hintForUpstream(name, names) }))
			}
		}
	}
}

// maxNamed is how many names a hint lists.
const maxNamed = 20

func hintForUpstream(name string, known []string) string {
	near, more := nearest(name, known), len(known)-maxNamed
	switch {
	case near != "":
		return fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		return "none is configured"
	case more > 0:
		return fmt.Sprintf("known upstreams: %s and %d more", strings.Join(known[:maxNamed], ", "), more)
	}
	return "known upstreams: " + strings.Join(known, ", ")
}

// thinkingSuffix is the part of a model name that sets how much the model thinks.
var thinkingSuffix = lazyregexp.New(`(?:\([^()]*\)|-(?:minimal|low|medium|high))$`)

// checkModelNames warns about names that are similar to names of models. Only an upstream can
// determine whether a model exists.
func (l *loader) checkModelNames() {
	models := l.Config.Models
	keys, names := []string{"models.default", "models.fallback"}, []string{models.Default, models.Fallback}
	for _, alias := range slices.Sorted(maps.Keys(models.Aliases)) {
		keys, names = append(keys, joinKey("models.aliases", alias)), append(names, models.Aliases[alias])
	}
	for i, r := range models.Routes {
		keys, names = append(keys, itemKey("models.routes", i)+".model"), append(names, r.Model)
	}
	for i, name := range names {
		key, base := keys[i], thinkingSuffix().ReplaceAllString(name, "")
		_, isAlias := models.Aliases[name]
		if name == "" || isAlias || slices.Contains(l.src.Models, name) || slices.Contains(l.src.Models, base) {
			continue
		}
		if near := l.hint(func() string { return misspeltModel(name, base, l.src.Models) }); near != "" {
			l.warn(key, "%s: there is no known model named %q; did you mean %s?", key, name, near)
		}
	}
}

// maxMisspelt is the largest edit distance of a misspelt model or variable.
const maxMisspelt = 2

// misspeltModel returns the known model that is most similar to name, or to base, which is name
// without its suffix. Names of models that differ in a number are different models.
func misspeltModel(name, base string, known []string) string {
	near, least := "", maxMisspelt+1
	for _, model := range known {
		if d := min(match.Distance(name, model), match.Distance(base, model)); d < least && match.SameNumbers(model, base) {
			near, least = model, d
		}
	}
	return near
}

// maxCompared is how many names are compared with a misspelt one.
const maxCompared = 1000

// nearest returns the known name that is most similar to name, or "".
func nearest(name string, known []string) string {
	if found := match.Nearest(name, known[:min(len(known), maxCompared)], 1); len(found) > 0 {
		return found[0]
	}
	return ""
}

// checkVariables reports PERIGEE_ variables that cannot be set or are nearly known. Other unknown
// variables may belong to other programs, and variables that the file refers to are known.
func (l *loader) checkVariables() {
	if l.src.Environ == nil {
		return
	}
	known, unusable := []string{EnvFile}, make(map[string]string)
	walkSettings(new(Config), func(s setting) bool {
		switch {
		case scalars[s.value.Type()] != nil:
			known = append(known, s.env())
		case isMapping(s.value.Type()):
			first := setting{key: joinKey(s.key, fieldsOf(s.value.Type())[0].name)}
			unusable[s.env()] = fmt.Sprintf("%s is a mapping; its keys have their own variables, such as %s", s.key, first.env())
		default:
			unusable[s.env()] = fmt.Sprintf("lists and mappings can only be set in the file; set %s there", s.key)
		}
		return true
	})
	for _, entry := range l.src.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PERIGEE_") || slices.Contains(known, name) || l.variables[name] {
			continue
		}
		origin := Origin{Source: "environment " + name}
		near := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(match.Distance(name, a), match.Distance(name, b)) })
		if message := unusable[name]; message != "" {
			l.report(origin, message, "")
		} else if match.Distance(name, near) <= maxMisspelt {
			l.report(origin, "unknown variable", fmt.Sprintf("did you mean %s?", near))
		}
	}
}
