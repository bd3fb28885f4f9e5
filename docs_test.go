package perigee_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesEveryPackage looks for the directory of each package in docs/architecture.md.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, depth := range []string{"internal/*/*/*.go", "internal/*/*/*/*.go"} {
		more, err := filepath.Glob(depth)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	seen := make(map[string]bool)
	for _, file := range files {
		dir := filepath.ToSlash(filepath.Dir(file))
		if seen[dir] || strings.Contains(dir, "testdata") {
			continue
		}
		seen[dir] = true
		name := strings.TrimPrefix(dir, "internal/")
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`internal/"+name+"`") {
			t.Errorf("docs/architecture.md does not name %s", dir)
		}
	}
	if len(seen) < 30 {
		t.Errorf("found %d packages", len(seen))
	}
}

// TestAuditLogIsDocumented looks for each action and actor of audit.go in the help of perigee audit and in docs/http.md.
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

// TestCommandsOfTheEditorExist looks for each command of the extension that hints and vscode/README.md name in its manifest.
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
	for _, dir := range []string{"internal/bridge/*.go", "internal/connect/*.go"} {
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
