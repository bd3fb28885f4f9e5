package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// example.yaml is what Example makes a file of.
func TestReferenceExample(t *testing.T) {
	w := &exampleWriter{}
	w.prose("", "Configuration of perigee. Settings that begin with # are commented out. They show the default value, or an example if there "+
		"is none. perigee config check reports problems in this file; perigee config show lists the values in effect. "+
		"Changes are applied within a few seconds. Changes to listen, data_dir, log_format, limits.head, interception, store.url and "+
		"store.seal_key, and adding or removing tls, require a restart.")
	w.prose("", "For completion in your editor, run perigee config schema > perigee.schema.json in this directory and make this "+
		"the first line of the file:")
	w.line("# # yaml-language-server: $schema=perigee.schema.json")
	w.prose("", "Secrets are written as env:NAME (an environment variable), file:PATH (the content of a file) or literally.")
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		w.line("")
		w.prose("", explain(f))
		if f.name == "listen" {
			w.line("listen: " + *f.preset)
			continue
		}
		w.prefix = "#"
		w.setting("", f, "")
		w.prefix = ""
	}
	generated(t, "example.yaml", []byte(w.text.String()))
}

// An exampleWriter writes lines of YAML.
type exampleWriter struct {
	text   strings.Builder
	prefix string // of every line: # comments settings out together with their explanations
}

func (w *exampleWriter) line(text string) { w.text.WriteString(w.prefix + text + "\n") }

// exampleWidth is the length of lines of explanation.
const exampleWidth = 100

func (w *exampleWriter) prose(indent, text string) {
	for _, line := range wrap(text, exampleWidth-len(indent)-2) {
		w.line(indent + "# " + line)
	}
}

// wrap breaks a text into lines of at most width bytes, or one word.
func wrap(text string, width int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// setting writes a field with a value, and everything in it with explanations.
func (w *exampleWriter) setting(indent string, f *field, kind string) {
	switch {
	case isMapping(f.typ):
		w.line(indent + f.name + ":")
		w.fields(indent+"  ", f.typ, "")
	case isMapping(elemOf(f.typ)):
		if f.name == "upstreams" {
			w.text.WriteString(exampleMark)
			w.upstreams(indent, f)
			return
		}
		w.line(indent + f.name + ":")
		w.fields(indent+"  - ", f.typ.Elem(), "")
	default:
		w.line(indent + f.name + ": " + exampleValue(f, kind))
	}
}

// upstreams writes one upstream of each kind but simulator.
func (w *exampleWriter) upstreams(indent string, f *field) {
	for _, kind := range upstreamField("kind").enum {
		if kind != KindSimulator {
			w.fields(indent+"  - ", f.typ.Elem(), kind)
		}
	}
}

// fields writes the fields of a mapping, those of upstreams for a kind. An indent that ends in - is
// for the first field only.
func (w *exampleWriter) fields(indent string, t reflect.Type, kind string) {
	for _, f := range fieldsOf(t) {
		if kind != "" && !f.belongs(kind) {
			continue
		}
		rest := strings.Replace(indent, "-", " ", 1)
		w.prose(strings.TrimSuffix(indent, "- "), explain(f))
		w.setting(indent, f, kind)
		indent = rest
	}
}

// exampleValue is the default of a field in YAML, or else its example. Kind is that of the
// upstream.
func exampleValue(f *field, kind string) string {
	isList, preset := f.typ.Kind() == reflect.Slice, f.presetFor(kind)
	if kind == "" && preset == nil && f.presets != nil {
		preset = f.presetFor(f.kinds[0])
	}
	switch {
	case f.path == "Upstream.Name" && KindOf(kind).Keys: // upstreams of the environment have the plain names
		return "my-" + kind
	case kind != "" && (f.path == "Upstream.Name" || f.path == "Upstream.Kind"):
		return kind
	case f.path == "Upstream.Keys" && kind == KindVertex: // the settings of the tokens are in the example
		return "[]"
	case kind != "" && f.path == "Upstream.Keys":
		return "[env:" + KindOf(kind).KeyVariable + "]"
	case f.path == "Upstream.AcceptTermsRisk":
		return "true"
	case strings.HasPrefix(f.example, "{"):
		return f.example
	case f.path == "Upstream.Env":
		return "{LC_ALL: " + f.example + "}"
	case f.typ.Kind() == reflect.Map:
		return fmt.Sprintf("{gpt-4o: %[1]s, \"claude-*\": %[1]s}", f.example)
	case isList && preset != nil:
		items := strings.Split(*preset, ",")
		for i, item := range items {
			items[i] = yamlText(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case isList:
		return "[" + yamlText(f.example) + "]"
	case preset != nil:
		return yamlText(*preset)
	case f.example != "":
		return yamlText(f.example)
	case len(f.enum) > 0:
		return f.enum[0]
	}
	return `""`
}

var plainYAML = regexp.MustCompile(`^(-[0-9]+|[A-Za-z0-9~/][A-Za-z0-9~/.:_+-]*)$`)

// yamlText quotes a text if YAML would read it differently, also inside [ ].
func yamlText(text string) string {
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
