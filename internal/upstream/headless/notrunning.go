package headless

import (
	"context"
	"iter"

	"perigee"
)

// NotRunning takes the place of a language server in commands without a daemon, which start none.
type NotRunning struct{ Upstream string }

func (n NotRunning) err() error {
	return perigee.Errorf(perigee.ClassUnavailable, "the language server of %s is not running", n.Upstream).
		WithHint("start perigee serve")
}

// Stream returns an error.
func (n NotRunning) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) { yield(perigee.Event{}, n.err()) }
}

// Models returns an error.
func (n NotRunning) Models(context.Context) ([]perigee.Model, error) { return nil, n.err() }
