package importcmd

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"perigee/internal/lib/match"
	"perigee/internal/store/config"
)

// liteLLM reads a configuration of LiteLLM's proxy.
func (d *draft) liteLLM(root entry) {
	if secret := d.secret(root.get("general_settings").get("master_key"), "PERIGEE_KEY"); secret != "" {
		d.file.Keys = []key{{"master", secret}}
	}
	for _, p := range providers { // LiteLLM reads these variables, too
		if p.key != "" {
			d.variables[p.key] = ""
		}
	}
	var list []deployment
	for _, item := range root.get("model_list").items() {
		next, ok := d.deployment(root, item)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(list, next.sameUpstream); i >= 0 {
			list[i].serves = append(list[i].serves, next.serves...)
		} else {
			list = append(list, next)
		}
	}
	list = merge(list, "round_robin")
	for i := range list {
		list[i].offer()
	}
	d.deploy("model_list", list)
	aliases := root.get("router_settings").get("model_group_alias")
	for _, name := range aliases.keys() {
		target := aliases.get(name)
		if inner := target.get("model"); inner.exists() {
			target = inner
		}
		d.alias(target.path, name, target.text())
	}
	if drop := root.get("litellm_settings").get("drop_params"); drop.peek() == "true" || drop.peek() == "True" {
		drop.done() // perigee does it, with a note in the answer
	}
}

// deploy adds upstreams, and the names of their models. path is the setting with the names.
func (d *draft) deploy(path string, list []deployment) {
	var names []string
	targets := make(map[string][]served) // upstreams with their models by the name for clients
	for _, next := range list {
		upstream := d.add(next.upstream, next.path)
		if upstream == "" {
			continue
		}
		for _, s := range next.serves {
			if !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
			if t := (served{upstream, s.model}); !slices.Contains(targets[s.name], t) {
				targets[s.name] = append(targets[s.name], t)
			}
		}
	}
	// The first route that matches applies, so patterns come last.
	slices.SortStableFunc(names, func(a, b string) int {
		if one, other := match.IsPattern(a), match.IsPattern(b); one != other {
			return map[bool]int{true: 1, false: -1}[one]
		} else if one {
			return match.BySpecificity(a, b)
		}
		return 0
	})
	for _, name := range names {
		d.serve(path, name, targets[name])
	}
}

// sameUpstream reports whether two deployments have the same upstream with the same keys.
func (a deployment) sameUpstream(b deployment) bool {
	return slices.Equal(a.Keys, b.Keys) && a.equalSettings(b)
}

// offer restricts an upstream to the models that it serves, unless one of them is a pattern for all.
func (a *deployment) offer() {
	for _, s := range a.serves {
		if s.model == "*" {
			a.Models = nil
			return
		}
		if !slices.Contains(a.Models, s.model) {
			a.Models = append(a.Models, s.model)
		}
	}
}

// deployment reads an item of model_list. It returns false if perigee cannot call its provider.
func (d *draft) deployment(root, item entry) (next deployment, ok bool) {
	params := item.get("litellm_params")
	param := func(names ...string) entry {
		credential := d.credential(root, params)
		for _, from := range []entry{params, credential} {
			for _, name := range names {
				if e := from.get(name); e.exists() {
					return e
				}
			}
		}
		return entry{}
	}
	name, model := item.get("model_name"), params.get("model")
	owner, bare := ownerOf(model.peek(), param("custom_llm_provider").peek())
	p, known := providers[owner]
	base := param("api_base", "base_url")
	why := ""
	switch {
	case !known:
		why = "perigee has no kind of upstream for the provider " + cmp.Or(owner, "of this model")
	case bare == "":
		why = "it names no model"
	case !base.exists() && p.kind == config.KindOpenAI && p.url == "" && owner != "openai":
		why = "it has no api_base"
	}
	if why != "" {
		d.note(item.path, "left out: %s", why)
		return next, false
	}
	name.done()
	model.done()
	param("custom_llm_provider").done()
	next = deployment{path: item.path, serves: []served{{name.peek(), bare}}}
	u := &next.upstream
	*u = upstream{Name: strings.ReplaceAll(owner, "_", "-"), Kind: p.kind, URL: p.url, Profile: p.profile}
	if base.exists() {
		address, ok := d.base(base)
		if !ok {
			return next, false
		}
		d.setAddress(u, address)
	}
	if secret := param("api_key"); secret.peek() == "none" {
		secret.done()
	} else if reference := d.secret(secret, cmp.Or(p.key, variableName(owner)+"_API_KEY")); reference != "" && u.Kind != kindOllama {
		u.Keys = []string{reference}
	} else if !base.exists() && p.key != "" { // LiteLLM reads it as well
		u.Keys = []string{"env:" + p.key}
	}
	if u.Kind == kindVertex {
		u.Project, u.Location = d.plain(param("vertex_project")), d.plain(param("vertex_location"))
		if file := param("vertex_credentials"); file.exists() && !strings.HasPrefix(strings.TrimSpace(file.peek()), "{") {
			u.Credentials = "file:" + d.plain(file)
		}
	}
	if organization := param("organization"); organization.isText() {
		u.Headers = map[string]string{"OpenAI-Organization": d.plain(organization)}
	}
	d.headers(u, param("extra_headers", "headers"))
	u.Concurrency = int(param("max_parallel_requests").number())
	for _, name := range []string{"temperature", "top_p", "max_tokens", "seed"} {
		if at := member(u.Kind, name); at != "" && params.get(name).exists() {
			if u.Default == nil {
				u.Default = make(map[string]any)
			}
			u.Default[at] = params.get(name).number()
		}
	}
	if drop := params.get("drop_params"); drop.peek() == "true" {
		drop.done()
	}
	d.price(bare, params, item.get("model_info"))
	return next, true
}

// credential returns the values of the entry in credential_list that a deployment names.
func (d *draft) credential(root, params entry) entry {
	wanted := params.get("litellm_credential_name")
	for _, c := range root.get("credential_list").items() {
		if name := c.get("credential_name"); wanted.exists() && name.peek() == wanted.peek() {
			wanted.done()
			name.done()
			return c.get("credential_values")
		}
	}
	return entry{}
}

// ownerOf returns the provider of a model in LiteLLM's form, PROVIDER/MODEL, and the provider's name of
// the model. LiteLLM knows some models without the provider.
func ownerOf(model, custom string) (owner, bare string) {
	owner, bare, found := strings.Cut(model, "/")
	if custom != "" {
		return custom, strings.TrimPrefix(model, custom+"/")
	}
	if found {
		return strings.TrimPrefix(owner, "text-completion-"), bare
	}
	for _, known := range [][2]string{{"claude-", "anthropic"}, {"gpt-", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"},
		{"text-embedding-", "openai"}, {"dall-e-", "openai"}, {"chatgpt-", "openai"}, {"gemini-", "vertex_ai"}} {
		if strings.HasPrefix(model, known[0]) {
			return known[1], model
		}
	}
	return "", model
}

// setAddress sets the address of an upstream, and what follows from it.
func (d *draft) setAddress(u *upstream, base string) {
	switch {
	case u.Kind == config.KindOpenAI && isAzure(base):
		u.URL, u.Auth = azureAddress(base), "api-key"
	case u.Kind == config.KindOpenAI && isOllama(base):
		u.Kind, u.URL = kindOllama, address(kindOllama, base)
	default:
		u.URL = address(u.Kind, base)
	}
	if u.URL == config.KindOf(u.Kind).URL || u.Kind == kindOllama && u.URL == "http://localhost:11434" {
		u.URL = ""
	}
}

// price adds the price of a model, if there is one for input and output.
func (d *draft) price(model string, places ...entry) {
	for _, e := range places {
		input, output := e.get("input_cost_per_token"), e.get("output_cost_per_token")
		if !input.exists() || !output.exists() || slices.ContainsFunc(d.file.Prices, func(p price) bool { return p.Model == model }) {
			continue
		}
		perMillion := func(e entry) float64 { return math.Round(e.number()*1e12) / 1e6 }
		d.file.Prices = append(d.file.Prices, price{model, perMillion(input), perMillion(e.get("cache_read_input_token_cost")), perMillion(output)})
	}
}

// serve adds the route or the alias for a client's name of a model. targets are upstreams with their
// names of it.
func (d *draft) serve(path, name string, targets []served) {
	model := targets[0].model
	var to []string
	for _, t := range targets {
		if t.model == model {
			to = append(to, t.name)
		} else {
			d.note(path, "%s is also served by %s of %s; perigee uses one model for a name, %s", name, t.model, t.name, model)
		}
	}
	switch {
	case match.IsPattern(name) || match.IsPattern(model):
		prefix, _, _ := strings.Cut(name, "/")
		if name == to[0]+"/*" && model == "*" {
			return // UPSTREAM/MODEL means that without a route
		}
		if name != model {
			d.note(path, "%s: perigee does not change names by a pattern; clients use %s/MODEL", name, cmp.Or(to[0], prefix))
			return
		}
		d.route(route{Match: name, To: to})
	case len(to) == 1 && name == model:
		if len(d.file.Upstreams) > 1 {
			d.route(route{Match: name, To: to})
		}
	case len(to) == 1:
		d.alias(path, name, to[0]+"/"+model)
	default:
		if name != model {
			d.alias(path, name, model)
		}
		d.route(route{Match: model, To: to})
	}
}

// route adds a route, unless there is one for the same requests.
func (d *draft) route(r route) {
	if !slices.ContainsFunc(d.file.Models.Routes, func(known route) bool { return known.Match == r.Match && known.When == r.When }) {
		d.file.Models.Routes = append(d.file.Models.Routes, r)
	}
}

// alias adds an alias, unless there is one with this name.
func (d *draft) alias(path, name, model string) {
	if strings.ContainsAny(name+model, " \t\n") {
		d.note(path, "%q: perigee accepts no spaces in names of models", name)
		return
	}
	if known, taken := d.file.Models.Aliases[name]; taken && known != model {
		d.note(path, "%s is also a name of %s; perigee uses one model for a name, %s", name, model, known)
		return
	}
	if d.file.Models.Aliases == nil {
		d.file.Models.Aliases = make(map[string]string)
	}
	if name != "" && model != "" {
		d.file.Models.Aliases[name] = model
	}
}
