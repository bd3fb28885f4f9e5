package config

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const referencePath = "../../docs/configuration.md"

// docs/configuration.md is the manual as a page.
func TestReferenceIsTheManual(t *testing.T) {
	want := []byte(reference())
	if *update {
		if err := os.WriteFile(referencePath, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/configuration.md does not say what the comments in config.go say; run this test with -update")
	}
}

const referenceIntro = `# Configuration

<!-- Made from the comments in internal/config/config.go by go test ./internal/config -update. Edit those. -->

perigee reads one YAML file. It works without one: with an API key in ` + "`GEMINI_API_KEY`" + ` (or ` + "`GOOGLE_API_KEY`" + `) it has one upstream,
` + "`studio`" + `, of kind gemini; without a key the built-in simulator answers.

%s

## The file

` + "`perigee config init`" + ` writes a file with every key and its explanation. It is searched here:

| system | path |
|---|---|
| any | ` + "`--config FILE`, else `$PERIGEE_CONFIG`" + ` |
| Linux | ` + "`$XDG_CONFIG_HOME/perigee/config.yaml`, by default `~/.config/perigee/config.yaml`" + ` |
| macOS | the same, then ` + "`~/Library/Application Support/perigee/config.yaml`" + ` |
| Windows | ` + "`%%AppData%%\\perigee\\config.yaml`" + ` |

A small one:

` + "```yaml" + `
upstreams:
  - name: studio
    kind: gemini
    keys: [env:GEMINI_API_KEY]
models:
  default: gemini-3-flash
  aliases: {"claude-*haiku*": gemini-2.5-flash, "claude-*": gemini-3-flash}
` + "```" + `

- **Order.** A flag counts before an environment variable, a variable before the file, the file before the default.
- **Environment.** Every setting that is a single value outside lists has a variable: ` + "`limits.body` is `PERIGEE_LIMITS_BODY`" + `. An
  empty variable counts as not set.
- **Secrets** are written as ` + "`env:NAME`, as `file:PATH`" + ` or as they are. They are not shown and not logged.
  ` + "`file:$CREDENTIALS_DIRECTORY/NAME`" + ` is a credential that systemd passes ([service.md](service.md)).
- **Durations** are numbers with a unit: ` + "`30s`, `5m`, `1h30m`, `90d`" + `. **Sizes**: ` + "`64MiB`, `10MB`" + ` or a number of bytes.
  **Patterns**: ` + "`*`" + ` is any text, ` + "`?`" + ` one character.
- **Reload.** Changes take effect within a few seconds, except for ` + "`listen`, `data_dir`, `log_format`, `limits.head`, `store.url` and" + `
  ` + "`store.seal_key`" + `, and adding or removing ` + "`tls`" + `, which need a restart: the log names them. A file with an error is reported in the log, and the previous configuration stays in effect. So it
  does when a change would remove all ` + "`keys`" + ` or all ` + "`upstreams`" + `, which needs a restart, too. New content counts when two reads, a
  second apart, agree on it (three if the last line has no line break), so a file may be written in place.
- **Check.** ` + "`perigee config check`" + ` reports everything that is wrong at once; ` + "`perigee config show`" + ` lists every value and where
  it comes from.

## Completion in your editor

Editors that use the YAML language server (VS Code with the YAML extension, Neovim, Helix, Zed) complete and explain the keys with a
JSON Schema:

` + "```console" + `
$ perigee config schema > ~/.config/perigee/perigee.schema.json
` + "```" + `

and this as the first line of the file:

` + "```yaml" + `
# yaml-language-server: $schema=perigee.schema.json
` + "```" + `
`

// reference writes the page.
func reference() string {
	var contents, body strings.Builder
	contents.WriteString("Contents: [the file](#the-file), [editors](#completion-in-your-editor)")
	var later []string
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if f.idle() {
			later = append(later, "`"+f.name+"`")
			continue
		}
		fmt.Fprintf(&contents, ", [%[1]s](#%[1]s)", f.name)
		fmt.Fprintf(&body, "\n## %s\n\n%s\n", f.name, paragraph(f.explain()))
		entry(&body, f, f.name, true)
	}
	fmt.Fprintf(&body, "\n## Reserved keys\n\n%s are accepted and have no effect in this version.\n", strings.Join(later, " and "))
	return fmt.Sprintf(referenceIntro, paragraph(contents.String()+".")) + body.String()
}

// paragraph breaks a text into lines. What looks like a tag is none.
func paragraph(text string) string {
	var lines []string
	for _, word := range strings.Fields(strings.ReplaceAll(text, "<", "&lt;")) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= 130 {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
}

// entry writes the facts about a key, and what is inside it.
func entry(b *strings.Builder, f field, key string, top bool) {
	inner, items := f.typ, ""
	if f.typ.Kind() == reflect.Slice && isStruct(f.typ.Elem()) {
		inner, items = f.typ.Elem(), "[]"
	}
	if !top {
		fmt.Fprintf(b, "\n### %s\n\n%s\n", key, paragraph(f.explain()))
	}
	facts := []string{"Type: " + typeText(f)}
	if f.required {
		facts[0] += ", required"
	}
	if len(f.kinds) > 0 {
		facts = append(facts, "kinds: "+strings.Join(slices.DeleteFunc(slices.Clone(f.kinds), laterKind), ", "))
	}
	if f.hasInit {
		facts = append(facts, "default: `"+strings.ReplaceAll(f.initial, ",", ", ")+"`")
	}
	if i := slices.IndexFunc(leaves(), func(l leaf) bool { return l.key == key }); i >= 0 {
		facts = append(facts, "variable: `"+leaves()[i].env()+"`")
	}
	if !isStruct(inner) {
		facts = append(facts, "example: `"+f.name+": "+exampleValue(f, "")+"`")
	}
	fmt.Fprintf(b, "\n%s.\n", paragraph(strings.Join(facts, "; ")))
	if isStruct(inner) {
		for _, in := range fieldsOf(inner) {
			if !in.idle() {
				entry(b, in, key+items+"."+in.name, false)
			}
		}
	}
}

// typeText says of what type a value is.
func typeText(f field) string {
	t, list := f.typ, ""
	if t.Kind() == reflect.Slice {
		t, list = t.Elem(), "list of "
	}
	word := map[reflect.Type]string{typeSecret: "secret", typeTime: "time", typeDuration: "duration", typeSize: "size", typeAutoSize: "size or auto"}[t]
	switch {
	case word != "":
	case isStruct(t):
		word = "mapping"
		if list != "" {
			word = "mappings"
		}
	case t.Kind() == reflect.Map:
		word = "mapping of names"
	case t.Kind() == reflect.Bool:
		word = "true or false"
	case t.Kind() == reflect.Float64:
		word = "number"
	case t.Kind() == reflect.String && len(f.enum) > 0:
		word = "one of " + strings.Join(f.choices(), ", ")
	case t.Kind() == reflect.String:
		word = "text"
	default:
		word = "whole number"
	}
	return list + word
}
