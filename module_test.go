package perigee_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestModuleCanBeRenamed renames the module in a copy of the tree as "make module" does, and looks
// for imports that still have its earlier path.
func TestModuleCanBeRenamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("make module needs a shell and perl")
	}
	line, _, _ := strings.Cut(readFile(t, "go.mod"), "\n")
	earlier := strings.TrimPrefix(line, "module ")
	const renamed = "example.com/renamed"
	copied := t.TempDir()
	var sources []string
	eachSource(t, func(path string) {
		to := filepath.Join(copied, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(readFile(t, path)), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(path) == ".go" {
			sources = append(sources, to)
		}
	})
	cmd := exec.CommandContext(t.Context(), "make", "-s", "renamed", "MODULE="+renamed)
	cmd.Dir = copied
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make renamed: %v\n%s", err, output)
	}
	found := 0
	for _, path := range sources {
		text := readFile(t, path)
		found += strings.Count(text, `"`+renamed)
		if !strings.Contains(text, `"`+earlier) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			if imported == earlier || strings.HasPrefix(imported, earlier+"/") {
				t.Errorf("%s still imports %s", strings.TrimPrefix(path, copied+"/"), imported)
			}
		}
	}
	if found < 2000 {
		t.Errorf("%d imports have the new path, want thousands", found)
	}
}

// eachSource calls f for the files that "make module" reads and changes. Directories two levels
// below e2e are modules of their own.
func eachSource(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != "." && (name[0] == '.' || name == "node_modules" || name == "bin" || filepath.Dir(path) == "e2e") {
				return filepath.SkipDir
			}
		case filepath.Ext(path) == ".go" || filepath.Ext(path) == ".proto" || name == "go.mod" || path == "Makefile":
			f(filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
