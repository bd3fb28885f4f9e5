package terminal_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"perigee/internal/lib/terminal"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/terminaltest"
)

// atATerminal sets the environment of a person, also where the test runs in CI.
func atATerminal(t *testing.T) {
	t.Helper()
	t.Setenv("CI", "")
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
}

func TestProgressAtATerminalLeavesNothingBehind(t *testing.T) {
	atATerminal(t)
	screen := terminaltest.NewScreen(t, 40)
	p := terminal.NewProgress(t.Context(), screen.Terminal, func(text string) { t.Errorf("a plain line: %s", text) })
	p.Step("asking %s", "studio")
	screen.Await("asking studio")
	p.Update("asked 3 of 20")
	screen.Await("asked 3 of 20")
	p.Around(func() { fmt.Fprintln(screen.Terminal, "a message") })
	p.Step("a name \x1b[2J%s", strings.Repeat("that is longer than the terminal ", 3))
	screen.Await("that is longer")
	p.Close()
	p.Step("after the end")
	p.Close()
	text := screen.Close()
	if got := terminaltest.Lines(text); !slices.Equal(got, []string{"a message", ""}) {
		t.Errorf("a person sees %q", got)
	}
	if strings.Contains(text, "\x1b[2J") || strings.Contains(text, "after the end") {
		t.Errorf("it wrote %q", text)
	}
	for line := range strings.SplitSeq(text, "\r\x1b[K") {
		if seen := terminaltest.Lines(line)[0]; utf8.RuneCountInString(seen) >= 40 {
			t.Errorf("%q would be wrapped", seen)
		}
	}
	if !strings.Contains(text, "\x1b[32m") {
		t.Errorf("no colour: %q", text)
	}
}

func TestProgressRemovesItsLineWhenInterrupted(t *testing.T) {
	atATerminal(t)
	t.Setenv("NO_COLOR", "1")
	screen := terminaltest.NewScreen(t, 80)
	ctx, cancel := context.WithCancel(t.Context())
	p := terminal.NewProgress(ctx, screen.Terminal, nil)
	p.Step("waiting")
	screen.Await("waiting")
	cancel()
	p.Close()
	text := screen.Close()
	if !strings.HasSuffix(text, "waiting\r\x1b[K") || strings.Contains(text, "\x1b[3") {
		t.Errorf("it wrote %q", text)
	}
}

func TestProgressPausesForAQuestion(t *testing.T) {
	atATerminal(t)
	screen := terminaltest.NewScreen(t, 80)
	p := terminal.NewProgress(t.Context(), screen.Terminal, nil)
	defer p.Close()
	p.Step("first")
	screen.Await("first")
	p.Pause()
	fmt.Fprint(screen.Terminal, "name? ")
	screen.Await("name? ")
	p.Around(func() { fmt.Fprint(screen.Terminal, "ada\n") })
	p.Step("second")
	screen.Await("second")
	if text := screen.Text(); !strings.Contains(text, "\r\x1b[Kname? ada\r\n") {
		t.Errorf("it wrote %q", text)
	}
}

func TestProgressIsPlainWithoutATerminal(t *testing.T) {
	for name, test := range map[string]struct{ variable, value string }{
		"a pipe": {}, "CI": {"CI", "true"}, "a dumb terminal": {"TERM", "dumb"},
	} {
		t.Run(name, func(t *testing.T) {
			atATerminal(t)
			screen := terminaltest.NewScreen(t, 80)
			var buffer bytes.Buffer
			var lines []string
			plain := func(text string) { lines = append(lines, text) }
			p := terminal.NewProgress(t.Context(), &buffer, plain)
			if test.variable != "" {
				t.Setenv(test.variable, test.value)
				p = terminal.NewProgress(t.Context(), screen.Terminal, plain)
			}
			p.Step("first")
			for i := range 100 {
				p.Update("first, %d of 100", i) // at most one line in ten seconds
			}
			p.Step("second\nline")
			p.Close()
			if text := buffer.String() + screen.Close(); text != "" {
				t.Errorf("it wrote %q", text)
			}
			if lines[0] != "first" || lines[len(lines)-1] != "second line" || len(lines) > 10 {
				t.Errorf("lines %q", lines)
			}
		})
	}
}

func TestProgressIsSafeForConcurrentUse(t *testing.T) {
	atATerminal(t)
	screen := terminaltest.NewScreen(t, 80)
	p := terminal.NewProgress(t.Context(), screen.Terminal, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				p.Step("step %d of %d", j, i)
				p.Update("more")
				p.Around(func() { fmt.Fprintln(screen.Terminal, "a line") })
			}
		})
	}
	await.Return(t, wg.Wait, "all steps")
	p.Close()
	if got := terminaltest.Lines(screen.Close()); len(got) != 401 || slices.ContainsFunc(got[:400], func(s string) bool { return s != "a line" }) {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

func TestProgressMayBeAbsent(t *testing.T) {
	var none *terminal.Progress
	wrote := 0
	for _, p := range []*terminal.Progress{none, {}} {
		p.Step("first")
		p.Update("second")
		p.Pause()
		p.Around(func() { wrote++ })
		p.Close()
	}
	if wrote != 2 {
		t.Errorf("Around called its function %d times", wrote)
	}
}

func TestPaletteFollowsTheStream(t *testing.T) {
	atATerminal(t)
	screen := terminaltest.NewScreen(t, 80)
	if got := terminal.PaletteOf(screen.Terminal).Paint("ok", terminal.Good); got != "\x1b[32mok\x1b[0m" {
		t.Errorf("at a terminal: %q", got)
	}
	if got := terminal.PaletteOf(screen.Terminal).Paint("  ", terminal.Good); got != "  " {
		t.Errorf("blanks: %q", got)
	}
	if got := terminal.PaletteOf(&bytes.Buffer{}).Paint("ok", terminal.Good); got != "ok" {
		t.Errorf("in a pipe: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := terminal.PaletteOf(screen.Terminal).Paint("ok", terminal.Good); got != "ok" {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
