package observe

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/dashboard"
)

// maxWarnings is how many warnings are kept for the dashboard.
const maxWarnings = 20

// warnings are the last warnings and errors of a log.
type warnings struct {
	mu   sync.Mutex
	kept []dashboard.Warning // the oldest first
}

// Capture returns a logger that writes to the given one and keeps its warnings for the dashboard.
func Capture(logger *slog.Logger) *slog.Logger {
	return slog.New(capture{Handler: logger.Handler(), warnings: &warnings{}})
}

// warningsOf returns the warnings of a logger from Capture, and none of another one.
func warningsOf(logger *slog.Logger) *warnings {
	if c, ok := logger.Handler().(capture); ok {
		return c.warnings
	}
	return &warnings{}
}

// list returns the warnings, the newest first. They are as they were logged, so they have to be redacted.
func (w *warnings) list() []dashboard.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.Clone(w.kept)
	slices.Reverse(list)
	return list
}

func (w *warnings) add(warning dashboard.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept = append(w.kept, warning); len(w.kept) > maxWarnings {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
}

// A capture passes records on, and keeps warnings whether or not they are logged.
type capture struct {
	slog.Handler
	warnings *warnings
	attrs    string // of WithAttrs, as text
}

func (c capture) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var text strings.Builder
		text.WriteString(r.Message + c.attrs)
		r.Attrs(func(a slog.Attr) bool {
			text.WriteString(" " + a.String())
			return true
		})
		c.warnings.add(dashboard.Warning{Time: r.Time, Level: r.Level.String(), Text: perigee.Clip(text.String(), 500)})
	}
	return c.Handler.Handle(ctx, r)
}

func (c capture) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		c.attrs += " " + a.String()
	}
	c.Handler = c.Handler.WithAttrs(attrs)
	return c
}

func (c capture) WithGroup(name string) slog.Handler {
	c.Handler = c.Handler.WithGroup(name)
	return c
}
