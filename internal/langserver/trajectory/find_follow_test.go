package trajectory

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// writing is a text that is not complete.
func writing(text string) *geminicoder.Step {
	s := answered(text)
	s.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_GENERATING
	s.GetPlannerResponse().StopReason = 0
	return s
}

// events are those of a match from its message on.
func events(ctx context.Context, m Match, list []Reader) iter.Seq2[Event, error] {
	f := Follower{Reader: Failover(m.Reader, list), Cascade: m.Conversation, Cursor: Cursor{First: m.Step}}
	return f.Events(ctx)
}

// heard are the events of a turn as words.
func heard(ctx context.Context, m Match, list []Reader) (words []string, err error) {
	for event, problem := range events(ctx, m, list) {
		switch {
		case problem != nil:
			err = problem
		case event.Kind == KindTurn:
			words = append(words, "turn "+event.Text)
		case event.Kind == KindText:
			words = append(words, event.Text)
		case event.Kind == KindDone:
			words = append(words, string(event.Reason))
		default:
			words = append(words, "event")
		}
	}
	return words, err
}

// The reader that has shown the message fails in the middle of the answer. The next one continues,
// and nothing is said twice.
func TestTheNextReaderContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newMemory(), newMemory()
		now := time.Now()
		earlier := []*geminicoder.Step{said("before", now.Add(-time.Hour)), answered("x")}
		put := func(m *memory, steps ...*geminicoder.Step) {
			list := slices.Clone(earlier)
			for _, s := range steps {
				list = append(list, proto.CloneOf(s))
			}
			m.put(Summary{ID: "c"}, list...)
		}
		put(a, said("hello", now), writing("one "))
		put(b, said("hello", now), writing("one "))
		time.AfterFunc(2*time.Second, func() {
			a.mu.Lock()
			a.readErr = errors.New("gone")
			a.mu.Unlock()
			put(b, said("hello", now), writing("one two "))
		})
		time.AfterFunc(12*time.Second, func() { put(b, said("hello", now), answered("one two three")) })
		words, err := heard(t.Context(), Match{Conversation: "c", Step: 2, Reader: a}, readers(a, b))
		if err != nil || !slices.Equal(words, []string{"turn hello", "one ", "two ", "three", "done"}) {
			t.Errorf("got %q, %v", words, err)
		}
	})
}

// All readers fail: they are tried for a minute, unless they say that there is no such
// conversation.
func TestNoReaderWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		a, b := newMemory(), newMemory()
		a.readErr, b.readErr = gone, gone
		began := time.Now()
		_, err := heard(t.Context(), Match{Conversation: "c", Reader: a}, readers(b))
		if took := time.Since(began); !errors.Is(err, gone) || took < time.Minute || took > 90*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
		began = time.Now()
		a.readErr = perigee.Errorf(perigee.ClassNotFound, "no conversation")
		b.readErr = a.readErr
		_, err = heard(t.Context(), Match{Conversation: "c", Reader: a}, readers(b))
		if took := time.Since(began); perigee.AsError(err).Class != perigee.ClassNotFound || took > time.Second {
			t.Errorf("got %v after %v", err, took)
		}
		a.readErr = gone
		began = time.Now()
		if _, err = heard(t.Context(), Match{Conversation: "c", Reader: a}, readers(b)); !errors.Is(err, gone) || time.Since(began) < time.Minute {
			t.Errorf("one of them does not know it: got %v after %v", err, time.Since(began))
		}
		a.readErr, b.readErr, b.running = gone, nil, true
		b.put(Summary{ID: "c"}, said("hello", time.Now()), writing("x"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began = time.Now()
		words, err := heard(ctx, Match{Conversation: "c", Reader: a}, readers(b))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 20*time.Second || len(words) != 2 {
			t.Errorf("got %q, %v after %v", words, err, time.Since(began))
		}
	})
}
