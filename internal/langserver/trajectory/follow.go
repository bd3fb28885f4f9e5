package trajectory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// How often a source is read.
const (
	pollBusy   = 400 * time.Millisecond // while the conversation runs and there is no stream
	pollIdle   = 300 * time.Millisecond // while the end of the turn is to be confirmed
	pollCheck  = 5 * time.Second        // in addition to a stream, which may have failed silently
	pollMax    = 2 * time.Second        // the longest pause while nothing changes
	retryFirst = 200 * time.Millisecond // after a reading that failed
)

// maxQuiet is how long a turn may be quiet.
const maxQuiet = 10 * time.Minute

// A Follower follows a conversation until the end of a turn. Zero values mean defaults.
type Follower struct {
	Reader  Reader
	Cascade string
	// Cursor is the position to start at. It is kept current: between any two events another
	// Follower can continue from it.
	Cursor Cursor

	// how long a turn may take to start after a message was sent; 30 s by default
	Grace    time.Duration
	Patience time.Duration // how long the source may fail; 60 s by default
}

// Events yields the events of the conversation. The last event is KindDone, unless there is an
// error: the source fails for longer than Patience, does not have the conversation, or ctx has
// ended.
func (f *Follower) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		watch := startWatch(ctx, f.Reader, f.Cascade)
		defer func() { <-watch.done }()
		defer cancel()
		l := loop{f: f, tracker: NewTracker(f.Cursor), watch: watch, yield: yield, began: time.Now(), healthy: time.Now(), changed: time.Now(), progressed: time.Now()}
		if err := l.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// A loop is one run of a Follower.
type loop struct {
	f          *Follower
	tracker    *Tracker
	watch      *watch
	yield      func(Event, error) bool
	began      time.Time
	healthy    time.Time // the last successful reading
	changed    time.Time // the last reading with a change
	progressed time.Time // the last reading with a change other than the status
	failed     int       // consecutive failed readings
}

// run reads until the turn is over or the caller has left, which is not an error.
func (l *loop) run(ctx context.Context) error {
	full := true
	for {
		stopped, err := l.look(ctx, full)
		if stopped {
			return nil
		}
		if err = l.permanentError(ctx, err); err != nil {
			return err
		}
		if full && l.failed == 0 && l.conclude() {
			return nil
		}
		select {
		case <-time.After(l.pause()):
			full = true
		case <-l.watch.updated:
			// While it runs, the last steps are enough. Any other status is confirmed by a
			// complete reading.
			full = l.failed > 0 || l.watch.state().status != cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look reads once and reports changes. If a reading of the last steps contradicts the cursor, look
// reads all steps.
func (l *loop) look(ctx context.Context, full bool) (stopped bool, err error) {
	if !full {
		o := l.watch.state().observation()
		o.Offset, o.Time = l.tracker.Offset(), time.Now()
		if o.Steps, err = l.f.Reader.Steps(ctx, l.f.Cascade, o.Offset); err != nil {
			return false, err
		}
		if l.tracker.Agrees(o) {
			return l.apply(o)
		}
	}
	answer, err := l.f.Reader.Trajectory(ctx, l.f.Cascade)
	if err != nil {
		return false, err
	}
	o, streamed := observation(answer), l.watch.state().observation()
	o.Status, o.Children = cmp.Or(o.Status, streamed.Status), streamed.Children
	if len(o.Executors) == 0 {
		o.Executors = streamed.Executors
	}
	if stopped, err = l.apply(o); stopped || err != nil {
		return stopped, err
	}
	return l.complete(ctx, o)
}

// observation returns the state in an answer, which may have only the first steps.
func observation(answer *languageserverpb.GetCascadeTrajectoryResponse) *Observation {
	return &Observation{Time: time.Now(), Trajectory: answer.GetTrajectory().GetTrajectoryId(), Status: answer.GetStatus(),
		Steps: answer.GetTrajectory().GetSteps(), Total: int(min(answer.GetNumTotalSteps(), math.MaxInt32)), Executors: answer.GetTrajectory().GetExecutorMetadatas()}
}

// complete reads the steps that are missing in an answer, and applies them with the answer's
// state.
func (l *loop) complete(ctx context.Context, o *Observation) (stopped bool, err error) {
	for from := o.Offset + len(o.Steps); from < o.Total; {
		var steps []*geminicoder.Step
		if steps, err = l.f.Reader.Steps(ctx, l.f.Cascade, from); err != nil {
			return false, err
		}
		if len(steps) == 0 {
			return false, errIncomplete
		}
		rest := *o
		rest.Offset, rest.Steps = from, steps
		if stopped, err = l.apply(&rest); stopped || err != nil {
			return stopped, err
		}
		from += len(steps)
	}
	return false, nil
}

// ErrNoAnswer is the cause of the error of a turn that ended without any output or error.
var ErrNoAnswer = errors.New("the language server recorded the message and generated nothing")

var errTooMany = fmt.Errorf("more than %d of its steps have not ended", maxOpen)

var errIncomplete = errors.New("the source has fewer steps than it counts")

// apply yields the events of an observation. stopped means that the caller has left.
func (l *loop) apply(o *Observation) (stopped bool, err error) {
	for event := range l.tracker.Apply(o) {
		l.f.Cursor = l.tracker.Cursor()
		if !l.yield(event, nil) {
			return true, nil
		}
	}
	l.f.Cursor = l.tracker.Cursor()
	if l.tracker.changed || l.tracker.stateChanged {
		l.changed = time.Now()
	}
	if l.tracker.changed {
		l.progressed = time.Now()
	}
	if l.tracker.overflows() {
		return false, errTooMany
	}
	return false, nil
}

// permanentError returns an error that ends the run: an error of the caller, of a conversation
// that does not exist, or one that lasts.
func (l *loop) permanentError(ctx context.Context, err error) error {
	if err == nil {
		l.healthy, l.failed = time.Now(), 0
		return nil
	}
	l.failed++
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errTooMany):
		return perigee.Errorf(perigee.ClassUnavailable, "conversation %s cannot be followed: %w", l.f.Cascade, err)
	case perigee.AsError(err).Class == perigee.ClassNotFound:
		return err
	case time.Since(l.healthy) >= cmp.Or(l.f.Patience, time.Minute):
		return fmt.Errorf("conversation %s cannot be read: %w", l.f.Cascade, err)
	}
	return nil
}

// conclude reports the end of the turn, if it is over.
func (l *loop) conclude() bool {
	quiet := time.Since(l.changed)
	outcome, over := l.tracker.Outcome(quiet)
	switch {
	case over:
	case !l.tracker.active && time.Since(l.began) >= cmp.Or(l.f.Grace, 30*time.Second):
		outcome = l.tracker.unchanged()
	case time.Since(l.progressed) >= maxQuiet:
		outcome = Outcome{Reason: ReasonTimeout}
	default:
		return false
	}
	at := max(l.tracker.cursor.Size()-1, 0)
	if outcome.Silent {
		e := perigee.Errorf(perigee.ClassUnavailable, "%w", ErrNoAnswer).WithHint("check that the model exists and is enabled for the account")
		e.Cause = ErrNoAnswer
		if !l.yield(Event{Kind: KindError, Step: at, Error: e}, nil) {
			return true
		}
	}
	l.tracker.Close()
	l.f.Cursor = l.tracker.Cursor()
	l.yield(Event{Kind: KindDone, Step: at, Reason: outcome.Reason, Stop: outcome.Stop}, nil)
	return true
}

// pause returns how long to wait for a change.
func (l *loop) pause() time.Duration {
	if l.failed > 0 {
		return min(retryFirst<<min(l.failed-1, 4), pollMax)
	}
	quiet := time.Since(l.changed)
	s := l.watch.state()
	switch {
	case l.tracker.status > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE && s.alive && !l.tracker.waits():
		return pollCheck
	case l.tracker.status > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE:
		return min(max(pollBusy, quiet/10), pollMax)
	}
	return min(max(pollIdle, quiet/10), pollMax)
}
