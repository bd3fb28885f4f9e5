//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/cli"
	"perigee/internal/testing/perigeetest/await"
)

// At a terminal serve says in four lines what is in force, shows each call in one, and says how to
// stop it at once; a second signal does.
func TestServeAtATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "data_dir: " + dir + "/data\nupstreams:\n  - {name: studio, kind: gemini, url: \"http://127.0.0.1:1\", keys: [one-key-of-studio, another-key-of-it]}\n" +
		"  - {name: pretended, kind: simulator}\nmodels: {aliases: {gpt-4o: gemini-3-flash}, routes: [{match: \"gemini-9*\", to: [studio]}, {match: \"*\", to: [pretended]}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	terminal, person := newTerminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for shown := bufio.NewScanner(person); shown.Scan(); { // ends when the terminal does
			lines <- strings.TrimRight(shown.Text(), "\r ")
		}
	}()
	next := func(want string) string {
		t.Helper()
		line := await.Receive(t, lines, want)
		if !strings.Contains(line, want) {
			t.Fatalf("got %q, want %q", line, want)
		}
		return line
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, &cli.Env{Stdout: io.Discard, Stderr: terminal}, []string{"serve", "--config", file, "--listen", "127.0.0.1:0"})
	}()
	next("perigee: configuration: " + file)
	next("perigee: upstreams: studio (gemini, 2 keys, for gemini-9*), pretended")
	next("models, for *)")
	next("perigee: data: " + dir)
	_, url, _ := strings.Cut(next("perigee: listening on http://127.0.0.1:"), " on ")

	ask := func(prompt string) *http.Response {
		t.Helper()
		body := `{"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "` + prompt + `"}]}`
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	_, _ = io.Copy(io.Discard, ask("hello").Body)
	next("  200  gpt-4o → gemini-3-flash  pretended  ")
	ask("[[tokens: 20]] [[chunks: 2]] [[pace: 1h]]")
	interrupt()
	next("perigee: waiting for 1 open call; press Ctrl-C again to stop now")
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := await.Receive(t, ended, "the end of the command"); code != 0 {
		t.Error("exit", code)
	}
}
