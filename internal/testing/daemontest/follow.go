package daemontest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// A Logbook is a slog.Handler that hands over every line.
type Logbook chan string

// Enabled takes every level.
func (b Logbook) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs drops attributes that belong to the logger.
func (b Logbook) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup drops groups.
func (b Logbook) WithGroup(string) slog.Handler { return b }

// Handle hands over the message and the attributes of the line itself.
func (b Logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b <- line
	return nil
}

// Line waits for a line of the log that has all of the words.
func (b Logbook) Line(t *testing.T, words ...string) string {
	t.Helper()
	for {
		line := await.Receive(t, b, "a line of the log with "+strings.Join(words, ", "))
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return line
		}
	}
}

// Follow starts a daemon that follows a file, and returns a function that replaces the file.
func Follow(t *testing.T, text string) (*Gateway, Logbook, func(text string)) {
	t.Helper()
	return FollowOn(t, text, map[string]string{"listen": "127.0.0.1:0"})
}

// FollowOn does the same with settings of the command line and changed options. Without data_dir
// among the settings, it is a new directory; an empty one leaves it to the file.
func FollowOn(t *testing.T, text string, flags map[string]string, changes ...func(*daemon.Options)) (*Gateway, Logbook, func(text string)) {
	t.Helper()
	if dir, given := flags["data_dir"]; !given {
		flags["data_dir"] = DataDir(t)
	} else if dir == "" {
		delete(flags, "data_dir")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	src := config.Sources{
		Path:  path,
		Flags: flags,
		Env:   func(string) (string, bool) { return "", false },
	}
	book := make(Logbook, 10_000)
	g := StartIn(t, src, func(o *daemon.Options) {
		o.Poll = 5 * time.Millisecond
		o.Logger = slog.New(book)
		for _, change := range changes {
			change(o)
		}
	})
	return g, book, write
}
