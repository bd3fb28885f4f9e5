package perigee_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureHasTheRooms compares the table of rooms in docs/architecture.md with the rooms,
// which are in the order of their imports.
func TestArchitectureHasTheRooms(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range rooms {
		want = append(want, r.name)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllSubmatch(page, -1) {
		got = append(got, string(row[1]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/architecture.md has the rooms\n%q, want\n%q", got, want)
	}
}

// TestAuditLogIsDocumented looks for each action and actor of audit.go in the help of perigee audit
// and in docs/http.md.
func TestAuditLogIsDocumented(t *testing.T) {
	source, err := os.ReadFile("audit.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t(?:Audit|Actor)\w+ += "([a-z_.]+)"`).FindAllSubmatch(source, -1)
	if len(names) < 20 {
		t.Fatalf("found %d names", len(names))
	}
	for _, file := range []string{"cmd/perigee/help/audit.txt", "docs/http.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(string(name[1])) + `\b`).Match(text) {
				t.Errorf("%s does not name %s", file, name[1])
			}
		}
	}
}

// TestCommandsOfTheEditorExist looks for each command of the extension that hints and
// vscode/README.md name in its manifest.
func TestCommandsOfTheEditorExist(t *testing.T) {
	raw, err := os.ReadFile("vscode/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Contributes struct {
			Commands []struct{ Title, Category string }
		}
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	titles := make(map[string]bool)
	for _, c := range manifest.Contributes.Commands {
		titles[c.Category+": "+c.Title] = true
	}
	files := []string{"vscode/README.md"}
	for _, dir := range []string{"internal/mcp/bridge/*.go", "internal/server/connect/*.go"} {
		found, err := filepath.Glob(dir)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, title := range regexp.MustCompile(`perigee: [SCR][a-z]+( [a-zA-Z]+)+`).FindAllString(string(text), -1) {
			named++
			if !titles[title] {
				t.Errorf("%s names %q, which the extension does not have", file, title)
			}
		}
	}
	if named < 8 {
		t.Errorf("found %d commands", named)
	}
}

// TestTwoCommands keeps the promise that two commands are all the set-up there is: the first screen
// of README.md has make run and make test, the Makefile has both, make run prints the request that
// README.md shows, and CI calls the same make test.
func TestTwoCommands(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme, makefile, ci := read("README.md"), read("Makefile"), read(".ci/run")
	screen := strings.Join(strings.SplitN(readme, "\n", 41)[:40], "\n")
	for _, command := range []string{"run", "test"} {
		if !regexp.MustCompile(`(?m)^\$ make ` + command + `\b`).MatchString(screen) {
			t.Errorf("the first 40 lines of README.md do not have make %s", command)
		}
		if !regexp.MustCompile(`(?m)^` + command + `:`).MatchString(makefile) {
			t.Errorf("the Makefile has no target %s", command)
		}
	}
	if !regexp.MustCompile(`(?m)^make test\b`).MatchString(ci) {
		t.Error(".ci/run does not call make test")
	}

	shown := regexp.MustCompile(`curl -s http://127\.0\.0\.1:8741(\S+) \\\n +-d '([^']+)'`).FindStringSubmatch(screen)
	if shown == nil {
		t.Fatal("the first 40 lines of README.md have no request to the gateway of make run")
	}
	printed := strings.ReplaceAll(makefile, `\"`, `"`)
	if !strings.Contains(printed, "curl -s http://$(LISTEN)"+shown[1]+" -d '"+shown[2]+"'") {
		t.Errorf("make run does not print the request of README.md: %s %s", shown[1], shown[2])
	}
	if !strings.Contains(printed, "LISTEN  ?= 127.0.0.1:8741\n") {
		t.Error("make run does not listen where README.md says")
	}
}
