package perigee_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tests that skip themselves under the race detector, or do less there, are run without it by name, in the Makefile. One that is
// missing there, or has another name by now, would never be run.
func TestMakefileNamesWhatTheRaceDetectorLeavesOut(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^UNRACED = (.*)$`).FindSubmatch(makefile)
	folders := regexp.MustCompile(`(?m)-run '\^\(\$\(UNRACED\)\)\$\$' (.*)$`).FindSubmatch(makefile)
	if names == nil || folders == nil {
		t.Fatal("the Makefile has no UNRACED, or does not use it")
	}
	listed, visited := strings.Split(string(names[1]), "|"), strings.Fields(string(folders[1]))
	found := testsThatAsk(t, "raced", "underRace")
	for test, folder := range found {
		if !slices.Contains(listed, test) || !slices.Contains(visited, "./"+folder) {
			t.Errorf("%s in %s asks whether the race detector is on, and is not run without it", test, folder)
		}
	}
	for _, test := range listed {
		if found[test] == "" {
			t.Errorf("there is no %s, or it does not ask whether the race detector is on", test)
		}
	}
}

// testsThatAsk finds the tests with an if about one of some constants, and the folders they are in.
func testsThatAsk(t *testing.T, constants ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	asks := func(n ast.Node) (yes bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			yes = yes || ok && slices.Contains(constants, name.Name)
			return true
		})
		return yes
	}
	err := filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			test, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(test.Name.Name, "Test") {
				continue
			}
			ast.Inspect(test, func(n ast.Node) bool {
				if question, ok := n.(*ast.IfStmt); ok && asks(question.Cond) {
					found[test.Name.Name] = filepath.ToSlash(filepath.Dir(path))
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
