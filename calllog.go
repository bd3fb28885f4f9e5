package perigee

import (
	"context"
	"slices"
	"sync"
)

// A CallLog is what becomes known about a call while it runs: notes, attempts, the status that the
// client got, and where bodies are shown. All copies of a request share one. The zero value is
// empty. All methods are safe for concurrent use; a nil
// *CallLog keeps nothing.
type CallLog struct {
	mu       sync.Mutex
	notes    []Note
	trying   bool // notes from kept on belong to an attempt that may still fail
	kept     int
	attempts []Attempt
	status   int
	reached  bool
	tap      Tap
}

// maxAttempts is how many are kept. A call with more attempts repeats itself.
const maxAttempts = 50

// locked runs f unless there is no log.
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

// NoteOnce adds a note unless the log has it already.
func (l *CallLog) NoteOnce(n Note) {
	l.locked(func() {
		if !slices.Contains(l.notes, n) {
			l.notes = append(l.notes, n)
		}
	})
}

// BeginAttempt makes the notes that follow tentative. Routing calls it before it asks an upstream:
// what that upstream changes counts only if its answer reaches the client.
func (l *CallLog) BeginAttempt() {
	l.locked(func() { l.trying, l.kept = true, len(l.notes) })
}

// EndAttempt keeps the tentative notes if the attempt is the one that answers, and drops them
// otherwise. Without an attempt it does nothing.
func (l *CallLog) EndAttempt(answers bool) {
	l.locked(func() {
		if l.trying && !answers {
			l.notes = l.notes[:l.kept]
		}
		l.trying = false
	})
}

// Notes returns the notes so far, in order, without tentative ones.
func (l *CallLog) Notes() (list []Note) {
	l.locked(func() {
		if list = l.notes; l.trying {
			list = l.notes[:l.kept]
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

// AddAttempt appends an attempt, and shows it to the Tap.
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

// SetStatus says which HTTP status the client got.
func (l *CallLog) SetStatus(status int) {
	l.locked(func() { l.status = status })
}

// Status is the HTTP status that the client got; 0: none yet.
func (l *CallLog) Status() (status int) {
	l.locked(func() { status = l.status })
	return status
}

// SetReached says that the request is on its way to a provider. Until then it has cost nothing.
func (l *CallLog) SetReached() {
	l.locked(func() { l.reached = true })
}

// Reached reports whether the request was sent to a provider.
func (l *CallLog) Reached() (reached bool) {
	l.locked(func() { reached = l.reached })
	return reached
}

// Fork returns a log for a further call that is made for the same request: it has the notes so far,
// and nothing else.
func (l *CallLog) Fork() *CallLog { return &CallLog{notes: l.Notes()} }

// SetTap has the bodies of the call shown to a Tap. The recorder sets it before the call goes on.
func (l *CallLog) SetTap(t Tap) {
	l.locked(func() { l.tap = t })
}

// Tap returns where bodies are shown; nil: nowhere.
func (l *CallLog) Tap() (t Tap) {
	l.locked(func() { t = l.tap })
	return t
}

// Close says that the client has got all that it will get. The part of the program that has made
// the log calls it.
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
// them copies them. They are what is on the wire, so they have credentials in them if a provider
// repeats some in an error.
type Tap interface {
	Body(at TapPoint, pieces ...[]byte)
	// Done says that the client has got all that it will get. The record of the call may be
	// complete long before.
	Done()
}

// A TapPoint is a place where bodies pass.
type TapPoint uint8

// The tap points.
const (
	TapClientRequest   TapPoint = iota // the body from the client, whole
	TapProviderRequest                 // a body to the provider, whole, for each attempt
	TapProviderAnswer                  // a piece of the answer to the last of them, which may be an error
	TapClientAnswer                    // a piece of what the client gets
)

// A Watcher follows one call. Its methods are called by several goroutines, at the pace of the
// call, and must not wait.
type Watcher interface {
	Tap
	// Event gets each event of the answer before the client does. It is valid during the call of
	// Event only.
	Event(e *Event)
	// Ended gets the record of the call when it is complete. Done may come before or after.
	Ended(c *Call)
}

// An AttemptTap is a Tap that also follows the attempts of a call. As for all of a Tap, its methods
// are called by several goroutines and must not wait.
type AttemptTap interface {
	// ProviderEndpoint gets the scheme and the host to which the last body at TapProviderRequest is
	// sent.
	ProviderEndpoint(endpoint string)
	// ProviderStatus gets the HTTP status of an answer before its body. It answers the last body at
	// TapProviderRequest.
	ProviderStatus(status int)
	// Attempted gets an attempt that has ended. The bodies that were shown since the attempt before
	// it are its own. The only attempt of a call, and the last one, may be left out.
	Attempted(a *Attempt)
}

// A Replay says that a call repeats a recorded one. The zero value says that it does not.
type Replay struct {
	Of       string // the ID of the recorded call
	Upstream string // the only upstream that may answer; empty: routing decides
	// Trial says that the call is one of many that look for the cause of a failure. It is recorded
	// like any other, and leaves no trace directory.
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
