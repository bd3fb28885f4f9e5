package simulator

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/simulator/rules"
)

// yamlKeys lists the keys that a type reads, dotted.
func yamlKeys(t reflect.Type, prefix string) []string {
	var keys []string
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		switch inner := f.Type; {
		case inner == reflect.TypeFor[[]Fault](), inner == reflect.TypeFor[map[string]any]():
			keys = append(keys, prefix+key)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			keys = append(append(keys, prefix+key), yamlKeys(inner.Elem(), prefix+key+"[].")...)
		case inner.Kind() == reflect.Map:
			keys = append(keys, yamlKeys(inner.Elem(), prefix+key+".ID.")...)
		case inner.Kind() == reflect.Struct:
			keys = append(keys, yamlKeys(inner, prefix+key+".")...)
		default:
			keys = append(keys, prefix+key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestTablesListWhatScriptsMaySay(t *testing.T) {
	names := func(entries []entry) []string {
		var list []string
		for _, e := range entries {
			list = append(list, e.name)
			if e.about == "" {
				t.Errorf("%s is not explained", e.name)
			}
		}
		slices.Sort(list)
		return list
	}
	if got, want := names(scriptKeys), yamlKeys(reflect.TypeFor[Script](), ""); !slices.Equal(got, want) {
		t.Errorf("script keys\n got %v\nwant %v", got, want)
	}
	if got, want := names(faultKeys), yamlKeys(reflect.TypeFor[Fault](), ""); !slices.Equal(got, want) {
		t.Errorf("fault keys\n got %v\nwant %v", got, want)
	}
	for _, want := range []string{fmt.Sprintf("%d MiB", maxBody>>20), fmt.Sprint(maxBatch), fmt.Sprint(defaultDimensions), fmt.Sprint(maxCandidates),
		fmt.Sprintf("%d s", tokenLifetime/time.Second), fmt.Sprintf("%d min", codeLifetime/time.Minute), fmt.Sprint(maxCalls)} {
		if !slices.ContainsFunc(fixedLimits, func(e entry) bool { return e.name == want }) {
			t.Errorf("the limits have no %s", want)
		}
	}
}

// The second half of the guide is made from the tables.
func TestGuideIsMadeFromTheTables(t *testing.T) {
	const path, mark = "../../docs/simulator.md", "<!-- From here on made by go test ./internal/simulator -run Guide -update -->\n"
	guide, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byHand, made, ok := strings.Cut(string(guide), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(byHand+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != want {
		t.Errorf("%s does not say what the tables say; run this test with -update", path)
	}
}

func reference() string {
	var b strings.Builder
	table := func(title string, rows ...[]string) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for i, row := range rows {
			for j := range row {
				row[j] = strings.ReplaceAll(row[j], "|", `\|`)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
	}
	entries := func(head string, list []entry) [][]string {
		rows := [][]string{{head, ""}}
		for _, e := range list {
			rows = append(rows, []string{"`" + e.name + "`", e.about})
		}
		return rows
	}
	var directives, faults, routes []entry
	for _, d := range directiveHelp {
		directives = append(directives, entry{d.form, d.about})
	}
	for _, name := range FaultNames() {
		faults = append(faults, entry{name, faultKinds[name].about})
	}
	for _, r := range adminRoutes() {
		routes = append(routes, entry{r.method + " " + r.path, r.about})
	}
	switches := [][]string{{"switch", "values", "default", ""}}
	for _, s := range rules.SwitchList() {
		switches = append(switches, []string{"`" + s.Name + "`", strings.Join(s.Values, ", "), s.Default, s.About})
	}
	table("All directives", entries("directive", directives)...)
	table("All faults", entries("`do`", faults)...)
	table("Keys of a fault", entries("key", faultKeys)...)
	table("Keys of a script", entries("key", scriptKeys)...)
	table("All switches", switches...)
	table("Limits that cannot be changed", entries("limit", fixedLimits)...)
	table("Admin endpoints", entries("endpoint", routes)...)
	return b.String()
}
