package conversation

import (
	"context"
	"errors"
	"net/http"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/intercept/cloud"
)

// How long a language server may take to use an account that it has been given: the first pause
// before its next try, and the last one.
const (
	firstOutdated = 20 * time.Millisecond
	lastOutdated  = 2 * time.Second
)

// carrySignedIn carries a request with the account that it is for. While the language server still
// uses the account before, which the cloud does not get to see, it tries again.
func (c *Carrier) carrySignedIn(ctx context.Context, cargo *cargo) (*http.Response, error) {
	for pause := firstOutdated; ; pause *= 2 {
		cargo.called = false
		resp, err := c.carry(ctx, cargo)
		if !errors.Is(err, cloud.ErrOutdatedToken) {
			if err != nil && !cargo.called {
				err = &processError{err}
			}
			return resp, err
		}
		cargo.sent--
		if pause > lastOutdated {
			c.opts.Logger.Warn("language server does not use its account", "upstream", c.opts.Name)
			if c.opts.Stuck != nil {
				c.opts.Stuck()
			}
			return nil, &processError{err}
		}
		c.opts.Logger.Debug("language server has used the account before, trying again", "upstream", c.opts.Name)
		if !perigee.Pause(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// use has the language server signed in with the account of a request.
func (c *Carrier) use(ctx context.Context, cargo *cargo) (release func(), err error) {
	if c.opts.Use == nil {
		return func() {}, nil
	}
	return c.opts.Use(ctx, cargo.token)
}

// onCall calls a function as soon as the language server has called the cloud, unless stop is
// called before.
func onCall(expected *cloud.Expected, f func()) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-expected.Taken():
			f()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// called says whether the language server has called the cloud.
func called(expected *cloud.Expected) bool {
	select {
	case <-expected.Taken():
		return true
	default:
		return false
	}
}

// A processError is trouble of the language server itself, before it has called the cloud. It says
// nothing about the account.
type processError struct{ error }

func (e *processError) Unwrap() error { return e.error }

// kindProcess is the kind of a processError.
const kindProcess providererr.Kind = "language_server"

// Diagnose says that another account would not help.
func (e *processError) Diagnose() providererr.Diagnosis {
	return providererr.Diagnosis{Kind: kindProcess, Scope: providererr.ScopeNone, Error: perigee.AsError(e.error)}
}
