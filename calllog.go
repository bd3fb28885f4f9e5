package perigee

import (
	"context"
	"slices"
	"sync"
)

// A CallLog collects notes, attempts, the client's status and the Tap of a call while it runs. All
// copies of a request share one. The zero value is empty. All methods are safe for concurrent use;
// a nil *CallLog discards everything.
type CallLog struct {
	mu       sync.Mutex
	notes    []Note
	trying   bool // notes from index final on belong to an attempt that may still fail
	final    int
	attempts []Attempt
	status   int
	reached  bool
	tap      Tap
}

// maxAttempts is the maximum number of attempts in a log. Later ones repeat earlier ones.
const maxAttempts = 50

// locked runs f unless l is nil.
func (l *CallLog) locked(f func()) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// Note adds notes. During an attempt they are tentative.
func (l *CallLog) Note(notes ...Note) {
	l.locked(func() { l.notes = append(l.notes, notes...) })
}

// NoteOnce adds a note unless the log has it already, and reports whether it did.
func (l *CallLog) NoteOnce(n Note) (added bool) {
	l.locked(func() {
		if added = !slices.Contains(l.notes, n); added {
			l.notes = append(l.notes, n)
		}
	})
	return added
}

// Withdraw removes notes that were added since the attempt began.
func (l *CallLog) Withdraw(notes []Note) {
	l.locked(func() {
		tentative := l.notes[l.final:]
		l.notes = l.notes[:l.final+len(slices.DeleteFunc(tentative, func(n Note) bool { return slices.Contains(notes, n) }))]
	})
}

// BeginAttempt makes the notes that follow tentative. Routing calls it before it asks an upstream:
// the notes about its changes count only if its answer reaches the client.
func (l *CallLog) BeginAttempt() {
	l.locked(func() { l.trying, l.final = true, len(l.notes) })
}

// EndAttempt keeps the tentative notes if the attempt is the one that answers, and drops them
// otherwise. Without an attempt it does nothing.
func (l *CallLog) EndAttempt(answers bool) {
	l.locked(func() {
		if l.trying && !answers {
			l.notes = l.notes[:l.final]
		}
		l.trying = false
	})
}

// Notes returns the notes so far, in order, without tentative ones.
func (l *CallLog) Notes() (list []Note) {
	l.locked(func() {
		if list = l.notes; l.trying {
			list = l.notes[:l.final]
		}
		list = slices.Clone(list)
	})
	return list
}

// AllNotes returns tentative notes as well, for a response head that is sent before an upstream
// answers.
func (l *CallLog) AllNotes() (list []Note) {
	l.locked(func() { list = slices.Clone(l.notes) })
	return list
}

// AddAttempt appends an attempt, and passes it to the Tap if that is an AttemptTap.
func (l *CallLog) AddAttempt(attempt Attempt) {
	l.locked(func() {
		if len(l.attempts) < maxAttempts {
			l.attempts = append(l.attempts, attempt)
		}
	})
	if tap, ok := l.Tap().(AttemptTap); ok {
		tap.Attempted(&attempt)
	}
}

// Attempts returns the attempts so far, in order.
func (l *CallLog) Attempts() (list []Attempt) {
	l.locked(func() { list = slices.Clone(l.attempts) })
	return list
}

// SetStatus records the HTTP status that the client got.
func (l *CallLog) SetStatus(status int) {
	l.locked(func() { l.status = status })
}

// Status returns the HTTP status that the client got, or 0 if there is none yet.
func (l *CallLog) Status() (status int) {
	l.locked(func() { status = l.status })
	return status
}

// SetReached records that the request is being sent to a provider. Until then it has cost nothing.
func (l *CallLog) SetReached() {
	l.locked(func() { l.reached = true })
}

// Reached reports whether the request was sent to a provider.
func (l *CallLog) Reached() (reached bool) {
	l.locked(func() { reached = l.reached })
	return reached
}

// Fork returns a log for a further call of the same request. It has only the notes so far.
func (l *CallLog) Fork() *CallLog { return &CallLog{notes: l.Notes()} }

// SetTap sets the Tap that gets the bodies of the call. The recorder calls it before the call is
// routed.
func (l *CallLog) SetTap(t Tap) {
	l.locked(func() { l.tap = t })
}

// Tap returns the Tap of the call, or nil if there is none.
func (l *CallLog) Tap() (t Tap) {
	l.locked(func() { t = l.tap })
	return t
}

// Close calls Done of the Tap and removes it. The creator of the log calls it when the answer to
// the client is complete.
func (l *CallLog) Close() {
	tap := l.Tap()
	l.SetTap(nil)
	if tap != nil {
		tap.Done()
	}
}

// A Tap gets the bodies of a call. It is called by several goroutines.
//
// The bytes are valid during the call of Body only, because buffers are pooled: a Tap that keeps
// them copies them, unless it is a RequestTap. They are the bytes on the wire, and contain
// credentials if a provider repeats some in an error.
type Tap interface {
	Body(at TapPoint, pieces ...[]byte)
	// Done is called when the answer to the client is complete. The record of the call may be
	// complete long before.
	Done()
}

// A TapPoint is a place at which bodies are tapped.
type TapPoint uint8

// The tap points.
const (
	TapClientRequest   TapPoint = iota // the body from the client, whole
	TapProviderRequest                 // a body to the provider, whole, for each attempt
	TapProviderAnswer                  // a piece of the answer or error to it
	TapClientAnswer                    // a piece of the answer to the client
)

// A Watcher follows one call. Its methods are called by several goroutines and must not block.
type Watcher interface {
	Tap
	// Event gets each event of the answer before the client does. It is valid during the call of
	// Event only.
	Event(e *Event)
	// Ended gets the record of the call when it is complete. Done may come before or after.
	Ended(c *Call)
}

// A RequestTap is a Tap that keeps requests without copying them.
type RequestTap interface {
	// Request gets a request in place of Body, at TapClientRequest or TapProviderRequest. The bytes
	// do not change until buffer is released by all users: a Tap that keeps them retains it.
	Request(at TapPoint, buffer *Buffer, pieces ...[]byte)
}

// An AttemptTap is a Tap that also follows the attempts of a call. Its methods are called by
// several goroutines and must not block.
type AttemptTap interface {
	// ProviderEndpoint gets the scheme and the host to which the last body at TapProviderRequest is
	// sent.
	ProviderEndpoint(endpoint string)
	// ProviderStatus gets the HTTP status of an answer before its body. It belongs to the last body
	// at TapProviderRequest.
	ProviderStatus(status int)
	// Attempted gets an attempt that has ended. All bodies since the previous attempt belong to it.
	// It may not be called for the last or only attempt of a call.
	Attempted(a *Attempt)
}

// A Replay identifies a call that repeats a recorded one. The zero value is a call that is not a
// replay.
type Replay struct {
	Of       string // the ID of the recorded call
	Upstream string // the only upstream that may answer; empty means that routing decides
	// Trial is set if the call is one of many that search for the cause of a failure. It is
	// recorded like any other call, but has no trace directory.
	Trial bool
	// Watcher follows the call, in addition to the watchers of all calls. It may be nil.
	Watcher Watcher
}

type replayKey struct{}

// WithReplay returns a context that marks its requests as a replay.
func WithReplay(ctx context.Context, r Replay) context.Context {
	return context.WithValue(ctx, replayKey{}, r)
}

// ReplayOf returns the Replay of a context, or the zero value if it has none.
func ReplayOf(ctx context.Context) Replay {
	r, _ := ctx.Value(replayKey{}).(Replay)
	return r
}
