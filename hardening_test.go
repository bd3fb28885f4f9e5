package perigee_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHardeningNamesTests looks for every test that docs/hardening.md names in the package that it
// names, and for its make targets.
func TestHardeningNamesTests(t *testing.T) {
	page, err := os.ReadFile("docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`go test (\\./[a-z/.]+)( -run| -fuzz)? ?'?([^`' ]*)").FindAllStringSubmatch(string(page), -1)
	names := 0
	for _, command := range commands {
		dir, below := strings.CutSuffix(command[1], "/...")
		var source strings.Builder
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if below {
			more, _ := filepath.Glob(filepath.Join(dir, "*", "*_test.go"))
			files = append(files, more...)
		}
		if command[2] == "" {
			continue // all tests of a package
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		for name := range strings.SplitSeq(command[3], `\|`) {
			names++
			test, sub, _ := strings.Cut(name, "/")
			if !strings.Contains(source.String(), "\nfunc "+test) {
				t.Errorf("%s has no test %s", dir, test)
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "testdata", sub+"*")); sub != "" && len(found) == 0 {
				t.Errorf("%s has no transcript %s", dir, sub)
			}
		}
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range regexp.MustCompile("`make ([a-z0-9-]+)").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(string(makefile), "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %s", target[1])
		}
	}
	if names < 40 {
		t.Errorf("only %d names of tests in %d commands", names, len(commands))
	}
}
