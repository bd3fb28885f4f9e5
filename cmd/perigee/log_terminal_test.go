package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"perigee/internal/lib/terminal"
)

// A call is one row at every width, with fewer parts in a narrower terminal.
func TestLinesFitTheTerminal(t *testing.T) {
	at := time.Date(2026, 1, 31, 18, 31, 43, 0, time.UTC)
	call := func(level slog.Level, outcome string, more ...any) slog.Record {
		r := slog.NewRecord(at, level, "call "+outcome, 0)
		r.Add("call", "01ktqe5x1v6n0q3hw8zd", "operation", "generate", "outcome", outcome)
		r.Add(more...)
		return r
	}
	sentence := slog.NewRecord(at, slog.LevelWarn, "trying the next upstream", 0)
	sentence.Add("upstream", "studio", "error", errors.New("no model\nat \x1b[31mall, nor will there be one"))
	refused := slog.NewRecord(at, slog.LevelInfo, "refused", 0)
	refused.Add("method", "GET", "path", "/v1/nothing", "status", 404, "class", "not_found", "error", "no such path")
	done := call(slog.LevelInfo, "done", "status", 200, "model", "gemini-3-flash", "model_asked", "gpt-4o", "upstream", "studio", "client", "claude-cli",
		"first_byte", 812*time.Millisecond, "duration", 2100*time.Millisecond, "input", int64(12_345), "output", int64(345), "notes", "dropped logprobs")
	failed := call(slog.LevelWarn, "failed", "status", 429, "model", "gemini-3-flash", "upstream", "studio", "client", "curl",
		"duration", 90*time.Second, "input", int64(0), "output", int64(0), "class", "exhausted", "error", "the quota is used up")
	gone := call(slog.LevelInfo, "canceled", "model", "evil\x1b[2J", "operation", "count", "duration", time.Millisecond, "class", "canceled", "error", "the client went away")
	for _, test := range []struct {
		record slog.Record
		width  int
		want   string
	}{
		{done, 200, "18:31:43  200  gpt-4o → gemini-3-flash  studio  claude-cli  12.3k→345   812ms/2.1s   dropped logprobs"},
		{done, 80, "18:31:43  200  gpt-4o → gemini-3-flash  studio  12.3k→345   812ms/2.1s   droppe…"},
		{done, 40, "18:31:43  200  gpt-4o → gemini-3-flash"},
		{done, 20, "18:31:43  200  gpt-…"},
		{failed, 200, "18:31:43  429  gemini-3-flash  studio  curl  1m30s        exhausted: the quota is used up"},
		{failed, 80, "18:31:43  429  gemini-3-flash  studio  curl  1m30s\n          exhausted: the quota is used up"},
		{failed, 60, "18:31:43  429  gemini-3-flash  studio  curl  1m30s\n          exhausted: the quota is used up"},
		{gone, 80, "18:31:43  ---  count evil?[2J  1.0ms        canceled: the client went away"},
		{refused, 80, "18:31:43  404  GET /v1/nothing  not_found: no such path"},
		{sentence, 80, "18:31:43  trying the next upstream (upstream studio): no model; at ?[31mall, nor\n          will there be one"},
	} {
		var b strings.Builder
		h := terminal.NewLogHandler(&b, func() int { return test.width }, false, slog.LevelInfo)
		if err := h.Handle(context.Background(), test.record); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(b.String(), "\n"); got != test.want {
			t.Errorf("at %d columns\ngot  %s\nwant %s", test.width, got, test.want)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > test.width {
				t.Errorf("at %d columns a line has %d", test.width, n)
			}
		}
	}
}

// Columns are aligned across lines, and a status has its colour.
func TestLinesHaveColumnsAndColours(t *testing.T) {
	var b strings.Builder
	logger := slog.New(terminal.NewLogHandler(&b, func() int { return 80 }, true, slog.LevelInfo))
	for _, model := range []string{"gemini-3-flash", "short"} {
		logger.Info("call done", "outcome", "done", "status", 200, "model", model, "upstream", "studio", "duration", time.Second)
	}
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[1], "\x1b[32m200\x1b[0m  short           \x1b[2mstudio\x1b[0m  1.0s") {
		t.Errorf("got %q", lines[1])
	}
}

func TestColoursCanBeTurnedOff(t *testing.T) {
	t.Setenv("WT_SESSION", "1")
	for name, c := range map[string]struct {
		noColor, term string
		want          bool
	}{
		"a terminal": {"", "xterm", true}, "NO_COLOR": {"1", "xterm", false}, "a dumb terminal": {"", "dumb", false},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got := terminal.WantsColour(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
