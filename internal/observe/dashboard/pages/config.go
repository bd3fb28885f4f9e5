package pages

import "perigee/internal/observe/dashboard/html"

// Config is the configuration in force.
type Config struct {
	File     string
	Searched string
	Sections []ConfigSection
	Warnings []string
	All      bool // also the values that are defaults
}

// A ConfigSection is the values with the same first word.
type ConfigSection struct {
	Name   string
	Values []ConfigValue
}

// A ConfigValue is a value with its origin.
type ConfigValue struct {
	Key, Value, Origin string
	Set                bool // it is not the default
}

func (p Config) HTML(Times) html.HTML {
	source := html.F(`From <code>{}</code>. perigee reads it again when it changes.`, p.File)
	if p.File == "" {
		source = html.F(`There is no file; perigee looked for <code>{}</code>. <code>perigee config init</code> writes one.`, p.Searched)
	}
	current := func(is bool) html.Attributes { return html.Attr(is, ` aria-current="true"`) }
	return html.Join(
		html.F(`<div class="head"><h1>Configuration</h1><nav class="segments" aria-label="Values"><a href="/dashboard/config"{}>Set</a>`+
			`<a href="/dashboard/config?all=1"{}>All</a></nav></div>
<p class="lead">{} Secrets are never shown.</p>
`, current(!p.All), current(p.All), source),
		html.Each(p.Warnings, warning), html.Each(p.Sections, ConfigSection.section),
		html.If(len(p.Sections) == 0, `<div class="empty"><h2>Everything is at its default</h2><p>Nothing is set in a file, in the environment or by a flag.</p>`+
			`<p class="commands">{}</p></div>`, command("perigee config init")))
}

func (s ConfigSection) section() html.HTML {
	return html.F(`<section aria-label="{}"><h2><code>{}</code></h2><div class="surface scroll"><table class="plain config"><caption class="hidden">{}</caption>`+
		`<thead class="hidden"><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">Origin</th></tr></thead><tbody>{}</tbody></table></div></section>
`, s.Name, s.Name, s.Name, html.Each(s.Values, ConfigValue.row))
}

func (v ConfigValue) row() html.HTML {
	value := html.F(`{}`, v.Value)
	if v.Value == "" {
		value = html.F(`<span class="none">empty</span>`)
	}
	return html.F(`<tr{}><th scope="row"><code>{}</code></th><td><code>{}</code></td><td class="origin">{}</td></tr>`,
		html.Attr(v.Set, ` class="set"`), v.Key, value, v.Origin)
}
