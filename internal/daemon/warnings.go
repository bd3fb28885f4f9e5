package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"perigee"
	"perigee/internal/observe/dashboard"
)

// maxWarnings is how many warnings are kept for the dashboard.
const maxWarnings = 20

// warnings are the last warnings and errors of a log.
type warnings struct {
	mu     sync.Mutex
	recent []dashboard.Warning // the oldest first
}

// capture returns a logger that writes to the given one, and adds its warnings to w.
func (w *warnings) capture(logger *slog.Logger) *slog.Logger {
	return slog.New(capture{Handler: logger.Handler(), warnings: w})
}

// list returns the warnings, the newest first. They have their logged text, so they have to be
// redacted.
func (w *warnings) list() []dashboard.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.Clone(w.recent)
	slices.Reverse(list)
	return list
}

func (w *warnings) add(warning dashboard.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recent = append(w.recent, warning); len(w.recent) > maxWarnings {
		w.recent = slices.Delete(w.recent, 0, 1)
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
		c.warnings.add(c.warning(r))
	}
	return c.Handler.Handle(ctx, r)
}

// warning returns the part of a record that the page shows. For a call these are its class and its
// error: the page of the call has the rest.
func (c capture) warning(r slog.Record) dashboard.Warning {
	w := dashboard.Warning{Time: r.Time, Level: r.Level.String()}
	text, short := r.Message+c.attrs, r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		switch a.Key {
		case "call":
			w.Call = a.Value.String()
		case "class", "error":
			short += ", " + a.Value.String()
		}
		return true
	})
	if w.Call != "" {
		text = short
	}
	w.Text = perigee.Clip(text, 500)
	return w
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
