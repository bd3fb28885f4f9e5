package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"perigee"
)

const (
	// placeDelay is the Retry-After time of a call that got no place.
	placeDelay = 5 * time.Second
	// noticeableWait is the shortest wait for a place that the record of a call has.
	noticeableWait = 100 * time.Millisecond
)

// errNoPlace is the cause of the end of a wait for a place.
var errNoPlace = errors.New("no place became free")

// places bound the number of open calls. Calls beyond it wait, first come first served.
type places struct {
	taken chan struct{} // has a value for each open call
	wait  time.Duration // how long a call waits; 0 means not at all
}

// enter takes a place for a call, which leave gives back. It does nothing if there is no bound. A
// call that waits leaves the queue when its context ends.
func (u *Upstream) enter(ctx context.Context, model string, t *trail) error {
	if u.places.taken == nil {
		return nil
	}
	select {
	case u.places.taken <- struct{}{}: // no call waits: a place that becomes free goes to the first one
		return nil
	default:
	}
	began := u.opts.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, u.places.wait, errNoPlace)
	defer cancel()
	select {
	case u.places.taken <- struct{}{}:
		t.waited = u.opts.Now().Sub(began)
		return nil
	case <-ctx.Done():
	}
	if context.Cause(ctx) != errNoPlace {
		return u.explain(ctx, model, ctx.Err())
	}
	return &perigee.Error{Class: perigee.ClassRateLimited, Status: http.StatusTooManyRequests, Retry: placeDelay, Upstream: u.opts.Name, Model: model,
		Message: fmt.Sprintf("upstream %s is busy: %d calls are open, as many as its concurrency allows", u.opts.Name, cap(u.places.taken)),
		Hint:    "try again later, or raise concurrency or wait of this upstream"}
}

// leave gives the place of a call to the call that has waited longest.
func (u *Upstream) leave() {
	if u.places.taken != nil {
		<-u.places.taken
	}
}
