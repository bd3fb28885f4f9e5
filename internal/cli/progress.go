package cli

import (
	"context"

	"perigee/internal/lib/terminal"
)

// Progress returns a Progress that shows the step of the command on Stderr. Remark removes the line
// of the step while it writes; other output during a step goes through Around. If Stderr is not a
// terminal, each step is a message. With --json it shows nothing: a program reads the result then.
// A command has one Progress at a time, and closes it before it prints its result.
func (e *Env) Progress(ctx context.Context) *terminal.Progress {
	plain := e.remark
	if e.JSON {
		plain = nil
	}
	p := terminal.NewProgress(ctx, e.Stderr, plain)
	e.progress.Store(p)
	return p
}
