package thoughtsig

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// slow is a store that takes its time to save.
type slow struct {
	shelf
	pace time.Duration
}

// SaveSignatures is called in bubbles.
func (s *slow) SaveSignatures(ctx context.Context, list []perigee.Signature) error {
	select {
	case <-time.After(s.pace):
		return s.shelf.SaveSignatures(ctx, list)
	case <-ctx.Done():
		return ctx.Err()
	}
}

var signedCall = []perigee.Event{signed(called("a"), "S1"), finish()}

// After the end of an answer the next request may come to another process at once.
func TestTheEndOfAnAnswerWaitsForAStoreThatIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{pace: 20 * time.Millisecond}
		one, other := NewMemory(Options{Shared: true}), NewMemory(Options{Shared: true})
		one.KeepIn(store)
		other.KeepIn(store)
		for ev, err := range one.Around(&source{events: signedCall}).Stream(t.Context(), request(perigee.DialectOpenAIChat, flash)) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind != perigee.EventFinish {
				continue
			}
			if got := ask(t, other, flash, partCall("a")); got != "S1" {
				t.Errorf("the other one gives %q", got)
			}
		}
		if one.Close(t.Context()) != nil || other.Close(t.Context()) != nil {
			t.Error("not closed")
		}
	})
}

func TestTheEndOfAnAnswerDoesNotWaitForLong(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		pace    time.Duration
		err     error
		want    time.Duration
	}{
		"a store of our own":     {Options{}, time.Hour, nil, 0},
		"a store that is hung":   {Options{Shared: true}, time.Hour, nil, flushTime},
		"a store that is broken": {Options{Shared: true}, 0, errors.New("away"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slow{pace: c.pace}
				store.fail(c.err)
				m := NewMemory(c.options)
				m.KeepIn(store)
				began := time.Now()
				hear(t, m.Around(&source{events: signedCall}), request(perigee.DialectOpenAIChat, flash))
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = m.Close(ctx) // what is not stored by now is lost
			})
		})
	}
}

// What one process has not stored yet when another asks is found a moment later.
func TestThatSomethingIsAbsentIsNotBelievedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		m := NewMemory(Options{Shared: true})
		m.KeepIn(store)
		if got := ask(t, m, flash, partCall("a")); got != "" {
			t.Errorf("got %q", got)
		}
		key := testScope().callKey("a")
		late := []perigee.Signature{{Key: key, Value: "S1", Kind: "gemini", Expires: time.Now().Add(time.Hour)}}
		if err := store.SaveSignatures(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		time.Sleep(absentTimeShared) // of the bubble
		if got := ask(t, m, flash, partCall("a")); got != "S1" {
			t.Errorf("got %q", got)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
