package perigee_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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

// TestTagOfAReleaseIsChecked runs the first step of the release workflow with tags, which the steps
// after it put into commands and addresses. It also checks that no workflow has a value of GitHub in
// the text of a script, where the shell would run it.
func TestTagOfAReleaseIsChecked(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		Env map[string]string
		Run string
	}
	scripts, check := 0, step{}
	for _, file := range files {
		var workflow struct {
			Jobs map[string]struct{ Steps []step }
		}
		if err := yaml.Unmarshal([]byte(readFile(t, file)), &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Run != "" {
					scripts++
				}
				if step.Run != "${{ matrix.command }}" && strings.Contains(step.Run, "${{") {
					t.Errorf("%s: %s has an expression in a script: pass it in env", file, name)
				}
			}
			if filepath.Base(file) == "release.yml" && len(job.Steps) > 0 {
				check = job.Steps[0]
			}
		}
	}
	if scripts < 5 || check.Env["TAG"] != "${{ github.ref_name }}" {
		t.Fatalf("found %d scripts, and the first step of the release is %+v", scripts, check)
	}
	if _, err := exec.LookPath("bash"); err != nil || runtime.GOOS == "windows" {
		t.Skip("the step needs bash")
	}
	dir := t.TempDir()
	for tag, want := range map[string]bool{
		"v0.1.0": true, "v1.2.3-rc.1+build-5": true, "v0": true, "v0`touch${IFS}x`": false, "v0$(touch${IFS}x)": false, "v0;touch": false,
		"v0'": false, `v0"`: false, "v0 x": false, "v0\nx": false, "v0/x": false, "v0é": false, "vx": false, "x v0": false, "": false,
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", check.Run)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL="+check.Env["LC_ALL"], "TAG="+tag)
		if out, err := cmd.CombinedOutput(); (err == nil) != want || !want && !strings.Contains(string(out), "use one such as v0.1.0") {
			t.Errorf("the tag %q: %v, %s", tag, err, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a tag has run a command: %v, %v", left, err)
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
