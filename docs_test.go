package perigee_test

import (
	"os"
	"path/filepath"
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
