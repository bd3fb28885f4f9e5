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

// At a terminal an account is removed only after a yes, or with --yes; one that there is not is not
// asked about.
func TestRemoveAsksAtATerminal(t *testing.T) {
	t.Setenv("PERIGEE_KEYRING", "off")
	dir := t.TempDir()
	file, accounts := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "accounts.json")
	text := "data_dir: " + dir + "/data\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true, oauth: {client_id: an-id, client_secret: of-the-client}}\n"
	for path, content := range map[string]string{file: text, accounts: `[{"email": "ada@example.com", "refresh_token": "sim-refresh-ada"}]`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	perigee := func(typed string, args ...string) (code int, said string) {
		terminal, person := newTerminal(t)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code = run(t.Context(), &cli.Env{Stdin: terminal, Stdout: &out, Stderr: &out}, append(args, "--config", file))
		return code, out.String()
	}
	if code, said := perigee("", "account", "import", accounts); code != 0 {
		t.Fatal(code, said)
	}
	for _, step := range []struct {
		typed string
		args  []string
		code  int
		want  string
	}{
		{"no\n", []string{"account", "remove", "ada@example.com"}, 1, "nothing was done: the answer was not yes"},
		{"", []string{"account", "list"}, 0, "ada@example.com"},
		{"", []string{"account", "remove", "bob@example.com"}, 1, "there is no account bob@example.com"},
		{"yes\n", []string{"account", "remove", "ada@example.com"}, 0, "ada@example.com and its refresh token will be deleted"},
		{"", []string{"account", "list"}, 0, "no accounts"},
		{"", []string{"account", "import", accounts}, 0, "added"},
		{"", []string{"account", "remove", "ada@example.com", "--yes"}, 0, "removed: ada@example.com"},
	} {
		if code, said := perigee(step.typed, step.args...); code != step.code || !strings.Contains(said, step.want) {
			t.Errorf("%v, typed %q: exit %d: %s", step.args, step.typed, code, said)
		}
	}
}
