//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/terminaltest"
)

// A provider that is asked for an address is waited for: a terminal shows that while it lasts, a
// pipe has one line, and with
// --json there is none.
func TestImportShowsThatItWaits(t *testing.T) {
	t.Setenv("PERIGEE_KEYRING", "off")
	t.Setenv("CI", "")
	t.Setenv("TERM", "xterm")
	asked, answer := make(chan struct{}, 9), make(chan struct{}, 9)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/userinfo" {
			_, _ = io.WriteString(w, `{"email": "ada@example.com"}`)
			return
		}
		asked <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, `{"access_token": "access-ada", "expires_in": 3600, "token_type": "Bearer"}`)
	}))
	defer provider.Close()
	dir := t.TempDir()
	file, accounts := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "accounts.json")
	text := "data_dir: " + dir + "/data\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true, endpoints: [" +
		provider.URL + "], oauth: {client_id: an-id, client_secret: of-the-client, auth_url: " + provider.URL + "/auth, token_url: " +
		provider.URL + "/token, userinfo_url: " + provider.URL + "/userinfo}}\n"
	for path, content := range map[string]string{file: text, accounts: `[{"refresh_token": "refresh-ada"}]`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const step = "asking the provider for 1 address"
	perigee := func(stdout, stderr io.Writer, more ...string) {
		t.Helper()
		args := append([]string{"account", "import", accounts, "--config", file}, more...)
		if code := run(context.Background(), &cli.Env{Stdout: stdout, Stderr: stderr}, args); code != 0 {
			t.Errorf("exit %d", code)
		}
	}

	screen := terminaltest.NewScreen(t, 80)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		perigee(screen.Terminal, screen.Terminal)
	}()
	await.Receive(t, asked, "the question to the provider")
	screen.Await(step)
	await.Send(t, answer, struct{}{}, "the provider to answer")
	await.Receive(t, ended, "the end of the import")
	seen := strings.Join(terminaltest.Lines(screen.Close()), "\n")
	if strings.Contains(seen, step) || !strings.Contains(seen, "ada@example.com") {
		t.Errorf("a person sees %q", seen)
	}

	for _, test := range []struct {
		more []string
		want string
	}{{nil, "perigee: " + step + "\n"}, {[]string{"--json"}, ""}} {
		var stdout, stderr bytes.Buffer
		answer <- struct{}{}
		perigee(&stdout, &stderr, test.more...)
		said, _, _ := strings.Cut(stderr.String(), "perigee: account 1")
		if said != test.want || strings.Contains(stdout.String(), step) {
			t.Errorf("%v: stderr %q, stdout %q", test.more, stderr.String(), stdout.String())
		}
	}
}
