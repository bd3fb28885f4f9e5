//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newTerminal returns a terminal, and the side on which a person types.
func newTerminal(t *testing.T) (terminal, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal, person
}

// Only the whole word yes goes on to the sign-in, which then fails here for want of an OAuth client.
func TestLoginAsksAtATerminal(t *testing.T) {
	t.Setenv("PERIGEE_KEYRING", "off")
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "data_dir: " + dir + "\nupstreams:\n  - {name: gravity, kind: antigravity, accept_terms_risk: true}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"yes\n": "perigee has no OAuth client of its own", "YES \n": "perigee has no OAuth client of its own",
		"y\n": "nothing was done, as the answer was not yes", "\n": "nothing was done", "no\n": "nothing was done", "yes please\n": "nothing was done",
	} {
		terminal, person := newTerminal(t)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		code := run(context.Background(), &environment{stdin: terminal, stdout: &said, stderr: &said}, []string{"login", "--config", file})
		if code == 0 || !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "have been suspended") {
			t.Errorf("typed %q: exit %d: %s", typed, code, said.String())
		}
	}
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
	if code := run(context.Background(), &environment{stdout: terminal, stderr: io.Discard}, args); code != 0 {
		t.Fatal("exit", code)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.ReplaceAll(string(<-shown), "\r", ""), "\n")
	if len(lines) < 20 || !strings.HasPrefix(lines[0], "KEY ") {
		t.Fatalf("it shows %q", lines)
	}
	for _, line := range lines {
		if len(strings.TrimRight(line, " ")) > 70 {
			t.Errorf("too long: %s", line)
		}
	}
	var piped bytes.Buffer
	if code := run(context.Background(), &environment{stdout: &piped, stderr: io.Discard}, args); code != 0 || !strings.Contains(piped.String(), "https://daily-cloudcode-pa.googleapis.com ") {
		t.Errorf("exit %d: %s", code, piped.String())
	}
}
