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

// How long a language server may take to use an account that it has been given: the first and the
// last pause before the next try.
const (
	firstOutdated = 20 * time.Millisecond
	lastOutdated  = 2 * time.Second
)

// carrySignedIn carries a request with the request's account. It tries again while the language
// server still uses the previous account; those calls do not reach the cloud.
func (c *Carrier) carrySignedIn(ctx context.Context, payload *payload) (*http.Response, error) {
	for pause := firstOutdated; ; pause *= 2 {
		payload.called = false
		resp, err := c.carry(ctx, payload)
		if !errors.Is(err, cloud.ErrOutdatedToken) {
			if err != nil && !payload.called {
				err = &processError{err}
			}
			return resp, err
		}
		payload.sent--
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

// use signs the language server in with the account of a request.
func (c *Carrier) use(ctx context.Context, payload *payload) (release func(), err error) {
	if c.opts.Use == nil {
		return func() {}, nil
	}
	return c.opts.Use(ctx, payload.token)
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

// hasCalled reports whether the language server has called the cloud.
func hasCalled(expected *cloud.Expected) bool {
	select {
	case <-expected.Taken():
		return true
	default:
		return false
	}
}

// A processError is a failure of the language server itself, before it has called the cloud. It is
// no evidence about the account.
type processError struct{ error }

func (e *processError) Unwrap() error { return e.error }

// kindProcess is the kind of a processError.
const kindProcess providererr.Kind = "language_server"

// Diagnose returns a diagnosis for which another account is not tried.
func (e *processError) Diagnose() providererr.Diagnosis {
	return providererr.Diagnosis{Kind: kindProcess, Scope: providererr.ScopeNone, Error: perigee.AsError(e.error)}
}
