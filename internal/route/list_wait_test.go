package route

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A hangingLister is an upstream whose list of models does not come.
type hangingLister struct {
	source
	asked int
}

func (s *hangingLister) Models(ctx context.Context) ([]perigee.Model, error) {
	s.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

// A list that does not come in time delays one call, and not each one that names an unknown model.
// A client that leaves says nothing about the list.
func TestHangingListDelaysOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lister := &hangingLister{}
		r := router(t, Options{Targets: []Target{{"a", lister}}})
		ask := func(ctx context.Context) time.Duration {
			began := time.Now()
			if unsure, err := r.Missing(ctx, "unknown"); !unsure || err != nil {
				t.Errorf("unsure %t, %v", unsure, err)
			}
			return time.Since(began)
		}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if took := ask(gone); took != time.Second {
			t.Errorf("a client that leaves after a second: %v", took)
		}
		for i, want := range []time.Duration{modelsWait, 0, 0} {
			if took := ask(t.Context()); took != want {
				t.Errorf("call %d took %v, want %v", i, took, want)
			}
		}
		time.Sleep(modelsRetry)
		if took := ask(t.Context()); took != modelsWait || lister.asked != 3 {
			t.Errorf("later it took %v, and the list was asked for %d times", took, lister.asked)
		}
	})
}
