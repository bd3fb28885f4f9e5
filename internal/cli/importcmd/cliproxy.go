package importcmd

import (
	"cmp"
	"fmt"

	"perigee/internal/store/config"
)

// cliProxySections are the lists of API keys in a configuration of CLIProxyAPI.
var cliProxySections = []struct {
	name string
	upstream
}{
	{"gemini-api-key", upstream{Name: "gemini", Kind: config.KindGemini}},
	{"claude-api-key", upstream{Name: "claude", Kind: config.KindAnthropic}},
	{"codex-api-key", upstream{Name: "codex", Kind: config.KindOpenAI, API: "responses"}},
	{"xai-api-key", upstream{Name: "xai", Kind: config.KindOpenAI, API: "responses", URL: "https://api.x.ai/v1"}},
	{"vertex-api-key", upstream{Name: "vertex", Kind: kindVertex}},
}

// cliProxyAPI reads a configuration of CLIProxyAPI.
func (d *draft) cliProxyAPI(root entry) {
	d.copiesHeaders = true
	for _, item := range root.get("api-keys").items() {
		if secret := d.secret(item, "PERIGEE_KEY"); secret != "" {
			d.file.Keys = append(d.file.Keys, key{fmt.Sprintf("client-%d", len(d.file.Keys)+1), secret})
		}
	}
	host, port := root.get("host"), root.get("port")
	if port.text() != "" {
		d.file.Listen = d.listen(host.text(), port, port.peek())
	}
	if certificate := root.get("tls"); certificate.get("enable").isTrue() {
		d.file.TLS = &tls{certificate.get("cert").text(), certificate.get("key").text()}
	} else {
		certificate.done()
	}
	if root.get("debug").isTrue() {
		d.file.Log = "debug"
	}
	d.file.Proxy = d.proxy(root.get("proxy-url"))
	spread := "round_robin"
	if strategy := root.get("routing").get("strategy"); strategy.peek() == "fill-first" {
		spread = "sticky"
		strategy.done()
	} else if strategy.peek() == "round-robin" {
		strategy.done()
	}
	var list []deployment
	for _, section := range cliProxySections {
		for _, item := range root.get(section.name).items() {
			list = append(list, d.cliProxyKey(item, section.upstream)...)
		}
	}
	for _, item := range root.get("openai-compatibility").items() {
		list = append(list, d.compatible(item)...)
	}
	d.deploy("models", merge(list, spread))
}

// cliProxyKey reads an entry of a list of API keys. The result is empty if it cannot be used.
func (d *draft) cliProxyKey(item entry, u upstream) []deployment {
	next := deployment{upstream: u, path: item.path}
	if base := item.get("base-url"); base.peek() != "" {
		address, ok := d.base(base)
		if !ok {
			return nil
		}
		d.setAddress(&next.upstream, address)
	}
	if secret := d.secret(item.get("api-key"), u.Name+"_API_KEY"); secret != "" {
		next.Keys = []string{secret}
	}
	if next.Kind == config.KindAnthropic && next.URL != "" { // CLIProxyAPI sends the header x-api-key only to Anthropic
		next.Auth = "bearer"
	}
	d.common(&next, item)
	return []deployment{next}
}

// compatible reads a provider with an API like OpenAI's. Keys with proxies of their own are upstreams
// of their own.
func (d *draft) compatible(item entry) (list []deployment) {
	if item.get("disabled").isTrue() {
		d.note(item.path, "left out: it is disabled")
		item.done()
		return nil
	}
	address, ok := d.base(item.get("base-url"))
	if !ok {
		return nil
	}
	all := deployment{upstream: upstream{Name: item.get("name").text(), Kind: config.KindOpenAI}, path: item.path}
	d.setAddress(&all.upstream, address)
	d.common(&all, item)
	add := func(secret, proxy entry) {
		next := all
		if reference := d.secret(secret, all.Name+"_API_KEY"); reference != "" && next.Kind != kindOllama {
			next.Keys = []string{reference}
		}
		next.upstream.Proxy = cmp.Or(d.proxy(proxy), all.upstream.Proxy)
		list = append(list, next)
	}
	for _, k := range item.get("api-key-entries").items() {
		add(k.get("api-key"), k.get("proxy-url"))
	}
	for _, k := range item.get("api-keys").items() { // the older form
		add(k, entry{})
	}
	if len(list) == 0 {
		list = append(list, all)
	}
	return list
}

// common reads what all entries have. A prefix is the name of the upstream, because UPSTREAM/MODEL is
// a model of it.
func (d *draft) common(next *deployment, item entry) {
	if prefix := item.get("prefix").text(); prefix != "" {
		next.Name = prefix
	}
	d.headers(&next.upstream, item.get("headers"))
	next.upstream.Proxy = d.proxy(item.get("proxy-url"))
	for _, model := range item.get("models").items() {
		name, alias := model.get("name").text(), model.get("alias").text()
		if name == "" {
			continue
		}
		next.Models = append(next.Models, name)
		if alias != "" && alias != name {
			next.serves = append(next.serves, served{alias, name})
		}
	}
}
