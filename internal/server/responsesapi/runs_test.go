package responsesapi

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"perigee"
)

func class(err error) perigee.Class {
	if err == nil {
		return ""
	}
	return perigee.AsError(err).Class
}

func TestOneKeyDoesNotTakeAllPlaces(t *testing.T) {
	var b Runs
	for i := range maxRunsOfKey {
		if _, _, err := b.Begin(t.Context(), "a"+strconv.Itoa(i), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.Begin(t.Context(), "one more", "a"); class(err) != perigee.ClassRateLimited {
		t.Errorf("one more for the same key: %v", err)
	}
	if _, _, err := b.Begin(t.Context(), "b", "b"); err != nil {
		t.Errorf("another key: %v", err)
	}
}

// Without keys, all clients share the places.
func TestPlacesAreBounded(t *testing.T) {
	var b Runs
	var last *Run
	for i := range maxRuns {
		var err error
		if _, last, err = b.Begin(t.Context(), strconv.Itoa(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.Begin(t.Context(), "one more", ""); class(err) != perigee.ClassRateLimited || perigee.AsError(err).Retry == 0 {
		t.Errorf("one more: %v", err)
	}
	last.End()
	if _, _, err := b.Begin(t.Context(), "one more", ""); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestARunIsFoundByItsKeyUntilItIsStored(t *testing.T) {
	var b Runs
	_, run, err := b.Begin(t.Context(), "r1", "laptop")
	if err != nil {
		t.Fatal(err)
	}
	if b.Find("r1", "laptop") != run || b.Find("r1", "phone") != nil || b.Find("r2", "laptop") != nil {
		t.Error("it is not found by its own key alone")
	}
	run.MarkStored()
	run.End() // also marks it
	if b.Find("r1", "laptop") != nil {
		t.Error("it is found after it was stored")
	}
}

func TestCloseCancelsWithItsCause(t *testing.T) {
	var b Runs
	cause := errors.New("shutting down")
	ctx, run, err := b.Begin(context.WithoutCancel(t.Context()), "r1", "")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-ctx.Done()
		run.End()
	}()
	b.Close(cause)
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("the cause is %v", got)
	}
	if _, _, err := b.Begin(t.Context(), "r2", ""); !errors.Is(err, cause) {
		t.Errorf("after Close: %v", err)
	}
	if err := b.Wait(t.Context()); err != nil {
		t.Errorf("nothing is left to wait for: %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	var b Runs
	if _, _, err := b.Begin(t.Context(), "r1", ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := b.Find("r1", "").stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
}
