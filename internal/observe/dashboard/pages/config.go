package pages

import (
	"strings"

	"perigee/internal/observe/dashboard/html"
	"perigee/internal/store/config"
)

// Config is the configuration in force.
type Config struct {
	File     string
	Searched string
	Values   []config.Value
	Warnings []string
	All      bool // also the values that are defaults
}

func (p Config) HTML(Times) html.HTML {
	source := html.F(`From <code>{}</code>. perigee reads it again when it changes.`, p.File)
	if p.File == "" {
		source = html.F(`There is no file; perigee looked for <code>{}</code>. <code>perigee config init</code> writes one.`, p.Searched)
	}
	var sections []html.HTML
	for rest := p.Values; len(rest) > 0; {
		name, n := sectionOf(rest[0].Key), 1
		for n < len(rest) && sectionOf(rest[n].Key) == name {
			n++
		}
		sections = append(sections, configSection(name, rest[:n]))
		rest = rest[n:]
	}
	current := func(is bool) html.Attributes { return html.Attr(is, ` aria-current="true"`) }
	return html.Join(
		html.F(`<div class="head"><h1>Configuration</h1><nav class="segments" aria-label="Values"><a href="/dashboard/config"{}>Set</a>`+
			`<a href="/dashboard/config?all=1"{}>All</a></nav></div>
<p class="lead">{} Secrets are never shown.</p>
`, current(!p.All), current(p.All), source),
		html.Each(p.Warnings, warning), html.Join(sections...),
		html.If(len(sections) == 0, `<div class="empty"><h2>Everything is at its default</h2><p>Nothing is set in a file, in the environment or by a flag.</p>`+
			`<p class="commands">{}</p></div>`, command("perigee config init")))
}

// sectionOf returns the first word of a key with its index, such as "upstreams[0]", or "general"
// for a key of one word.
func sectionOf(key string) string {
	for _, end := range []string{".", "["} {
		if section, _, found := strings.Cut(key, end); found {
			return section
		}
	}
	return "general"
}

func configSection(name string, values []config.Value) html.HTML {
	return html.F(`<section aria-label="{}"><h2><code>{}</code></h2><div class="surface scroll"><table class="plain config"><caption class="hidden">{}</caption>`+
		`<thead class="hidden"><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">Origin</th></tr></thead><tbody>{}</tbody></table></div></section>
`, name, name, name, html.Each(values, configRow))
}

func configRow(v config.Value) html.HTML {
	return html.F(`<tr{}><th scope="row"><code>{}</code></th><td><code>{}</code></td><td class="origin">{}</td></tr>`,
		html.Attr(!v.Default(), ` class="set"`), v.Key, or(v.Value, "empty"), v.Origin)
}
