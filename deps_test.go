package perigee_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A room is a directory below internal/. Its packages may import each other, the root package, the
// standard library, and the packages of the rooms in imports.
type room struct {
	name    string
	reason  string // why the room has these limits
	imports []string
}

// rooms are in the order of the imports: a room imports only rooms that come before it.
var rooms = []room{
	{"lib", "serves any program, and knows no more of perigee than the root package", nil},
	{"adapt", "pure: models, and requests in the form that their providers accept", []string{"lib"}},
	{"dialect", "pure: bytes of clients to requests, events to bytes", []string{"adapt", "lib"}},
	{"store", "data on disk, whatever uses it", []string{"adapt", "lib"}},
	{"route", "the way of a call, whatever answers it", []string{"adapt", "lib", "store"}},
	{"intercept", "connections of other programs, whatever they are for", []string{"lib"}},
	{"account", "accounts and their sign-in, whatever uses them", []string{"adapt", "lib", "store"}},
	{"langserver", "the process and its protocol, whatever it is asked", []string{"account", "adapt", "gen", "lib"}},
	{"server", "requests of clients, whatever answers them", []string{"dialect", "lib"}},
	{"mcp", "tools and asks, whatever answers them",
		[]string{"adapt", "langserver", "lib", "route", "server", "store"}},
	{"upstream", "providers; no other room but the daemon builds them",
		[]string{"account", "adapt", "dialect", "gen", "intercept", "langserver", "lib", "mcp", "route", "store"}},
	{"observe", "follows calls and shows them, and changes none",
		[]string{"dialect", "lib", "route", "server", "store"}},
	{"simulator", "says what the facts say, not what perigee's code believes", []string{"gen"}},
	{"daemon", "the one room that knows all that serve", []string{"account", "adapt", "intercept", "langserver",
		"lib", "mcp", "observe", "route", "server", "simulator", "store", "upstream"}},
	{"cli", "commands", []string{"account", "adapt", "daemon", "intercept", "langserver", "lib", "mcp", "observe",
		"server", "simulator", "store"}},
	{"testing", "for tests only", []string{"adapt", "daemon", "intercept", "lib", "simulator", "store"}},
}

// exceptions are single imports that the rooms do not allow, each with its reason.
var exceptions = []struct{ from, to, reason string }{
	{"internal/observe/trace/replay", "internal/upstream/antigravity", "reads the request of a client in its envelope"},
}

// adapters import no package of their own room but those listed, so that each can be read, replaced
// and removed alone.
var adapters = map[string][]string{
	"internal/dialect/anthropic":        {"internal/dialect"},
	"internal/dialect/gemini":           {"internal/dialect"},
	"internal/dialect/ollama":           {"internal/dialect"},
	"internal/dialect/openai":           {"internal/dialect"},
	"internal/dialect/openai/chat":      {"internal/dialect", "internal/dialect/openai"},
	"internal/dialect/openai/responses": {"internal/dialect", "internal/dialect/openai"},
	"internal/upstream/antigravity":     {},
	"internal/upstream/api":             {},
	"internal/upstream/conversation":    {},
}

// modules are the places that may import another module; a directory stands for those below it,
// too. Everything else uses these packages.
var modules = map[string][]string{
	"connectrpc.com/connect":                 {"internal/langserver", "internal/simulator/standin"},
	"github.com/andybalholm/brotli":          {"internal/intercept"},
	"github.com/bmatcuk/doublestar":          {"internal/lib/filetool"},
	"github.com/coder/websocket":             {"internal/mcp/bridge", "internal/server"},
	"github.com/google/jsonschema-go":        {"internal/mcp/mcpserver"},
	"github.com/jackc/pgx":                   {"internal/store/sqlstore/engine"},
	"github.com/modelcontextprotocol/go-sdk": {"internal/mcp"},
	"github.com/pelletier/go-toml":           {"internal/lib/edit"},
	"github.com/prometheus/client_golang":    {"internal/observe/metrics"},
	"github.com/rogpeppe/go-internal":        {"internal/server/connect", "internal/observe/trace"},
	"github.com/tailscale/hujson":            {"internal/lib/edit"},
	"github.com/zalando/go-keyring":          {"internal/store/vault"},
	"go.opentelemetry.io":                    {"internal/observe/telemetry"},
	"go.yaml.in/yaml":                        {"internal/cli/importcmd", "internal/lib/edit", "internal/simulator", "internal/store/config"},
	"golang.org/x/crypto":                    {"internal/store/vault"},
	"golang.org/x/net":                       {"internal/intercept/mitm", "internal/store/config"},
	"golang.org/x/oauth2":                    {"internal/account/adc"},
	"golang.org/x/sys":                       {"internal"},
	"google.golang.org/protobuf": {"internal/account/roster", "internal/langserver", "internal/observe/telemetry",
		"internal/simulator/standin", "internal/upstream"},
	"modernc.org/sqlite": {"internal/intercept/truststore", "internal/langserver/trajectory", "internal/lib/vscdb",
		"internal/simulator/standin", "internal/store/sqlstore/engine"},
}

// TestDependencies fails for each import that no rule allows, with the reason of the rule.
func TestDependencies(t *testing.T) {
	for _, p := range listPackages(t) {
		from := strings.TrimPrefix(p.ImportPath, "perigee/")
		if within(from, "gen") || within(from, "bench") || within(from, "e2e") {
			continue // generated, or programs that measure and test
		}
		for _, imported := range p.Imports {
			if reason := refusal(from, imported); reason != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, reason)
			}
		}
	}
}

// refusal returns why the package in directory from must not import another one, or "" if it may.
func refusal(from, imported string) string {
	to, own := strings.CutPrefix(imported, "perigee/")
	switch {
	case !foreign(imported):
		return ""
	case from == "perigee":
		return "the root package imports only the standard library"
	case imported == "perigee" || from == "cmd/perigee" && own:
		return ""
	case !own:
		return refusedModule(from, imported)
	}
	for _, e := range exceptions {
		if e.from == from && e.to == to {
			return ""
		}
	}
	if allowed, ok := adapters[from]; ok && roomOf(from) == roomOf(to) && !slices.Contains(allowed, to) {
		return "adapters do not import each other"
	}
	if roomOf(from) == roomOf(to) {
		return ""
	}
	for _, r := range rooms {
		if r.name == roomOf(from) && !slices.Contains(r.imports, roomOf(to)) {
			return "internal/" + r.name + ": " + r.reason
		}
	}
	return ""
}

// refusedModule returns why a package must not import a package of another module, or "" if it may.
func refusedModule(from, imported string) string {
	if roomOf(from) == "testing" {
		return ""
	}
	for module, places := range modules {
		if within(imported, module) {
			if slices.ContainsFunc(places, func(place string) bool { return within(from, place) }) {
				return ""
			}
			return "only " + strings.Join(places, ", ") + " may import it"
		}
	}
	return "the module is not in the table of modules"
}

// roomOf returns the name of the directory below internal/ that a directory is in, or its first
// name.
func roomOf(dir string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(dir, "internal/"), "/")
	return name
}

func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// TestRooms compares the table of rooms with the directories: each room exists, comes after the
// rooms that it imports, and begins with a doc.go that lists its packages.
func TestRooms(t *testing.T) {
	entries, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"gen"}
	for _, r := range rooms {
		for _, imported := range r.imports {
			if !slices.Contains(names, imported) {
				t.Errorf("internal/%s imports %s, which does not come before it", r.name, imported)
			}
		}
		names = append(names, r.name)
	}
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			t.Errorf("internal/%s is not in the table of rooms", entry.Name())
		}
	}
	if len(entries) != len(rooms) || len(rooms) > 16 {
		t.Errorf("%d directories and %d rooms; there are at most 16", len(entries), len(rooms))
	}

	packages := map[string][]string{}
	for _, p := range listPackages(t) {
		if dir, ok := strings.CutPrefix(p.ImportPath, "perigee/internal/"); ok {
			if room, name, below := strings.Cut(dir, "/"); below {
				packages[room] = append(packages[room], name)
			}
		}
	}
	for _, r := range rooms {
		text, err := os.ReadFile(path.Join("internal", r.name, "doc.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		var listed []string
		for _, found := range regexp.MustCompile(`(?m)^//\t([a-z0-9/]+)  `).FindAllSubmatch(text, -1) {
			listed = append(listed, string(found[1]))
		}
		slices.Sort(packages[r.name])
		if !slices.Equal(listed, packages[r.name]) {
			t.Errorf("internal/%s/doc.go lists %q; the room has %q", r.name, listed, packages[r.name])
		}
	}
}

// TestRulesAreNeeded fails for exceptions, adapters and modules that nothing needs any more.
func TestRulesAreNeeded(t *testing.T) {
	imports := map[string][]string{}
	var all []string
	for _, p := range listPackages(t) {
		imports[strings.TrimPrefix(p.ImportPath, "perigee/")] = p.Imports
		all = append(all, p.Imports...)
	}
	for _, e := range exceptions {
		if !slices.Contains(imports[e.from], "perigee/"+e.to) {
			t.Errorf("the exception for %s and %s is not needed", e.from, e.to)
		}
	}
	for dir := range adapters {
		if _, ok := imports[dir]; !ok {
			t.Errorf("there is no adapter %s", dir)
		}
	}
	for module := range modules {
		if !slices.ContainsFunc(all, func(imported string) bool { return within(imported, module) }) {
			t.Errorf("nothing imports %s", module)
		}
	}
}

// TestTheLinkerCanDropMethods keeps text/template, and html/template with it, out of the program.
// It calls methods by names that are known at run time only. If that is reachable, the linker keeps
// the exported methods of all types: 3.6 MB of the 40 MB that the binary may have.
func TestTheLinkerCanDropMethods(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "./cmd/perigee").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "perigee/internal/observe/dashboard") {
		t.Errorf("go list names %d packages, without the dashboard", len(packages))
	}
	for _, path := range []string{"text/template", "html/template"} {
		if slices.Contains(packages, path) {
			t.Errorf("perigee depends on %s, which makes the binary 3.6 MB larger; internal/observe/dashboard/html writes HTML without it", path)
		}
	}
}

// TestPackagesSayWhatTheyAreFor asks every package for its opening comment.
func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 && !strings.HasPrefix(p.ImportPath, "perigee/gen/") {
			t.Errorf("package %s has no opening comment", p.ImportPath)
		}
	}
}

// foreign reports whether an import is not of the standard library.
func foreign(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == "perigee" || strings.Contains(first, ".")
}

type listed struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	all, err := goList()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

var goList = sync.OnceValues(func() (all []listed, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-pgo=off", "-json=ImportPath,Doc,Imports,GoFiles", "./...").Output()
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})
