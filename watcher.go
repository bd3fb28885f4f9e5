package perigee

import "context"

// A Watcher follows one call. Its methods are called by several goroutines, at the pace of the call, and must not wait.
type Watcher interface {
	Tap
	// Event gets each event of the answer before the client does. It is valid during the call of Event only.
	Event(e *Event)
	// Ended gets the record of the call when it is complete. Done may come before or after.
	Ended(c *Call)
}

// An AttemptTap is a Tap that also follows the attempts of a call. As for all of a Tap, its methods are called by several
// goroutines and must not wait.
type AttemptTap interface {
	// ProviderEndpoint gets the scheme and the host to which the last body at TapProviderRequest is sent.
	ProviderEndpoint(endpoint string)
	// ProviderStatus gets the HTTP status of an answer before its body. It answers the last body at TapProviderRequest.
	ProviderStatus(status int)
	// Attempted gets an attempt that has ended. The bodies that were shown since the attempt before it are its own. The only
	// attempt of a call, and the last one, may be left out.
	Attempted(a *Attempt)
}

// A Replay says that a call repeats a recorded one. The zero value says that it does not.
type Replay struct {
	Of       string // the ID of the recorded call
	Upstream string // the only upstream that may answer; empty: routing decides
	// Trial says that the call is one of many that look for the cause of a failure. It is recorded like any other, and leaves no
	// trace directory.
	Trial bool
	// Watcher follows the call; nil: only those that follow all calls do.
	Watcher Watcher
}

type replayKey struct{}

// WithReplay makes requests with this context a replay.
func WithReplay(ctx context.Context, r Replay) context.Context {
	return context.WithValue(ctx, replayKey{}, r)
}

// ReplayOf is what WithReplay has said; the zero value: it is no replay.
func ReplayOf(ctx context.Context) Replay {
	r, _ := ctx.Value(replayKey{}).(Replay)
	return r
}
