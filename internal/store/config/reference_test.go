package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const referencePath = "../../../docs/configuration.md"

// docs/configuration.md is the manual as a page.
func TestReferenceIsTheManual(t *testing.T) {
	generated(t, referencePath, []byte(reference()))
}

const referenceIntro = `# Configuration

<!-- Generated from the comments in internal/store/config/config.go by go test ./internal/store/config -run Reference -update. -->

perigee reads one YAML file, and works without one. Without a file, each API key in the environment configures an
upstream, and so does a running Ollama, in this order:

| variable | upstream | kind |
|---|---|---|
%s
A value of fewer than 16 characters is passed over as a placeholder. Variables with base URLs, such as
` + "`OPENAI_BASE_URL`" + `, are not read: they point clients at perigee. Without any of these, the built-in simulator answers.

%s

## The file

` + "`perigee config init`" + ` writes a file that explains every key. ` + "`--config FILE`" + ` or the environment variable
` + "`PERIGEE_CONFIG`" + ` names the file to read; otherwise perigee looks for it here:

| system | path |
|---|---|
| Linux | ` + "`$XDG_CONFIG_HOME/perigee/config.yaml`" + `, by default ` + "`~/.config/perigee/config.yaml`" + ` |
| macOS | the same, then ` + "`~/Library/Application Support/perigee/config.yaml`" + ` |
| Windows | ` + "`%%AppData%%\\perigee\\config.yaml`" + ` |

A minimal file:

` + "```" + `yaml
upstreams:
  - name: studio
    kind: gemini
    keys: [env:GEMINI_API_KEY]
models:
  default: gemini-3-flash
  aliases: {"claude-*haiku*": gemini-2.5-flash, "claude-*": gemini-3-flash}
` + "```" + `

- **Precedence.** Command-line flags override environment variables, which override the file, which overrides the
  defaults.
- **Environment variables.** Every key with a single value outside a list has a variable: ` + "`limits.body`" + ` is
  ` + "`PERIGEE_LIMITS_BODY`" + `. An empty variable counts as unset.
- **Secrets** are written as ` + "`env:NAME`" + `, ` + "`file:PATH`" + ` or literally. They are never shown or logged.
  ` + "`file:$CREDENTIALS_DIRECTORY/NAME`" + ` reads a systemd credential ([service.md](service.md)).
- **Durations** have a unit: ` + "`30s`" + `, ` + "`5m`" + `, ` + "`1h30m`" + `, ` + "`90d`" + `. **Sizes** have a unit or are in bytes: ` + "`64MiB`" + `, ` + "`10MB`" + `,
  ` + "`1048576`" + `. In **patterns**, ` + "`*`" + ` matches any text and ` + "`?`" + ` any single character.
- **Reload.** perigee applies changes to the file within a few seconds. Changes to ` + "`listen`" + `, ` + "`data_dir`" + `, ` + "`log_format`" + `,
  ` + "`limits.head`" + `, ` + "`interception`" + `, ` + "`store.url`" + ` and ` + "`store.seal_key`" + ` require a restart; so does adding or removing
  ` + "`tls`" + `, and removing all ` + "`keys`" + ` or all ` + "`upstreams`" + `. Until then, the values that perigee was started with stay in
  effect everywhere. The log names changes that wait for a restart. If the file is invalid, the log says
  why, and the previous configuration stays in effect. New content is applied once two reads, one second apart,
  return the same text (three reads if the last line has no line break), so the file can be written in place. If a
  file has lost all ` + "`keys`" + `, all ` + "`upstreams`" + ` or ` + "`store.url`" + ` since the last start, a start waits until it has not changed for
  five seconds, in case it is still being written.
- **Checking.** ` + "`perigee config check`" + ` reports all problems at once; ` + "`perigee config show`" + ` lists every value and its
  source.

## Completion in your editor

Editors with the YAML language server (VS Code with the YAML extension, Neovim, Helix, Zed) complete and explain keys if
they have a JSON Schema:

` + "```" + `console
$ perigee config schema > ~/.config/perigee/perigee.schema.json
` + "```" + `

Refer to it in the first line of the file:

` + "```" + `yaml
# yaml-language-server: $schema=perigee.schema.json
` + "```" + `
`

// reference writes the page.
func reference() string {
	var contents, body strings.Builder
	contents.WriteString("Contents: [the file](#the-file), [editors](#completion-in-your-editor)")
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		fmt.Fprintf(&contents, ", [%[1]s](#%[1]s)", f.name)
		fmt.Fprintf(&body, "\n## %s\n\n%s\n", f.name, paragraph(explain(f)))
		entry(&body, f, f.name, true)
	}
	return fmt.Sprintf(referenceIntro, environmentTable(), paragraph(contents.String()+".")) + body.String()
}

// environmentTable lists the upstreams that perigee has without a file.
func environmentTable() string {
	var b strings.Builder
	for _, u := range environmentUpstreams {
		source := "`" + strings.Join(u.variables, "`, or else `") + "`"
		if u.variables == nil {
			source = "none: a server that answers within 300 ms at `" + ollamaHost + "`, or else at 127.0.0.1:11434"
		}
		fmt.Fprintf(&b, "| %s | `%s` | `%s` |\n", source, u.name, u.kind)
	}
	return b.String()
}

// paragraph breaks a text into lines, in which < is no tag.
func paragraph(text string) string {
	return strings.Join(wrap(strings.ReplaceAll(text, "<", "&lt;"), 120), "\n")
}

// entry writes the facts about a key, and what is inside it.
func entry(b *strings.Builder, f *field, key string, top bool) {
	inner, items := f.typ, ""
	if isMapping(elemOf(f.typ)) && f.typ.Kind() == reflect.Slice {
		inner, items = f.typ.Elem(), "[]"
	}
	if !top {
		fmt.Fprintf(b, "\n### %s\n\n%s\n", key, paragraph(explain(f)))
	}
	facts := []string{"Type: " + typeText(f)}
	if f.deprecated != "" {
		facts = []string{"Deprecated " + f.deprecated, typeText(f)}
	}
	if f.required {
		facts[0] += ", required"
	}
	if len(f.kinds) > 0 {
		facts = append(facts, "kinds: `"+strings.Join(f.kinds, "`, `")+"`")
	}
	var presets []string
	if f.preset != nil {
		presets = append(presets, "`"+strings.ReplaceAll(*f.preset, ",", "`, `")+"`")
	}
	for _, kind := range f.kinds {
		if preset := f.presetFor(kind); preset != f.preset {
			presets = append(presets, "for "+kind+" `"+*preset+"`")
		}
	}
	if presets != nil {
		facts = append(facts, "default: "+strings.Join(presets, ", "))
	}
	if f.min != "" && f.min != "0" && f.min != "1" {
		facts = append(facts, "minimum: `"+f.min+"`")
	}
	if f.max != "" {
		facts = append(facts, "maximum: `"+f.max+"`")
	}
	if s := (setting{key: key}); f.scalar != nil && f.typ.Kind() != reflect.Slice && f.typ.Kind() != reflect.Map && !strings.Contains(key, "[") {
		facts = append(facts, "variable: `"+s.env()+"`")
	}
	if !isMapping(inner) {
		facts = append(facts, "example: `"+f.name+": "+exampleValue(f, "")+"`")
	}
	fmt.Fprintf(b, "\n%s\n", paragraph(strings.Join(facts, "; ")+"."))
	if isMapping(inner) {
		for _, in := range fieldsOf(inner) {
			entry(b, in, key+items+"."+in.name, false)
		}
	}
}

// typeText is the type of a field for users.
func typeText(f *field) string {
	isList := f.typ.Kind() == reflect.Slice
	switch {
	case isList && f.scalar == nil:
		return "list of mappings"
	case f.scalar == nil:
		return "mapping"
	case f.typ.Kind() == reflect.Map && f.format == "name":
		return "mapping of names to names"
	case f.typ.Kind() == reflect.Map && f.scalar.name == "value":
		return "mapping of names to values"
	case f.typ.Kind() == reflect.Map:
		return "mapping of names to strings"
	}
	name := f.scalar.name
	if len(f.enum) > 0 {
		name = "one of `" + strings.Join(f.enum, "`, `") + "`"
	}
	switch {
	case isList && len(f.enum) == 0:
		return "list of " + name + "s"
	case isList:
		return "list of " + strings.TrimPrefix(name, "one of ")
	}
	return name
}
