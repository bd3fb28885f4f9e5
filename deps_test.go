package perigee_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A room is a package, what it may import of this module and of others, and why. The standard library is open
// to all. What is not listed here does not exist: a new package starts with a line in this table.
type room struct {
	path    string
	imports []string
	reason  string
}

var rooms = []room{
	{"perigee", nil, "the product's words depend on nothing"},

	// Leaves: pure, no knowledge of the product beyond its words.
	{"perigee/internal/names", nil, "compares names"},
	{"perigee/internal/rawjson", []string{"golang.org/x/sys"}, "reads and splices JSON"},
	{"perigee/internal/membudget", []string{"perigee", "golang.org/x/sys"}, "adds up bytes, whatever they are for; asks the system how many there are"},
	{"perigee/internal/batch", nil, "writes rows together, whatever they are and wherever they go"},
	{"perigee/internal/ownfile", []string{"golang.org/x/sys"}, "writes and locks files, whatever is in them"},
	{"perigee/internal/sse", nil, "reads and writes event streams"},
	{"perigee/internal/systemd", []string{"golang.org/x/sys"}, "speaks with a service manager, whatever the service is"},

	// The pure middle: bytes to words and back.
	{"perigee/internal/dialect/media", []string{"perigee"}, "what URLs and names say about media, for the dialects that have them"},
	{"perigee/internal/dialect/search", []string{"perigee"}, "what is known of the searches behind an answer, for the dialects that tell of them"},
	{"perigee/internal/dialect/gemini", []string{"perigee", "perigee/internal/rawjson", "perigee/internal/sse"}, "dialects are pure"},
	{"perigee/internal/dialect/openai", []string{"perigee", "perigee/internal/rawjson"}, "dialects are pure"},
	{"perigee/internal/dialect/openai/chat", []string{"perigee", "perigee/internal/dialect/media", "perigee/internal/dialect/openai", "perigee/internal/dialect/search", "perigee/internal/rawjson", "perigee/internal/sse"}, "an API of a dialect builds on what its APIs share"},
	{"perigee/internal/dialect/openai/responses", []string{"perigee", "perigee/internal/dialect/media", "perigee/internal/dialect/openai", "perigee/internal/dialect/search", "perigee/internal/rawjson", "perigee/internal/sse"}, "an API of a dialect builds on what its APIs share"},
	{"perigee/internal/dialect/anthropic", []string{"perigee", "perigee/internal/dialect/media", "perigee/internal/dialect/search", "perigee/internal/rawjson"}, "dialects are pure"},
	{"perigee/internal/dialect/roundtrip", nil, "only tests, which hold the dialects against each other"},

	// What the house knows about models, and does about it.
	{"perigee/internal/models", []string{"perigee"}, "a table of models and rules about their names"},
	{"perigee/internal/schema", []string{"perigee", "perigee/internal/rawjson"}, "JSON Schema to what the provider accepts is pure"},
	{"perigee/internal/prepare", []string{"perigee", "perigee/internal/models", "perigee/internal/rawjson", "perigee/internal/schema"}, "preparing a prompt is pure"},
	{"perigee/internal/verdict", []string{"perigee"}, "judging answers is pure"},
	{"perigee/internal/account", []string{"perigee", "perigee/internal/models", "perigee/internal/verdict"}, "choosing accounts calls nobody"},

	// Upstreams around upstreams.
	{"perigee/internal/route", []string{"perigee", "perigee/internal/models", "perigee/internal/names"}, "routing knows upstreams by ability only"},
	{"perigee/internal/until", []string{"perigee"}, "an answer ends at a stop sequence, whoever gives it"},
	{"perigee/internal/signature", []string{"perigee", "perigee/internal/batch", "perigee/internal/models"}, "signatures are kept around any upstream, in any store"},
	{"perigee/internal/audit", []string{"perigee"}, "administrative acts go into any store"},
	{"perigee/internal/record", []string{"perigee", "perigee/internal/batch"}, "recording watches any upstream, into any store"},

	// Edges.
	{"perigee/internal/upstream/wire", []string{"perigee", "perigee/internal/names", "perigee/internal/sse", "golang.org/x/sys"}, "connections and streams, whatever is said on them"},
	{"perigee/internal/upstream/gemini", []string{"perigee", "perigee/internal/dialect/gemini", "perigee/internal/models", "perigee/internal/prepare", "perigee/internal/sse", "perigee/internal/upstream/wire"}, "its wire is the Gemini dialect over event streams"},
	{"perigee/internal/upstream/antigravity", []string{"perigee", "perigee/internal/account", "perigee/internal/dialect/gemini", "perigee/internal/models", "perigee/internal/prepare", "perigee/internal/rawjson", "perigee/internal/schema", "perigee/internal/sse", "perigee/internal/upstream/wire", "perigee/internal/verdict"}, "its wire is the Gemini dialect in an envelope"},
	{"perigee/internal/seal", []string{"perigee", "perigee/internal/ownfile", "github.com/zalando/go-keyring", "golang.org/x/crypto"}, "it seals secrets for whoever keeps them"},
	{"perigee/internal/oauth/vscdb", []string{"modernc.org/sqlite"}, "it reads the IDE's own database, and nothing else does"},
	{"perigee/internal/oauth", []string{"perigee", "perigee/internal/account", "perigee/internal/upstream/wire", "perigee/internal/verdict"}, "signing in ends with an account, whoever uses it"},
	{"perigee/internal/oauth/accountfile", []string{"perigee", "perigee/internal/account", "perigee/internal/oauth", "perigee/internal/oauth/vscdb", "perigee/internal/ownfile", "perigee/internal/rawjson", "perigee/internal/verdict"}, "it reads and writes the files in which accounts travel"},
	{"perigee/internal/fetch", []string{"perigee"}, "it reads the web for whoever asks, and knows no dialect"},
	{"perigee/internal/imagestore", nil, "files in a directory"},
	{"perigee/internal/httpapi", []string{"perigee", "perigee/internal/dialect/...", "perigee/internal/membudget", "perigee/internal/names", "perigee/internal/rawjson", "github.com/coder/websocket"}, "it serves every dialect and knows no upstream"},
	{"perigee/internal/sqlstore", []string{"perigee", "perigee/internal/rawjson", "modernc.org/sqlite", "github.com/jackc/pgx/v5"}, "the only package that knows SQL"},
	{"perigee/internal/config", []string{"perigee", "perigee/internal/names", "perigee/internal/seal", "go.yaml.in/yaml/v3"}, "the only package that reads the configuration file; what a seal key looks like only seal knows"},
	{"perigee/internal/simulator", []string{"perigee/internal/simulator/rules", "perigee/internal/sse", "go.yaml.in/yaml/v3"}, "the provider's stand-in shares no code with what it judges, but for framing"},
	{"perigee/internal/simulator/rules", nil, "the provider's rules are judged independently of our codecs"},

	// Who knows all.
	{"perigee/internal/daemon", []string{"perigee", "perigee/internal/..."}, "the only package that knows all others"},
	{"perigee/internal/perigeetest", []string{"perigee", "golang.org/x/sys", "golang.org/x/tools", "github.com/rogpeppe/go-internal", "modernc.org/sqlite", "github.com/jackc/pgx/v5"}, "what tests share"},
	{"perigee/cmd/perigee", []string{"perigee", "perigee/internal/config", "perigee/internal/daemon", "perigee/internal/httpapi", "perigee/internal/names", "perigee/internal/simulator", "perigee/internal/sqlstore", "perigee/internal/systemd"}, "commands are thin"},
	{"perigee/bench/chaos", []string{"github.com/coder/websocket", "golang.org/x/sys", "modernc.org/sqlite"}, "drives the built binary from outside"},
	{"perigee/bench", []string{"perigee", "perigee/internal/..."}, "measures from outside"},
	{"perigee/e2e", []string{"golang.org/x/sys"}, "drives the built binary from outside"},
}

// TestDependencies holds the direction of the house: who imports what it may not, fails here with the reason.
func TestDependencies(t *testing.T) {
	for _, p := range listPackages(t) {
		i := slices.IndexFunc(rooms, func(r room) bool {
			return r.path == p.ImportPath || strings.HasPrefix(p.ImportPath, r.path+"/") && r.path == "perigee/bench"
		})
		if i < 0 {
			t.Errorf("package %s is not in the table of rooms; add it with what it may import, and why", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !foreign(imported) || slices.ContainsFunc(rooms[i].imports, func(allowed string) bool { return allows(allowed, imported) }) {
				continue
			}
			t.Errorf("%s imports %s: %s", p.ImportPath, imported, rooms[i].reason)
		}
	}
}

// TestRoomsExist keeps the table from outliving what it describes.
func TestRoomsExist(t *testing.T) {
	packages := listPackages(t)
	for _, r := range rooms {
		if !slices.ContainsFunc(packages, func(p listed) bool { return p.ImportPath == r.path }) {
			t.Errorf("the table of rooms has %s, but there is no such package", r.path)
		}
	}
}

// TestPackagesSayWhatTheyAreFor asks every package for its opening comment.
func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("package %s has no opening comment", p.ImportPath)
		}
	}
}

func allows(allowed, imported string) bool {
	if prefix, ok := strings.CutSuffix(allowed, "/..."); ok {
		return strings.HasPrefix(imported, prefix+"/")
	}
	return imported == allowed || (strings.Contains(allowed, ".") && strings.HasPrefix(imported, allowed+"/"))
}

// foreign says whether an import is not of the standard library.
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
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
