package trajectory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// play changes a conversation with the pauses of a script, and ends with an idle conversation.
func play(c *conversation, ops []op, executor bool) {
	c.change(func() { c.status = statusRunning })
	for _, o := range ops {
		pause(o.Pause)
		c.change(func() { c.steps = o.do(c.steps) })
	}
	pause(100)
	c.change(func() {
		for _, o := range []op{{Kind: "planner", Text: "the end"}, {Kind: "finish"}} {
			c.steps = o.do(c.steps)
		}
		c.status = statusIdle
		if executor {
			c.executor = &cortexpb.ExecutorMetadata{LastStepIdx: int32(len(c.steps) - 1),
				TerminationReason: cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_NO_TOOL_CALL}
		}
	})
}

// followFrom follows a conversation from a cursor on, which it keeps current, until the end of a
// turn.
func followFrom(ctx context.Context, r Reader, cascade string, cursor *Cursor) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := Follower{Reader: r, Cascade: cascade, Cursor: *cursor}
		for event, err := range f.Events(ctx) {
			*cursor = f.Cursor
			if !yield(event, err) {
				return
			}
		}
	}
}

// follow follows a conversation to the end of the turn, and returns what a caller knows then. With
// interrupt, each run ends after so many events, and the next continues with a cursor that was JSON
// in between.
func follow(ctx context.Context, r Reader, interrupt int) (seen view, done Event, err error) {
	seen = newView()
	var cursor Cursor
	for {
		left := interrupt
		for e, err := range followFrom(ctx, r, "cascade", &cursor) {
			if err != nil {
				return seen, done, err
			}
			seen.take(e)
			if done = e; e.Kind == KindDone {
				return seen, done, nil
			}
			if left--; left == 0 {
				break
			}
		}
		if cursor, err = encoded(cursor); err != nil {
			return seen, done, err
		}
	}
}

// TestFollowAnyConversation follows random conversations through a stream and by polling, with
// failures, partial answers and restarts.
func TestFollowAnyConversation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := drawOps(rt)
		stream, rough, executor := rapid.Bool().Draw(rt, "stream"), rapid.Bool().Draw(rt, "rough"), rapid.Bool().Draw(rt, "executor")
		interrupt, seed := rapid.IntRange(0, 5).Draw(rt, "interrupt"), rapid.Uint64().Draw(rt, "seed")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			c := newConversation()
			s := &source{c: c, stream: stream}
			if rough {
				s.rough = rand.New(rand.NewPCG(seed, 1))
			}
			go play(c, ops, executor)
			seen, done, err := follow(t.Context(), s, interrupt)
			steps, _, _, _ := c.snapshot()
			switch d := difference(seen, viewOf(steps)); {
			case err != nil:
				problem = err.Error()
			case done.Reason != ReasonDone || done.Stop != stopPattern:
				problem = fmt.Sprintf("done: %+v", done)
			default:
				problem = d
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// A script is a conversation whose next state comes after a pause.
type state struct {
	after    time.Duration
	steps    []*geminicoder.Step
	status   cortexpb.CascadeRunStatus
	executor *cortexpb.ExecutorMetadata
}

// outcome follows a script, and returns the events and how long it took.
func outcome(t *testing.T, cursor Cursor, stream bool, script ...state) (events []Event, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newConversation()
		go func() {
			for _, s := range script {
				time.Sleep(s.after)
				c.change(func() { c.steps, c.status, c.executor = s.steps, s.status, s.executor })
			}
		}()
		began := time.Now()
		for e, err := range followFrom(t.Context(), &source{c: c, stream: stream}, "cascade", &cursor) {
			if err != nil {
				t.Error(err)
			}
			events = append(events, e)
		}
		took = time.Since(began)
		time.Sleep(time.Hour) // the script ends
	})
	return events, took
}

func terminated(reason cortexpb.ExecutorTerminationReason, last int32) *cortexpb.ExecutorMetadata {
	return &cortexpb.ExecutorMetadata{TerminationReason: reason, LastStepIdx: last}
}

const (
	endError    = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_ERROR
	endCanceled = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_USER_CANCELED
	endMax      = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_MAX_INVOCATIONS
	endNormal   = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_NO_TOOL_CALL
)

func TestOutcomes(t *testing.T) {
	ask, answer := user("hello"), planner(stepDone, "hi")
	busy := &cortexpb.CortexErrorDetails{UserErrorMessage: "busy", ErrorCode: 503}
	bare := planner(stepDone, "hi") // without a reason to stop
	bare.GetPlannerResponse().StopReason = 0
	list := func(steps ...*geminicoder.Step) []*geminicoder.Step { return steps }
	for name, test := range map[string]struct {
		cursor  Cursor
		script  []state
		reason  Reason
		atLeast time.Duration
		atMost  time.Duration
	}{
		"the executor says so": {script: []state{{time.Second, list(ask), statusRunning, nil},
			{time.Second, list(ask, answer), statusIdle, terminated(endNormal, 1)}}, reason: ReasonDone, atLeast: 2 * time.Second, atMost: 3 * time.Second},
		"complete and idle": {script: []state{{time.Second, list(ask), statusRunning, nil}, {time.Second, list(ask, answer, checkpoint()), statusIdle, nil}},
			reason: ReasonDone, atLeast: 2 * time.Second, atMost: 3 * time.Second},
		"idle before it runs": {script: []state{{0, list(ask), statusIdle, nil}, {2 * time.Second, list(ask), statusRunning, nil},
			{3 * time.Second, list(ask, answer), statusIdle, nil}}, reason: ReasonDone, atLeast: 5 * time.Second, atMost: 7 * time.Second},
		"idle between two steps": {script: []state{{0, list(ask), statusRunning, nil}, {time.Second, list(ask, bare), statusIdle, nil},
			{time.Second, list(ask, bare, command(stepRunning, "ls")), statusRunning, nil},
			{time.Second, list(ask, bare, command(stepDone, "ls"), answer), statusIdle, nil}}, reason: ReasonDone, atLeast: 3 * time.Second, atMost: 5 * time.Second},
		"the last executor is of another turn": {script: []state{{0, list(ask, answer, ask), statusIdle, terminated(endNormal, 1)},
			{3 * time.Second, list(ask, answer, ask, answer), statusIdle, terminated(endNormal, 3)}}, reason: ReasonDone, atLeast: 3 * time.Second, atMost: 5 * time.Second},
		"error": {script: []state{{0, list(ask), statusRunning, nil}, {time.Second, list(ask, failure(busy)), statusIdle, nil}},
			reason: ReasonError, atLeast: time.Second, atMost: 4 * time.Second},
		"error of the executor": {script: []state{{0, list(ask, planner(stepError, "")), statusIdle, terminated(endError, 1)}}, reason: ReasonError, atMost: time.Second},
		"an error that was overcome": {script: []state{{0, list(ask, failure(busy)), statusRunning, nil}, {time.Second, list(ask, failure(busy), answer), statusIdle, nil}},
			reason: ReasonDone, atLeast: time.Second, atMost: 3 * time.Second},
		"cancelled":              {script: []state{{0, list(ask, planner(stepCanceled, "h")), statusIdle, terminated(endCanceled, 1)}}, reason: ReasonCancelled, atMost: time.Second},
		"cancelled, by the step": {script: []state{{0, list(ask, planner(stepCanceled, "h")), statusIdle, nil}}, reason: ReasonCancelled, atMost: 3 * time.Second},
		"max invocations":        {script: []state{{0, list(ask, answer), statusIdle, terminated(endMax, 1)}}, reason: ReasonMaxInvocations, atMost: time.Second},
		"waiting while it runs":  {script: []state{{0, list(ask, command(stepWaiting, "rm")), statusRunning, nil}}, reason: ReasonWaiting, atMost: 2 * time.Second},
		"nothing is generated":   {script: []state{{0, list(ask), statusIdle, nil}}, reason: ReasonError, atLeast: quietNoAnswer, atMost: 15 * time.Second},
		"a step never ends": {script: []state{{0, list(ask, answer, command(stepRunning, "server")), statusIdle, nil}},
			reason: ReasonDone, atLeast: quietPending, atMost: 10 * time.Second},
		"nothing begins":  {script: []state{{0, nil, statusIdle, nil}}, reason: ReasonTimeout, atLeast: 30 * time.Second, atMost: 35 * time.Second},
		"nothing goes on": {script: []state{{0, list(ask), statusRunning, nil}}, reason: ReasonTimeout, atLeast: 10 * time.Minute, atMost: 11 * time.Minute},
		"the turn before is over": {cursor: Cursor{Over: true, Marks: []Mark{{Type: ask.Type, Status: stepDone, Hash: hashStep(ask), Started: true, Text: prefixOf("hello")}, {Type: answer.Type,
			Status: stepDone, Hash: hashStep(answer), Text: prefixOf("hi"), Stop: stopPattern}}},
			script: []state{{0, list(ask, answer), statusIdle, terminated(endNormal, 1)}, {2 * time.Second, list(ask, answer, user("more"), answer), statusIdle, terminated(endNormal, 3)}},
			reason: ReasonDone, atLeast: 2 * time.Second, atMost: 4 * time.Second},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", name, stream), func(t *testing.T) {
				events, took := outcome(t, test.cursor, stream, test.script...)
				if n := len(events); n == 0 || events[n-1].Kind != KindDone || events[n-1].Reason != test.reason {
					t.Errorf("got %+v", events)
				}
				if took < test.atLeast || took > test.atMost {
					t.Errorf("it took %v", took)
				}
				if errors := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == KindError }); test.reason == ReasonError && !errors && name != "error of the executor" {
					t.Errorf("no error in %+v", events)
				}
			})
		}
	}
}

// Background work keeps a turn open.
func TestChildrenKeepTheTurnOpen(t *testing.T) {
	tracker := NewTracker(Cursor{})
	steps := []*geminicoder.Step{user("a"), planner(stepDone, "b")}
	for range tracker.Apply(&Observation{Steps: steps, Total: 2, Status: statusIdle, Children: true}) {
	}
	if o, over := tracker.Outcome(time.Hour); over {
		t.Errorf("got %+v", o)
	}
	for range tracker.Apply(&Observation{Steps: steps, Total: 2, Status: statusIdle}) {
	}
	if o, over := tracker.Outcome(quietComplete); !over || o.Reason != ReasonDone {
		t.Errorf("got %+v, %t", o, over)
	}
}

// A counted source counts readings.
type counted struct {
	source
	complete, partial int
}

func (c *counted) Trajectory(ctx context.Context, cascade string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	c.complete++
	return c.source.Trajectory(ctx, cascade)
}

func (c *counted) Steps(ctx context.Context, cascade string, offset int) ([]*geminicoder.Step, error) {
	c.partial++
	return c.source.Steps(ctx, cascade, offset)
}

// With a stream, text comes without a delay, and the whole conversation is read rarely. Without one
// it is polled.
func TestStreamsSaveReadings(t *testing.T) {
	for _, stream := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newConversation()
			s := &counted{source: source{c: c, stream: stream}}
			var sent atomic.Int64
			var worst time.Duration
			go func() {
				c.change(func() { c.steps, c.status = []*geminicoder.Step{user("a"), planner(stepGenerating, "")}, statusRunning })
				for range 100 {
					time.Sleep(99 * time.Millisecond)
					sent.Store(time.Now().UnixNano())
					c.change(func() { c.steps = op{Kind: "grow", Text: "x"}.do(c.steps) })
				}
				c.change(func() { c.steps, c.status = op{Kind: "finish"}.do(c.steps), statusIdle })
			}()
			text := 0
			var cursor Cursor
			for e, err := range followFrom(t.Context(), s, "cascade", &cursor) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind == KindText {
					text += len(e.Text)
					worst = max(worst, time.Since(time.Unix(0, sent.Load())))
				}
			}
			if text != 100 {
				t.Errorf("%d characters", text)
			}
			if stream && (worst > 0 || s.complete > 8 || s.partial > 120) {
				t.Errorf("with a stream: %v late, %d complete and %d partial readings", worst, s.complete, s.partial)
			}
			if !stream && (s.complete > 40 || s.complete < 20) {
				t.Errorf("without a stream: %d readings", s.complete)
			}
		})
	}
}

// A failing source is an error after a while, and a conversation that does not exist is one at
// once.
func TestFailingSources(t *testing.T) {
	missing := perigee.Errorf(perigee.ClassNotFound, "no such conversation")
	for _, test := range []struct {
		err  error
		took time.Duration
	}{{errBroken, time.Minute}, {missing, 0}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var cursor Cursor
			var got error
			for _, err := range followFrom(t.Context(), broken{test.err}, "cascade", &cursor) {
				got = err
			}
			if took := time.Since(began); !errors.Is(got, test.err) || took < test.took || took > test.took+3*time.Second {
				t.Errorf("%v after %v", got, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var cursor Cursor
		var got error
		for _, err := range followFrom(ctx, broken{errBroken}, "cascade", &cursor) {
			got = err
		}
		if !errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("got %v", got)
		}
	})
}

// A broken source only fails.
type broken struct{ err error }

func (b broken) Trajectory(context.Context, string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	return nil, b.err
}
func (b broken) Steps(context.Context, string, int) ([]*geminicoder.Step, error) { return nil, b.err }
func (b broken) Updates(context.Context, string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) { yield(nil, b.err) }
}

// With a stream, a revert that leaves as many steps as before is reported at once, and so is the
// end of a turn.
func TestStreamsShowRevertsAndEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConversation()
		first := []*geminicoder.Step{user("a"), planner(stepDone, "b"), command(stepDone, "c"), planner(stepGenerating, "d")}
		second := []*geminicoder.Step{user("a"), command(stepDone, "e"), command(stepDone, "f"), planner(stepDone, "g")}
		begun := time.Now()
		at := map[Kind]time.Duration{}
		go func() {
			c.change(func() { c.steps, c.status = first, statusRunning })
			time.Sleep(time.Second)
			c.change(func() { c.steps = second })
			time.Sleep(time.Second)
			c.change(func() { c.status, c.executor = statusIdle, terminated(endNormal, 3) })
		}()
		seen := newView()
		var cursor Cursor
		for e, err := range followFrom(t.Context(), &source{c: c, stream: true}, "cascade", &cursor) {
			if err != nil {
				t.Fatal(err)
			}
			seen.take(e)
			at[e.Kind] = time.Since(begun)
		}
		if at[KindTruncated] != time.Second || at[KindDone] != 2*time.Second {
			t.Errorf("the revert came after %v, the end after %v", at[KindTruncated], at[KindDone])
		}
		if d := difference(seen, viewOf(second)); d != "" {
			t.Error(d)
		}
	})
}

// A short source counts a step that it does not have for a while.
type short struct {
	source
	until time.Time
}

func (s *short) Trajectory(ctx context.Context, cascade string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	answer, err := s.source.Trajectory(ctx, cascade)
	if time.Now().Before(s.until) {
		answer.Trajectory.Steps = answer.Trajectory.Steps[:len(answer.Trajectory.Steps)-1]
	}
	return answer, err
}

func (s *short) Steps(ctx context.Context, cascade string, offset int) ([]*geminicoder.Step, error) {
	if time.Now().Before(s.until) {
		return nil, nil
	}
	return s.source.Steps(ctx, cascade, offset)
}

// A turn is not over before all of its steps were read.
func TestIncompleteReadingsEndNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConversation()
		c.steps, c.executor = []*geminicoder.Step{user("a"), planner(stepDone, "b"), planner(stepDone, "c")}, terminated(endNormal, 2)
		seen, _, err := follow(t.Context(), &short{source{c: c}, time.Now().Add(20 * time.Second)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(seen, viewOf(c.steps)); d != "" {
			t.Error(d)
		}
	})
}
