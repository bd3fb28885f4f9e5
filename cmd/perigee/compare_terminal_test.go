//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/cli"
	"perigee/internal/testing/perigeetest/await"
)

// At a terminal, calls are sent to other models only after the estimate was shown and a yes.
func TestCompareAsksAtATerminal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+dir+"/data\nupstreams: [{name: pretended, kind: simulator}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	messages, said := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, &cli.Env{Stdout: io.Discard, Stderr: said}, []string{"serve", "--config", file, "--listen", "127.0.0.1:0"})
		_ = said.Close()
	}()
	defer func() {
		stop()
		await.Receive(t, ended, "the end of the daemon")
	}()
	url := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(messages); lines.Scan(); {
			if _, address, ok := strings.Cut(lines.Text(), "listening on "); ok {
				url <- address
			}
		}
	}()
	body := `{"model": "gemini-3-flash", "messages": [{"role": "user", "content": "[[text: hello]]"}]}`
	resp, err := http.Post(await.Receive(t, url, "the address of the daemon")+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for _, step := range []struct {
		typed, stderr, stdout string
		code                  int
		sent                  int
	}{
		{"no\n", "nothing was done: the answer was not yes", "", 1, 0},
		{"\x04", "pass --yes", "", 2, 0}, // Ctrl-D
		{"yes\n", "perigee: sending 1 call\n", "gemini-2.5-pro             pretended  done", 0, 1},
	} {
		terminal, person := newTerminal(t)
		if _, err := person.WriteString(step.typed); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr, list bytes.Buffer
		code := run(t.Context(), &cli.Env{Stdin: terminal, Stdout: &stdout, Stderr: &stderr},
			[]string{"trace", "compare", "--models", "gemini-2.5-pro", "--config", file})
		if code != step.code || !strings.Contains(stdout.String(), step.stdout) || (step.stdout == "") != (stdout.Len() == 0) {
			t.Errorf("typed %q: exit %d: %s", step.typed, code, &stdout)
		}
		plan, rest, asked := strings.Cut(stderr.String(), "perigee: send 1 call? type yes to go on: ")
		if !asked || !strings.Contains(plan, "gemini-2.5-pro  pretended        1 ") || !strings.Contains(rest, step.stderr) {
			t.Errorf("typed %q: %s", step.typed, &stderr)
		}
		if code := run(t.Context(), &cli.Env{Stdout: &list, Stderr: &stderr},
			[]string{"trace", "list", "--replays", "--json", "--config", file}); code != 0 {
			t.Fatal(code, stderr.String())
		}
		if sent := strings.Count(list.String(), `"replay_of"`); sent != step.sent {
			t.Errorf("typed %q: %d calls were sent", step.typed, sent)
		}
	}
}
