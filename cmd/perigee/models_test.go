package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// What went wrong is said once: by the error where it is the error, whatever was wrapped around it since, and beside it
// otherwise.
func TestModelsSayEachTroubleOnce(t *testing.T) {
	down, away := errors.New("nobody is there\x1b[31m"), errors.New("somebody else is away")
	const aboutDown = "perigee: no list (upstream one): nobody is there?[31m\n"
	const aboutAway = "perigee: no list (upstream two): somebody else is away\n"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"others have answered":      {nil, aboutDown + aboutAway},
		"nobody has":                {down, aboutAway},
		"nobody has, in more words": {fmt.Errorf("models: %w", down), aboutAway},
		"another of the same words": {errors.New(down.Error()), aboutAway},
		"something else":            {errors.New("no"), aboutDown + aboutAway},
	} {
		var out strings.Builder
		var warned warnings
		logger := slog.New(&sayHandler{say: warned.add})
		logger.Warn("no list", "upstream", "one", "error", down)
		logger.Warn("no list", "upstream", "two", "error", away)
		logger.Warn("no list", "upstream", "two", "error", away)
		warned.sayBeside(&environment{stderr: &out}, c.err)
		if out.String() != c.want {
			t.Errorf("%s: got %q, want %q", name, out.String(), c.want)
		}
	}
}
