package conversation

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/langserver/trajectory"
)

// Calls beyond the concurrency wait in order. A full queue refuses at once, and a long wait ends.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 2, 10*time.Second)
		leave, err := q.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		begun := time.Now()
		for i := range 2 {
			go func() {
				leave, err := q.enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait()
		}
		_, err = q.enter(t.Context())
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassCapacity || e.HTTPStatus("") != http.StatusServiceUnavailable || e.Retry <= 0 || time.Since(begun) != 0 {
			t.Errorf("a full queue: %+v after %v", e, time.Since(begun))
		}
		leave()
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(order, []int{0, 1}) {
			t.Errorf("order %v", order)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 2, 10*time.Second)
		leave, _ := q.enter(t.Context())
		begun := time.Now()
		_, err := q.enter(t.Context())
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassUnavailable || e.HTTPStatus("") != http.StatusRequestTimeout || e.Retry <= 0 || time.Since(begun) != 10*time.Second {
			t.Errorf("a long wait: %+v after %v", e, time.Since(begun))
		}
		leave()
		if leave, err = q.enter(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		leave()
	})
	if _, err := newQueue(0, 0, 0).enter(t.Context()); perigee.AsError(err).Class != perigee.ClassCapacity {
		t.Errorf("depth 0: %v", err)
	}
}

// A client that leaves the queue frees its place.
func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1, 0)
		leave, _ := q.enter(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.enter(ctx)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go func() {
			leave, err := q.enter(t.Context())
			if err == nil {
				leave()
			}
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; err != nil {
			t.Error(err)
		}
	})
}

// TestQueueKeepsItsPromises runs random calls: never more at once than allowed, never more waiting,
// and all places are free again in the end.
func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		concurrency, depth := rapid.IntRange(1, 3).Draw(rt, "concurrency"), rapid.IntRange(0, 3).Draw(rt, "depth")
		type job struct{ At, Work, Patience int }
		jobs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job {
			return job{rapid.IntRange(0, 50).Draw(t, "at"), rapid.IntRange(0, 20).Draw(t, "work"), rapid.IntRange(0, 30).Draw(t, "patience")}
		}), 1, 20).Draw(rt, "jobs")
		problem := ""
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(concurrency, depth, 0)
			var mu sync.Mutex
			running := 0
			var all sync.WaitGroup
			for _, j := range jobs {
				all.Go(func() {
					time.Sleep(time.Duration(j.At) * time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j.Patience)*time.Second)
					defer cancel()
					leave, err := q.enter(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					if running++; running > concurrency {
						problem = "too many at once"
					}
					mu.Unlock()
					time.Sleep(time.Duration(j.Work) * time.Second)
					mu.Lock()
					running--
					mu.Unlock()
					leave()
				})
			}
			all.Wait()
			if len(q.places) != 0 || q.waiting.Load() != 0 {
				problem = "places are lost"
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// Conversations run side by side up to the concurrency.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(ctx context.Context, n int, yield func(trajectory.Event, error) bool) {
			time.Sleep(time.Second)
			says(text(1, "a"), done(trajectory.ReasonDone))(ctx, n, yield)
		}}
		u := New(Options{Client: s, Concurrency: 2, Depth: 50})
		var all sync.WaitGroup
		begun := time.Now()
		for range 6 {
			all.Go(func() {
				if r := ask(t.Context(), u, hello(true)); r.err != nil {
					t.Error(r.err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); s.most != 2 || took != 3*time.Second {
			t.Errorf("%d at once, %v", s.most, took)
		}
	})
}
