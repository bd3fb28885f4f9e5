package cli

import (
	"context"

	"perigee/internal/lib/terminal"
)

// Progress returns what shows on Stderr which step the command is at. Say removes the line of the
// step while it writes; other output during a step goes through Around. If Stderr is no terminal,
// each step is a message. With --json it is none: a program reads the result then. A command has
// one Progress at a time, and closes it before it prints its result.
func (e *Env) Progress(ctx context.Context) *terminal.Progress {
	plain := e.say
	if e.JSON {
		plain = nil
	}
	p := terminal.NewProgress(ctx, e.Stderr, plain)
	e.progress.Store(p)
	return p
}
