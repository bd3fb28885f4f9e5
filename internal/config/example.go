package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Files lists where the configuration file may be, in the order of search: one path if a flag or a variable names it.
func Files(src Sources) []string {
	paths, _ := newLoader(src).src.files()
	return paths
}

// Example returns a configuration file that explains every key. What it sets are the address to listen on and, if there is an
// API key in the environment, the upstream for it; all other settings are commented out with # and no space behind it.
func Example(src Sources) []byte {
	l := newLoader(src)
	w := &exampleWriter{}
	w.prose("", "Configuration of perigee. Settings that begin with # are commented out; what they show is the default, or an example where "+
		"there is none. perigee config check reports what is wrong in this file, perigee config show lists what is in effect. "+
		"Changes take effect within a few seconds, without a restart, except for listen, data_dir, log_format, limits.head, store.url, store.seal_key, and adding or removing tls.")
	w.prose("", "For completion in your editor, run perigee config schema > perigee.schema.json in this directory and make this the first line of the file:")
	w.line("# # yaml-language-server: $schema=perigee.schema.json")
	w.prose("", "A secret is written as env:NAME (an environment variable), file:PATH (a file) or as it is.")
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		if f.idle() {
			continue
		}
		w.line("")
		w.prose("", f.explain())
		variable := slices.IndexFunc(KeyVariables, func(name string) bool { return l.src.lookup(name) != "" })
		switch {
		case f.name == "listen":
			w.line("listen: " + f.initial)
		case f.name == "upstreams" && variable >= 0:
			w.line("upstreams:")
			w.line("  - name: " + implicitName)
			w.line("    kind: " + KindGemini)
			w.line("    keys: [env:" + KeyVariables[variable] + "]")
			w.commented = "#"
			w.upstream(KindAntigravity)
			w.commented = ""
		default:
			w.commented = "#"
			w.setting("", f, "")
			w.commented = ""
		}
	}
	return []byte(w.text.String())
}

// An exampleWriter writes lines of YAML. What is commented out is commented out as a whole, explanations included.
type exampleWriter struct {
	text      strings.Builder
	commented string // what every line begins with
}

func (w *exampleWriter) line(text string) { w.text.WriteString(w.commented + text + "\n") }

// exampleWidth is how long lines of explanation may be.
const exampleWidth = 100

func (w *exampleWriter) prose(indent, text string) {
	line := indent + "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > exampleWidth && line != indent+"#" {
			w.line(line)
			line = indent + "#"
		}
		line += " " + word
	}
	w.line(line)
}

// setting writes a field with a value, and everything in it with its explanation. Kind is that of the upstream around it.
func (w *exampleWriter) setting(indent string, f field, kind string) {
	t := f.typ
	switch {
	case isStruct(t):
		w.line(indent + f.name + ":")
		w.fields(indent+"  ", t, kind)
	case t == reflect.SliceOf(typeUpstream):
		w.line(indent + f.name + ":")
		w.upstream(KindGemini)
		w.upstream(KindAntigravity)
	case t.Kind() == reflect.Slice && isStruct(t.Elem()):
		w.line(indent + f.name + ":")
		w.item(indent+"  ", t.Elem(), "")
	default:
		w.line(indent + f.name + ": " + exampleValue(f, kind))
	}
}

func (w *exampleWriter) fields(indent string, t reflect.Type, kind string) {
	for _, f := range fieldsOf(t) {
		if !f.idle() && (kind == "" || f.belongs(kind)) {
			w.prose(indent, f.explain())
			w.setting(indent, f, "")
		}
	}
}

// upstream writes one of a kind.
func (w *exampleWriter) upstream(kind string) { w.item("  ", typeUpstream, kind) }

// item writes one item of a list of mappings. Its first key has the dash.
func (w *exampleWriter) item(indent string, t reflect.Type, kind string) {
	for i, f := range fieldsOf(t) {
		if f.idle() || kind != "" && !f.belongs(kind) {
			continue
		}
		if i == 0 {
			w.prose(indent, f.explain())
			w.line(indent + "- " + f.name + ": " + exampleValue(f, kind))
			continue
		}
		w.prose(indent+"  ", f.explain())
		w.setting(indent+"  ", f, kind)
	}
}

// exampleValue is the default of a field as YAML, or its example.
func exampleValue(f field, kind string) string {
	switch {
	case kind == KindGemini && f.path == "Upstream.Name":
		return implicitName
	case kind != "" && (f.path == "Upstream.Name" || f.path == kindField().path):
		return kind
	case f.path == "Upstream.AcceptTermsRisk":
		return "true"
	case f.typ.Kind() == reflect.Map:
		return fmt.Sprintf("{gpt-4o: %[1]s, \"claude-*\": %[1]s}", f.example)
	case f.typ.Kind() == reflect.Slice && f.hasInit:
		var items []string
		for _, item := range strings.Split(f.initial, ",") {
			items = append(items, yamlText(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case f.typ.Kind() == reflect.Slice:
		return "[" + yamlText(f.example) + "]"
	case f.hasInit:
		return yamlText(f.initial)
	case f.example != "":
		return yamlText(f.example)
	case len(f.enum) > 0:
		return f.enum[0]
	}
	return `""`
}

var plainYAML = regexp.MustCompile(`^[A-Za-z0-9~/][A-Za-z0-9~/.:_+-]*$`)

// yamlText writes a text so that YAML reads it as it is, also inside [ ].
func yamlText(text string) string {
	if plainYAML.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
