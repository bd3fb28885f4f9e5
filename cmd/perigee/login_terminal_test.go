//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/terminaltest"
)

// newTerminal returns a terminal, and the side on which a person types.
func newTerminal(t *testing.T) (terminal, person *os.File) {
	t.Helper()
	return terminaltest.New(t)
}

// Only the whole word yes goes on to the sign-in, which then fails here because nothing is pasted.
func TestLoginAsksAtATerminal(t *testing.T) {
	t.Setenv("PERIGEE_KEYRING", "off")
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "data_dir: " + dir + "\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true, oauth: {client_id: an-id, client_secret: of-the-client, redirect_port: 0}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"yes\n\x04": "no pasted address completed the sign-in", "YES \n\x04": "no pasted address completed the sign-in",
		"y\n": "nothing was done: the answer was not yes", "\n": "nothing was done", "no\n": "nothing was done", "yes please\n": "nothing was done",
	} {
		terminal, person := newTerminal(t)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		code := run(context.Background(), &cli.Env{Stdin: terminal, Stdout: &said, Stderr: &said}, []string{"login", "--paste", "--config", file})
		if code == 0 || !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "have been suspended") {
			t.Errorf("typed %q: exit %d: %s", typed, code, said.String())
		}
	}
}

// Ctrl-C is reported as an interruption that changed nothing: at the question, and while the page
// of the provider is open.
func TestLoginIsInterrupted(t *testing.T) {
	t.Setenv("PERIGEE_KEYRING", "off")
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "data_dir: " + dir + "\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true, oauth: {client_id: an-id, client_secret: of-the-client, redirect_port: 0}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for when, more := range map[string][]string{"type yes to go on": nil, "press Enter": {"--yes", "--paste"}} {
		terminal, _ := newTerminal(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		said := &heard{until: when, then: func() { cancel(errors.New("interrupt signal received")) }}
		code := run(ctx, &cli.Env{Stdin: terminal, Stdout: said, Stderr: said}, append([]string{"login", "--config", file}, more...))
		if code != 1 || !strings.HasSuffix(said.String(), "\nperigee: login: interrupted; nothing was changed\n") {
			t.Errorf("at %q: exit %d: %s", when, code, said.String())
		}
	}
}

// heard is what was said, by several at once, and what happens when something was.
type heard struct {
	mu    sync.Mutex
	text  strings.Builder
	until string
	then  func()
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p)
	if strings.Contains(h.text.String(), h.until) {
		h.then()
	}
	return len(p), nil
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// At a terminal no line is longer than it is wide; a pipe gets all of it.
func TestListingsFitTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "data_dir: /tmp\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true, oauth: {client_id: an-id}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	terminal, person := newTerminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 70}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(person) // ends when the terminal does
		shown <- all
	}()
	args := []string{"config", "show", "--config", file}
	if code := run(context.Background(), &cli.Env{Stdout: terminal, Stderr: io.Discard}, args); code != 0 {
		t.Fatal("exit", code)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.ReplaceAll(string(await.Receive(t, shown, "what the terminal shows")), "\r", ""), "\n")
	if len(lines) < 20 || !strings.HasPrefix(lines[0], "KEY ") {
		t.Fatalf("it shows %q", lines)
	}
	for _, line := range lines {
		if len(strings.TrimRight(line, " ")) > 70 {
			t.Errorf("too long: %s", line)
		}
	}
	var piped bytes.Buffer
	if code := run(context.Background(), &cli.Env{Stdout: &piped, Stderr: io.Discard}, args); code != 0 || !strings.Contains(piped.String(), "https://daily-cloudcode-pa.googleapis.com ") {
		t.Errorf("exit %d: %s", code, piped.String())
	}
}

// At a narrow terminal an address is printed whole, below the table.
func TestExplainKeepsAddressesWhole(t *testing.T) {
	link := "https://accounts.example.com/verify?" + strings.Repeat("long=", 30)
	terminal, person := newTerminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(person) // ends when the terminal does
		shown <- all
	}()
	r := &accountRun{env: &cli.Env{Stdout: terminal, Stderr: io.Discard}}
	rows := []perigee.ChoiceRow{
		{Email: "ada@example.com", Upstream: "gravity", Pool: "antigravity", Why: "it has to be verified: open " + link + " in a browser, then run `perigee account enable` with its address"},
		{Email: "bob@example.com", Upstream: "gravity", Pool: "antigravity", Usable: true, Chosen: true, Why: "usable, 100% of its quota left: it is preferred"},
	}
	if err := r.listChoices(rows); err != nil {
		t.Fatal(err)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(await.Receive(t, shown, "what the terminal shows")), "\r", "")
	for _, want := range []string{"  no      see below\n", "\n" + link + "\n", "`perigee account enable ada@example.com`\n"} {
		if !strings.Contains(strings.ReplaceAll(text, " \n", "\n"), want) {
			t.Errorf("it does not show %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, link); n != 1 {
		t.Errorf("it shows the address %d times:\n%s", n, text)
	}
}
