package perigee_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestActionsArePinned checks that workflows name each action by its commit: a tag can be moved.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+(/[\w-]+)*@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	found := 0
	for _, file := range files {
		for line := range strings.Lines(readFile(t, file)) {
			if _, action, ok := strings.Cut(line, "uses: "); ok {
				found++
				if !pinned.MatchString(strings.TrimSpace(action)) {
					t.Errorf("%s: %s is not a commit with its version as comment", file, strings.TrimSpace(action))
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d actions", found)
	}
}

// TestDependenciesAreUpdated checks that every module and every lock file of npm is in
// .github/dependabot.yml, and that the forms for issues are YAML.
func TestDependenciesAreUpdated(t *testing.T) {
	var config struct {
		Updates []struct{ Directories []string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, update := range config.Updates {
		listed = append(listed, update.Directories...)
	}
	var found []string
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"node_modules", ".git", ".cache", "bin", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case entry.Name() == "go.mod" || entry.Name() == "package-lock.json":
			found = append(found, filepath.ToSlash(filepath.Join("/", filepath.Dir(path))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return dir == "/e2e/gosdk_older" })
	slices.Sort(found)
	slices.Sort(listed)
	if len(found) < 15 || !slices.Equal(found, listed) {
		t.Errorf("modules and lock files are in\n%q\ndependabot.yml has\n%q", found, listed)
	}
	forms, _ := filepath.Glob(".github/ISSUE_TEMPLATE/*.yml")
	for _, form := range forms {
		if err := yaml.Unmarshal([]byte(readFile(t, form)), new(map[string]any)); err != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}
