package doctor

import (
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/internal/cli"
	"perigee/internal/testing/terminaltest"
)

var results = []Result{
	{Check: NameConfig, Status: OK, Detail: "/home/ada/config.yaml"},
	{Check: NameDataDir, Status: Fail, Detail: "other users can read a file with a name that does not fit into what is left of a line",
		Fix: "chmod go= /home/ada/a-file-with-a-name-that-does-not-fit-into-what-is-left-of-a-line"},
	{Check: NameListen, Status: Warn, Detail: "a \x1b[31mcontrol sequence", Fix: "perigee serve"},
	{Check: "account:a.person.with.a.very.long.name@example.com", Status: OK, Detail: "ready"},
}

// shown is what a terminal of 60 characters gets.
func shown(t *testing.T) string {
	t.Helper()
	return shownAt(t, 60)
}

func shownAt(t *testing.T, width uint16) string {
	t.Helper()
	screen := terminaltest.NewScreen(t, width)
	if err := print(&cli.Env{Stdout: screen.Terminal}, results); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(screen.Close(), "\r\n", "\n")
}

func TestResultsFitTheTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("LC_ALL", "C.UTF-8")
	want := `This machine
  ✓ config                        /home/ada/config.yaml
  ✗ data_dir                      other users can read a
                                  file with a name that does
                                  not fit into what is left
                                  of a line
                                  fix: chmod go= /home/ada/a-file-with-a-name-that-does-not-fit-into-what-is-left-of-a-line

The daemon
  ! listen                        a ?[31mcontrol sequence
                                  fix: perigee serve

Sources
  ✓ account:a.person.with.a.very.long.name@example.com
                                  ready

2 checks are ok, 1 has a warning, 1 has failed
`
	if got := shown(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// At a narrow terminal no line is longer than the terminal but those of fixes, which are copied.
func TestResultsFitANarrowTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, width := range []uint16{40, 50} {
		lines := strings.Split(shownAt(t, width), "\n")
		if len(lines) < 12 {
			t.Errorf("%d: only %d lines", width, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > int(width) && !strings.Contains(line, "fix: ") {
				t.Errorf("at %d: %q", width, line)
			}
		}
	}
}

func TestColoursAndSymbolsDependOnTheTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, part := range []string{"\x1b[32m✓\x1b[0m config", "\x1b[31m✗\x1b[0m data_dir", "\x1b[33m!\x1b[0m listen", "\x1b[1mThis machine\x1b[0m"} {
		if got := shown(t); !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%q", part, got)
		}
	}
	t.Setenv("LC_ALL", "C")
	if got := shown(t); !strings.Contains(got, "\x1b[32mok\x1b[0m   config") || !strings.Contains(got, "\x1b[31mfail\x1b[0m data_dir") {
		t.Errorf("got\n%q", got)
	}
	var out strings.Builder // not a terminal
	if err := print(&cli.Env{Stdout: &out}, results[:1]); err != nil {
		t.Fatal(err)
	}
	if want := "This machine\n  ok   config  /home/ada/config.yaml\n\neverything is in order\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestUTF8IsReadFromTheLocale(t *testing.T) {
	for locale, want := range map[string]bool{"LC_ALL=de_DE.UTF-8": true, "LANG=C.utf8": true, "LANG=C": false, "LC_CTYPE=POSIX": false} {
		name, value, _ := strings.Cut(locale, "=")
		if got := isUTF8(func(asked string) string { return map[string]string{name: value}[asked] }); got != want {
			t.Errorf("%s: got %v", locale, got)
		}
	}
}
