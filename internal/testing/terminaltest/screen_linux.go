package terminaltest

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/testing/perigeetest/await"
)

// New returns a terminal, and the side on which a person types and reads. Without terminals it
// skips the test.
func New(t *testing.T) (terminal, person *os.File) {
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

// A Screen is a terminal. It collects its output.
type Screen struct {
	Terminal *os.File
	person   *os.File
	t        *testing.T
	mu       sync.Mutex
	text     strings.Builder
	changed  chan struct{} // has an element after a change
	ended    chan struct{}
}

// NewScreen returns a terminal that is this many characters wide.
func NewScreen(t *testing.T, columns uint16) *Screen {
	t.Helper()
	terminal, person := New(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	s := &Screen{Terminal: terminal, person: person, t: t, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(s, person) // it ends with an error when the terminal is closed
	}()
	return s
}

// Write adds output of the terminal.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

// Type types at the terminal.
func (s *Screen) Type(text string) {
	s.t.Helper()
	if _, err := s.person.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// Text is everything that was written so far, control sequences included.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Await waits until a text was written.
func (s *Screen) Await(text string) {
	s.t.Helper()
	for !strings.Contains(s.Text(), text) {
		await.Receive(s.t, s.changed, fmt.Sprintf("%q after %q", text, s.Text()))
	}
}

// Close closes the terminal, and returns everything that was written.
func (s *Screen) Close() string {
	s.t.Helper()
	if err := s.Terminal.Close(); err != nil {
		s.t.Fatal(err)
	}
	await.Receive(s.t, s.ended, "the end of the output")
	return s.Text()
}

// Lines are the lines that a person sees after the output: a line that was cleared is not among
// them, and colours are removed.
func Lines(output string) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(output, "\r\n", "\n"), "\n") {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i+len("\r\x1b[K"):]
		}
		lines = append(lines, colour.ReplaceAllString(line, ""))
	}
	return lines
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
