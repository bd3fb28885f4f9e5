package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// A sayHandler turns what packages log into sentences, for commands that a person waits for. Only what is at least a
// warning is worth their time.
type sayHandler struct {
	say   func(line string, cause error) // the error that it is about, if there is one
	attrs []slog.Attr
}

func (h *sayHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle says a record: what it is about in brackets, and its error behind a colon.
func (h *sayHandler) Handle(_ context.Context, r slog.Record) error {
	var about []string
	trouble := ""
	var cause error
	take := func(a slog.Attr) bool {
		if a.Key == "error" {
			trouble = ": " + a.Value.String()
			cause, _ = a.Value.Any().(error)
		} else {
			about = append(about, fmt.Sprintf("%s %s", a.Key, a.Value))
		}
		return true
	}
	for _, a := range h.attrs {
		take(a)
	}
	r.Attrs(take)
	line := r.Message
	if len(about) > 0 {
		line += " (" + strings.Join(about, ", ") + ")"
	}
	h.say(printable(line+trouble), cause)
	return nil
}

// WithAttrs returns a handler that says these, too.
func (h *sayHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sayHandler{h.say, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup returns h: a sentence has no groups.
func (h *sayHandler) WithGroup(string) slog.Handler { return h }
