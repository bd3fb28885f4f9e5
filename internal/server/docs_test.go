package server

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server/mount"
)

// TestEveryPathIsDocumented holds docs/http.md against the table of routes, in both directions, and
// against the classes of errors. It has perigee's own paths by their names below /perigee/v1.
func TestEveryPathIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("`(GET|POST|PATCH|DELETE) (/[^`?]*)").FindAllStringSubmatch(string(text), -1)
	if len(documented) < 20 {
		t.Fatalf("found only %d paths in docs/http.md", len(documented))
	}
	// The daemon mounts these.
	mounted := func(path string, access mount.Access, list ...string) Mount {
		return Mount{Path: path, Access: access, Methods: list, Handler: http.NotFoundHandler()}
	}
	s := New(Options{Mounts: []Mount{mounted("/mcp", mount.ClientOrOwner, "GET", "POST", "DELETE"), mounted("/v1/ask", mount.Admin, "POST"),
		mounted("/v1/replay/*", mount.Admin, "POST"), mounted("/v1/shrink/*", mount.Admin, "POST"), mounted("/v1/live", mount.Admin, "GET"), mounted("/v1/bundle/*", mount.Admin, "GET"),
		mounted("/metrics", mount.ClientOrOwner, "GET"), mounted("/v1/dashboard/ticket", mount.Admin, "POST"),
		mounted("/v1/environment", mount.Socket, "GET"), mounted("/v1/profile", mount.Socket, "GET"), mounted("/dashboard/*", mount.Public, "GET", "POST")}}, Settings{})
	served := map[string]bool{}
	for _, r := range s.routes {
		served[r.path] = true
	}
	covered := map[string]bool{}
	for _, d := range documented {
		method, path := d[1], strings.NewReplacer("{id}", "x", "{model}", "x").Replace(d[2])
		r, _ := s.findRoute(path)
		if r == nil || r.methods[method] == nil {
			t.Errorf("docs/http.md has %s %s, which is not served", method, d[2])
			continue
		}
		if served[ownPrefix+r.path] {
			t.Errorf("docs/http.md has %s, which is an alias: want %s", d[2], ownPrefix+d[2])
		}
		covered[method+" "+r.path] = true
	}
	for _, r := range s.routes {
		for method := range r.methods {
			_, name, _ := strings.Cut(r.path, "*:") // methods of models after the first are listed without their path
			named := name != "" && strings.Contains(string(text), "`:"+name+"`")
			if !covered[method+" "+r.path] && !covered[method+" "+ownPrefix+r.path] && !named && !slices.Contains([]string{"/v1beta/models/*", "/v1beta/models/*:*",
				"/v1/responses"}, r.path) {
				t.Errorf("docs/http.md does not have %s %s", method, r.path)
			}
		}
	}
	for class := range perigee.ClassStatus {
		if !strings.Contains(string(text), "| `"+string(class)+"` |") {
			t.Errorf("docs/http.md does not explain the class %s", class)
		}
	}
}
