//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/cli"
)

// At a terminal, settings are written only after the change was shown and a yes.
func TestConnectAsksAtATerminal(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", home) // no client is installed
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("PERIGEE_DATA_DIR", filepath.Join(home, "data"))
	path := filepath.Join(home, ".claude", "settings.json")
	for _, step := range []struct {
		typed string
		code  int
		want  string
		there bool
	}{
		{"no\n", 1, "nothing was done: the answer was not yes", false},
		{"yes\n", 0, "wrote " + path, true},
	} {
		terminal, person := newTerminal(t)
		if _, err := person.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
		var out, messages bytes.Buffer
		code := run(t.Context(), &cli.Env{Stdin: terminal, Stdout: &out, Stderr: &messages}, []string{"connect", "claude-code"})
		if code != step.code || !strings.Contains(messages.String(), step.want) || !strings.Contains(messages.String(), "write these settings? type yes") {
			t.Errorf("typed %q: exit %d: %s", step.typed, code, messages.String())
		}
		if !strings.Contains(out.String(), `+    "ANTHROPIC_BASE_URL": "http://127.0.0.1:8741"`) {
			t.Errorf("the diff is not shown: %s", out.String())
		}
		if _, err := os.Stat(path); (err == nil) != step.there {
			t.Errorf("typed %q: %v", step.typed, err)
		}
	}
}
