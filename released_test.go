package perigee_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee"
)

var release = flag.String("release", "", "write what a release with this version offers to testdata/released.tsv")

// releasedFile has what the last release offers, which docs/stability.md promises to keep. It is
// written when a release is made: go test . -run TestReleased -release 0.2.0
const releasedFile = "testdata/released.tsv"

// An offer is one thing that users rely on: a key, a flag, a path, a member.
type offer struct {
	kind   string
	name   string // as CHANGELOG.md has it in backticks
	detail string // its type, its default, one of its values
}

func (o offer) String() string { return o.kind + "\t" + o.name + "\t" + o.detail }

// TestReleased fails if something that the last release offers is gone or changed and CHANGELOG.md
// does not say so in a list under Removed, Deprecated or Changed since that release.
func TestReleased(t *testing.T) {
	now := offers(t)
	version, then := readReleased(t)
	for _, o := range missing(then, now, announcements(readFile(t, "CHANGELOG.md"), version)) {
		t.Errorf("%s offers the %s `%s` (%s), and this tree does not: keep it, or name it in CHANGELOG.md under Removed, "+
			"Deprecated or Changed", version, o.kind, o.name, o.detail)
	}
	if *release == "" || t.Failed() {
		return
	}
	text := "# " + *release + "\n"
	for _, o := range now {
		text += o.String() + "\n"
	}
	if err := os.WriteFile(releasedFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The comparison finds a removal of every kind, a changed default and a value that is gone, and
// accepts what CHANGELOG.md announces.
func TestReleasedFindsRemovals(t *testing.T) {
	version, then := readReleased(t)
	kinds := map[string]int{}
	for i, o := range then {
		if kinds[o.kind]++; kinds[o.kind] > 1 {
			continue
		}
		now := slices.Delete(slices.Clone(then), i, i+1)
		if got := missing(then, now, ""); len(got) != 1 || got[0] != o {
			t.Fatalf("without %v, %v is missing", o, got)
		}
		log := "## Unreleased\n**Removed**\n- `" + o.name + "`, which nothing used.\n\n## " + version + "\n"
		if got := missing(then, now, announcements(log, version)); len(got) != 0 {
			t.Fatalf("%v is announced, and missing", got)
		}
		for _, elsewhere := range []string{"## Unreleased\n**Added**\n- `" + o.name + "`.\n", "## Unreleased\n## " + version + "\n**Removed**\n- `" + o.name + "`\n"} {
			if got := missing(then, now, announcements(elsewhere, version)); len(got) != 1 {
				t.Fatalf("%v is not announced as removed in %q, and not missing", o, elsewhere)
			}
		}
	}
	for kind, least := range map[string]int{"key": 500, "command": 50, "flag": 120, "path": 60, "exit code": 5, "error class": 13,
		"header": 7, "member": 150, "metric": 15, "tool": 8, "variable": 40, "trace file": 8} {
		if kinds[kind] < least {
			t.Errorf("%d of kind %s are compared, want at least %d", kinds[kind], kind, least)
		}
	}
	for _, o := range []offer{{"key", "limits.body", "default 100MiB"}, {"key", "upstreams[].kind", "value gemini"},
		{"flag", "perigee trace list --limit", "N"}, {"path", "GET /perigee/v1/usage", ""}, {"exit code", "4", ""}} {
		if !slices.ContainsFunc(then, func(has offer) bool { return has.kind == o.kind && has.name == o.name }) {
			t.Errorf("%v is not compared", o)
		}
	}
}

// missing returns what was offered then and is not now, without what is announced.
func missing(then, now []offer, announced string) (list []offer) {
	for _, o := range then {
		if !slices.Contains(now, o) && !strings.Contains(announced, "`"+o.name+"`") {
			list = append(list, o)
		}
	}
	return list
}

// announcements returns the lists of CHANGELOG.md under Removed, Deprecated and Changed that are
// newer than a release.
func announcements(log, version string) (text string) {
	log, _, _ = strings.Cut(log, "\n## "+version)
	for part := range strings.SplitSeq(log, "\n**") {
		title, list, _ := strings.Cut(part, "**\n")
		if slices.Contains([]string{"Removed", "Deprecated", "Changed"}, title) {
			list, _, _ = strings.Cut(list, "\n#")
			text += list + "\n"
		}
	}
	return text
}

func readReleased(t *testing.T) (version string, list []offer) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSuffix(readFile(t, releasedFile), "\n"), "\n") {
		parts := strings.Split(line, "\t")
		switch {
		case i == 0:
			version = strings.Fields(line)[1]
		case len(parts) != 3:
			t.Fatalf("%s: line %q", releasedFile, line)
		default:
			list = append(list, offer{parts[0], parts[1], parts[2]})
		}
	}
	return version, list
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// offers returns everything that this tree offers, in order.
func offers(t *testing.T) (list []offer) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(readFile(t, "internal/store/config/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	list = append(keyOffers("", schema), commandOffers(t)...)
	list = append(append(list, memberOffers(t)...), documentedOffers(t)...)
	for class, status := range perigee.ClassStatus {
		list = append(list, offer{"error class", string(class), fmt.Sprint(status)})
	}
	slices.SortFunc(list, func(a, b offer) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(list)
}

// keyOffers returns the keys below a part of the schema, each with its types, values and default.
func keyOffers(name string, part map[string]any) (list []offer) {
	add := func(name, detail string) { list = append(list, offer{"key", name, detail}) }
	if name != "" {
		for _, one := range textsOf(part["type"]) {
			add(name, "type "+one)
		}
		for _, one := range textsOf(part["enum"]) {
			add(name, "value "+one)
		}
		if def, ok := part["default"]; ok {
			add(name, "default "+strings.Join(textsOf(def), ", "))
		}
	}
	keys, _ := part["properties"].(map[string]any)
	required := textsOf(part["required"])
	for key, below := range keys {
		below, _ := below.(map[string]any)
		full := strings.TrimPrefix(name+"."+key, ".")
		if !slices.Contains(required, key) {
			add(full, "optional")
		}
		list = append(list, keyOffers(full, below)...)
	}
	if items, ok := part["items"].(map[string]any); ok {
		list = append(list, keyOffers(name+"[]", items)...)
		list = append(list, kindOffers(name, items)...)
	}
	return list
}

// kindOffers returns the keys that each kind of an upstream has.
func kindOffers(name string, items map[string]any) (list []offer) {
	all, _ := items["properties"].(map[string]any)
	rules, _ := items["allOf"].([]any)
	for _, rule := range rules {
		raw, _ := json.Marshal(rule)
		var r struct {
			If struct {
				Properties struct{ Kind struct{ Const string } }
			}
			Then struct{ Properties map[string]any }
		}
		if json.Unmarshal(raw, &r) != nil || r.If.Properties.Kind.Const == "" {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if r.Then.Properties[key] == false {
				continue
			}
			detail := "of kind " + r.If.Properties.Kind.Const
			if below, _ := r.Then.Properties[key].(map[string]any); below["default"] != nil {
				detail += fmt.Sprint(", default ", below["default"])
			}
			list = append(list, offer{"key", name + "[]." + key, detail})
		}
	}
	return list
}

// textsOf returns a value of JSON, or the values of an array, as texts.
func textsOf(value any) (list []string) {
	switch value := value.(type) {
	case nil:
	case []any:
		for _, one := range value {
			list = append(list, fmt.Sprint(one))
		}
	default:
		list = append(list, fmt.Sprint(value))
	}
	return list
}

// commandOffers returns the commands and their flags, from the usage in the help texts.
func commandOffers(t *testing.T) (list []offer) {
	files, err := filepath.Glob("cmd/perigee/help/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("help texts %q, %v", files, err)
	}
	flags := regexp.MustCompile(`--([a-z-]+)(?: ([A-Z][A-Z,]*|[a-z-]+(?:\|[a-z-]+)+))?`)
	for _, file := range files {
		usage, _, _ := strings.Cut(readFile(t, file), "\n\n")
		usage = strings.Join(strings.Fields(strings.TrimPrefix(usage, "usage: ")), " ")
		for _, line := range strings.Split(usage, "perigee ")[1:] {
			for _, command := range commandsOf(line) {
				list = append(list, offer{"command", command, ""})
				for _, f := range flags.FindAllStringSubmatch(line, -1) {
					for argument := range strings.SplitSeq(f[2], "|") {
						list = append(list, offer{"flag", command + " --" + f[1], argument})
					}
				}
			}
		}
	}
	return list
}

// commandsOf returns the commands that a line of a usage describes: "config show|check [--json]"
// has two.
func commandsOf(line string) []string {
	commands := []string{"perigee"}
	for word := range strings.FieldsSeq(line) {
		if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz|") != "" {
			break
		}
		var longer []string
		for one := range strings.SplitSeq(word, "|") {
			for _, c := range commands {
				longer = append(longer, c+" "+one)
			}
		}
		commands = longer
	}
	return commands
}

// memberOffers returns the members of the JSON objects that commands and paths return, from the
// types in this package and in those of the commands.
func memberOffers(t *testing.T) (list []offer) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := filepath.Glob("internal/cli/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, commands...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, readFile(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				list = append(list, membersOf(parsed.Name.Name+"."+spec.Name.Name, fields)...)
			}
			return false
		})
	}
	return list
}

func membersOf(name string, fields *ast.StructType) (list []offer) {
	for _, field := range fields.Fields.List {
		if field.Tag == nil {
			continue
		}
		member, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		if member != "" && member != "-" {
			list = append(list, offer{"member", name + "." + member, typeName(field.Type)})
		}
	}
	return list
}

// typeName returns how Go writes a type, without its package.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ArrayType:
		return "[]" + typeName(e.Elt)
	case *ast.MapType:
		return "map[" + typeName(e.Key) + "]" + typeName(e.Value)
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return "object"
}

// documentedOffers returns what the documentation has in full, because tests hold it against the
// code: paths, headers, metrics, tools, exit codes, variables, and files of traces.
func documentedOffers(t *testing.T) (list []offer) {
	// find searches a section of a file: all of it, if title is empty.
	find := func(kind, file, title, pattern string) {
		text := readFile(t, file)
		if title != "" {
			_, text, _ = strings.Cut(text, "\n## "+title+"\n")
			text, _, _ = strings.Cut(text, "\n## ")
		}
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			list = append(list, offer{kind, found[1], strings.TrimSpace(strings.Join(found[2:], ""))})
		}
	}
	find("path", "docs/http.md", "", "`((?:GET|POST|PATCH|DELETE) /[^`?]*)")
	find("path", "docs/http.md", "Model APIs", "`(:[a-zA-Z]+)`")
	find("header", "docs/http.md", "Headers", "(?m)^\\| `([a-z-]+)`")
	find("metric", "docs/metrics.md", "", "(?m)^\\| `(perigee_[a-z_]+)` \\|([^|]*)\\|")
	find("tool", "docs/mcp.md", "Tools", "(?m)^\\| `([a-z_]+)` \\|")
	find("exit code", "README.md", "Commands", `(?m)^\| (\d) \| (.+) \|$`)
	find("trace file", "docs/traces.md", "Files", `(?m)^  ([a-z_]+\.[a-z]+)  `)
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "README.md") {
		if file != "docs/decisions.md" && file != "docs/architecture.md" {
			find("variable", file, "", `\b(PERIGEE_[A-Z0-9_]*[A-Z0-9])\b`)
		}
	}
	return slices.DeleteFunc(list, func(o offer) bool {
		return o.kind == "variable" && strings.HasPrefix(o.name, "PERIGEE_TEST_")
	})
}
