package httpapi

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryPathIsDocumented holds docs/http.md against the table of routes, in both directions, and against the classes of errors.
func TestEveryPathIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("`(GET|POST|PATCH|DELETE) (/[^`?]*)").FindAllStringSubmatch(string(text), -1)
	if len(documented) < 20 {
		t.Fatalf("found only %d paths in docs/http.md", len(documented))
	}
	covered := map[string]bool{}
	for _, d := range documented {
		method, path := d[1], strings.NewReplacer("{id}", "x", "{model}", "x").Replace(d[2])
		r, _ := findRoute(path)
		if r == nil || r.methods[method] == nil {
			t.Errorf("docs/http.md has %s %s, which is not served", method, d[2])
			continue
		}
		covered[method+" "+r.path] = true
	}
	for _, r := range routes {
		for method := range r.methods {
			if !covered[method+" "+r.path] && r.path != "/v1beta/models/*" && r.path != "/v1/responses" {
				t.Errorf("docs/http.md does not have %s %s", method, r.path)
			}
		}
	}
	for class := range statuses {
		if !strings.Contains(string(text), "| `"+string(class)+"` |") {
			t.Errorf("docs/http.md does not explain the class %s", class)
		}
	}
}
