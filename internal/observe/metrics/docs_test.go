package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// everything returns the metrics of a daemon that has everything, by name.
func everything(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	opts := stateOptions()
	m := New(opts)
	m.Observe(answered("gemini-3-flash"))
	list, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]*dto.MetricFamily{}
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

// labelsOf are the labels of a metric, with those that Prometheus adds.
func labelsOf(f *dto.MetricFamily) []string {
	labels := []string{"instance", "job"}
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	if f.GetType() == dto.MetricType_HISTOGRAM {
		labels = append(labels, "le")
	}
	return labels
}

var (
	metricName = regexp.MustCompile(`\b(?:perigee|go|process)_[a-z_]+[a-z]\b`)
	selector   = regexp.MustCompile(`\b([a-z_]+[a-z])\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
)

// checkQuery reports metrics and labels of a query that do not exist, and returns the metrics.
func checkQuery(t *testing.T, families map[string]*dto.MetricFamily, query string) (names []string) {
	t.Helper()
	family := func(name string) *dto.MetricFamily {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f := families[strings.TrimSuffix(name, suffix)]; f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
				return f
			}
		}
		return families[name]
	}
	for _, name := range metricName.FindAllString(query, -1) {
		if family(name) == nil {
			t.Errorf("%s has the metric %s, which does not exist", query, name)
			continue
		}
		names = append(names, family(name).GetName())
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if f := family(s[1]); f != nil && !slices.Contains(labelsOf(f), l[1]) {
				t.Errorf("%s: %s has no label %s", query, s[1], l[1])
			}
		}
	}
	if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{") != strings.Count(query, "}") {
		t.Errorf("%s is not balanced", query)
	}
	return names
}

// The dashboard shows metrics that exist, and all of perigee's own but the build.
func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ RefID, Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title == "" || dashboard.SchemaVersion == 0 || len(dashboard.Panels) < 20 {
		t.Fatalf("it is no dashboard: %.200s", text)
	}
	families := everything(t)
	shown := map[string]bool{"perigee_build_info": true}
	show := func(query string) {
		for _, name := range checkQuery(t, families, query) {
			shown[name] = true
		}
	}
	ids := map[int]bool{}
	variables := []string{"__rate_interval", "__all"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
		show(v.Definition)
	}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %q: ID %d, position %+v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID] = true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q has %d queries", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			show(target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		show(a.Expr)
	}
	for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(variables, v[1]) {
			t.Errorf("it has no variable %s", v[0])
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "perigee_") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The page about metrics lists those that exist, with their labels.
func TestTheDocumentationListsMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, listed := everything(t), map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(perigee_[a-z_]+)` \\|([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		f := families[row[1]]
		if f == nil {
			t.Errorf("docs/metrics.md has %s, which does not exist", row[1])
			continue
		}
		listed[row[1]] = true
		var documented []string
		for _, l := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[2], -1) {
			documented = append(documented, l[1])
		}
		labels := slices.DeleteFunc(labelsOf(f), func(l string) bool { return slices.Contains([]string{"instance", "job", "le"}, l) })
		slices.Sort(documented)
		if !slices.Equal(documented, labels) {
			t.Errorf("%s is documented with the labels %q, and has %q", row[1], documented, labels)
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "perigee_") && !listed[name] {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
	}
	for _, query := range regexp.MustCompile("(?m)^ *expr: (.*)$").FindAllStringSubmatch(string(text), -1) {
		checkQuery(t, families, query[1])
	}
}
