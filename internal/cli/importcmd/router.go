package importcmd

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"perigee/internal/store/config"
)

// claudeNames are the models that Claude Code asks for. claude-code-router replaces all of them.
const claudeNames, smallClaudeNames = "claude-*", "claude-*haiku*"

// defaultThreshold is the length in tokens from which claude-code-router uses longContext.
const defaultThreshold = 60000

// logLevels are the levels of claude-code-router.
var logLevels = map[string]string{"fatal": "error", "error": "error", "warn": "warn", "info": "info", "debug": "debug", "trace": "debug"}

// claudeCodeRouter reads a configuration of claude-code-router.
func (d *draft) claudeCodeRouter(root entry) {
	if secret := d.secret(root.get("APIKEY"), "PERIGEE_KEY"); secret != "" {
		d.file.Keys = []key{{"claude-code", secret}}
	}
	host, port := root.get("HOST"), root.get("PORT")
	if host.text() != "" || port.exists() {
		d.file.Listen = d.listen(cmp.Or(host.peek(), "127.0.0.1"), port, cmp.Or(port.text(), "3456"))
	}
	d.file.Proxy = d.proxy(root.get("PROXY_URL"))
	if level := root.get("LOG_LEVEL"); logLevels[level.peek()] != "" {
		d.file.Log = logLevels[level.text()]
	}
	names := make(map[string]string) // of upstreams by the names of providers
	for _, list := range []string{"Providers", "providers"} {
		for _, item := range root.get(list).items() {
			name := item.get("name")
			u, ok := d.routerProvider(item)
			if !ok {
				continue
			}
			if upstream := d.add(u, item.path); upstream != "" {
				names[name.text()] = upstream
			}
		}
	}
	d.scenarios(root.get("Router"), names)
}

// routerProvider reads a provider. It returns false if it has no address.
func (d *draft) routerProvider(item entry) (u upstream, ok bool) {
	base, ok := d.base(item.get("api_base_url"))
	if !ok {
		return u, false
	}
	use := item.get("transformer").get("use")
	u = upstream{Name: item.get("name").peek(), Kind: config.KindOpenAI}
	has := func(name string) bool {
		return slices.ContainsFunc(use.items(), func(t entry) bool { return transformerName(t) == name })
	}
	switch {
	case has("vertex-gemini"), has("vertex-claude"), has("vertex-ai"):
		u.Kind = kindVertex
	case has("gemini"), strings.Contains(base, "generativelanguage.googleapis.com") && !strings.HasSuffix(base, "/openai/chat/completions"):
		u.Kind = config.KindGemini
	case has("Anthropic"), has("anthropic"), strings.HasSuffix(strings.TrimRight(base, "/"), "/messages"):
		u.Kind = config.KindAnthropic
	case has("openai-response"), has("openai-responses"), strings.HasSuffix(strings.TrimRight(base, "/"), "/responses"):
		u.API = "responses"
	}
	if u.Kind != kindVertex {
		d.setAddress(&u, base)
	} else if u.Location, u.Project, ok = vertexPlace(base); !ok {
		d.note(item.get("api_base_url").path, "left out: it is not an address of Vertex AI that names the location")
	}
	switch secret := item.get("api_key"); u.Kind {
	case kindOllama, kindVertex:
	default:
		if reference := d.secret(secret, u.Name+"_API_KEY"); reference != "" {
			u.Keys = []string{reference}
		}
	}
	u.Models = item.get("models").texts()
	for _, t := range use.items() {
		d.transformer(&u, t)
	}
	if u.Kind == kindVertex && u.Project == "" {
		d.note(item.path, "no project: perigee uses GOOGLE_CLOUD_PROJECT or the one of the credentials; otherwise set project of the upstream")
	}
	for _, model := range item.get("transformer").keys() {
		if model == "use" {
			continue
		}
		for _, t := range item.get("transformer").get(model).get("use").items() {
			if own := transformerName(t); t.isText() && isNative(own) {
				t.done()
			}
		}
	}
	return u, true
}

// vertexPlace returns the location and the project in an address of Vertex AI, which may name no project.
func vertexPlace(base string) (location, project string, ok bool) {
	u, err := url.Parse(base)
	if err != nil {
		return "", "", false
	}
	if _, rest, found := strings.Cut(u.Path, "/projects/"); found {
		project, _, _ = strings.Cut(rest, "/")
	}
	const host = "aiplatform.googleapis.com"
	if u.Hostname() == host {
		return "global", project, true
	}
	if location, ok = strings.CutSuffix(u.Hostname(), "-"+host); ok {
		return location, project, true
	}
	if location, ok = strings.CutSuffix(u.Hostname(), ".rep.googleapis.com"); ok {
		return strings.TrimPrefix(location, "aiplatform."), project, true
	}
	return "", "", false
}

// transformerName returns the name of a transformer, which is alone or in a list with its options.
func transformerName(t entry) string {
	if list := t.items(); len(list) > 0 {
		return list[0].peek()
	}
	return t.peek()
}

// isNative reports whether perigee does by itself what a transformer does: it knows how the providers
// differ, and adapts reasoning, sampling parameters and cache marks.
func isNative(name string) bool {
	return slices.Contains([]string{"openrouter", "deepseek", "groq", "gemini", "Anthropic", "anthropic", "openai", "openai-response",
		"openai-responses", "vertex-gemini", "vertex-claude", "vertex-ai", "reasoning", "sampling", "cleancache"}, name)
}

// transformer applies a transformer of a provider to its upstream.
func (d *draft) transformer(u *upstream, t entry) {
	name, options := transformerName(t), entry{}
	if list := t.items(); len(list) > 1 {
		options = list[1]
	}
	nameDone := func() {
		t.text()
		if list := t.items(); len(list) > 0 {
			list[0].done()
		}
	}
	if isNative(name) {
		nameDone()
	}
	switch name {
	case "maxtoken":
		limit := options.get("max_tokens")
		if at := member(u.Kind, "max_tokens"); at != "" && limit.exists() {
			u.Set = map[string]any{at: int(limit.number())}
			nameDone()
		}
	case "openrouter":
		for option, header := range map[string]string{"referer": "HTTP-Referer", "title": "X-Title"} {
			if value := options.get(option).text(); value != "" {
				if u.Headers == nil {
					u.Headers = make(map[string]string)
				}
				u.Headers[header] = value
			}
		}
		var routing any
		if provider := options.get("provider"); provider.exists() && provider.node.Decode(&routing) == nil {
			provider.done()
			u.Set = map[string]any{"provider": routing}
		}
	case "vertex-gemini", "vertex-claude", "vertex-ai":
		u.Project = cmp.Or(d.plain(firstOf(options, "project", "projectId")), u.Project)
		u.Location = cmp.Or(d.plain(firstOf(options, "location")), u.Location)
	}
}

// firstOf returns the first value of a mapping that exists.
func firstOf(e entry, keys ...string) entry {
	for _, key := range keys {
		if found := e.get(key); found.exists() {
			return found
		}
	}
	return entry{}
}

// scenarios reads the models for scenarios. Each becomes a route for the names that Claude Code asks
// for; the first that matches applies, as in claude-code-router.
func (d *draft) scenarios(router entry, upstreams map[string]string) {
	model := func(scenario string) string {
		e := router.get(scenario)
		provider, name, ok := strings.Cut(e.peek(), ",")
		upstream := upstreams[strings.TrimSpace(provider)]
		if !ok || upstream == "" {
			return ""
		}
		e.done()
		return upstream + "/" + strings.TrimSpace(name)
	}
	if long := model("longContext"); long != "" {
		threshold := router.get("longContextThreshold").number()
		if threshold <= 0 {
			threshold = defaultThreshold
		}
		d.route(route{Match: claudeNames, When: condition{InputTokens: fmt.Sprintf(">%d", int(threshold))}, Model: long})
	}
	if image := model("image"); image != "" {
		d.route(route{Match: claudeNames, When: condition{Images: true}, Model: image})
	}
	if background := model("background"); background != "" {
		d.route(route{Match: smallClaudeNames, Model: background})
	}
	if standard := model("default"); standard != "" {
		d.file.Models.Default = standard
		d.route(route{Match: claudeNames, Model: standard})
	}
	for _, scenario := range []string{"think", "webSearch"} {
		if e := router.get(scenario); e.peek() != "" && e.peek() == router.get("default").peek() {
			e.done() // the route for all names has the same model
		}
	}
}
