package batch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/batch"
)

// numbers is a queue that keeps at most three.
type numbers struct {
	list []int
	lost int
}

func (q *numbers) add(n int) {
	q.list = append(q.list, n)
	if over := len(q.list) - 3; over > 0 {
		q.list, q.lost = q.list[over:], q.lost+over
	}
}

func (q *numbers) Size() int { return len(q.list) }

func (q *numbers) Take() []int {
	list := q.list
	q.list = nil
	return list
}

func (q *numbers) Done(batch []int, err error) {
	if err != nil {
		q.list = append(batch, q.list...)
	}
}

func (q *numbers) Lost() int {
	lost := q.lost
	q.lost = 0
	return lost
}

// A rig is a Writer of numbers in a bubble of fake time, and what became of them.
type rig struct {
	*batch.Writer[[]int]
	queue numbers
	began time.Time
	log   bytes.Buffer

	mu      sync.Mutex
	tried   []time.Duration // when, since the beginning
	written [][]int
	err     error // of the store
	hangs   bool
}

func newRig(linger time.Duration) *rig {
	r := &rig{began: time.Now()}
	r.Writer = batch.Start(batch.Options[[]int]{
		Queue: &r.queue, Linger: linger, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Words: batch.Words{Failing: "it fails", Again: "it works again", TooMany: "there are too many"},
		Save:  r.save,
	})
	return r
}

func (r *rig) save(ctx context.Context, list []int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, time.Since(r.began))
	if r.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.err == nil {
		r.written = append(r.written, list)
	}
	return r.err
}

// store changes how the store behaves.
func (r *rig) store(err error, hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.hangs = err, hangs
}

func (r *rig) add(list ...int) {
	for _, n := range list {
		r.Add(func() { r.queue.add(n) })
	}
}

func (r *rig) close(t *testing.T) {
	t.Helper()
	if missing, err := r.Close(t.Context()); missing != 0 || err != nil {
		t.Errorf("closing: %d are missing, %v", missing, err)
	}
}

func (r *rig) wantWritten(t *testing.T, want ...[]int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reflect.DeepEqual(r.written, want) {
		t.Errorf("wrote %v, want %v", r.written, want)
	}
}

// wantTried checks when the store was asked since this was last checked.
func (r *rig) wantTried(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reflect.DeepEqual(r.tried, want) {
		t.Errorf("tried at %v, want %v", r.tried, want)
	}
	r.tried = nil
}

var errBroken = errors.New("broken")

const ms, second = time.Millisecond, time.Second

func TestRowsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(50 * ms)
		r.add(1)
		time.Sleep(49 * ms)
		r.add(2)
		r.wantWritten(t)
		time.Sleep(ms)
		r.wantWritten(t, []int{1, 2})
		r.add(3)
		r.close(t) // which does not linger
		r.wantWritten(t, []int{1, 2}, []int{3})
		r.wantTried(t, 50*ms, 50*ms)
		r.add(4) // nobody is there to write it
		r.close(t)
		r.Flush(t.Context())
		r.wantWritten(t, []int{1, 2}, []int{3})
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(time.Hour)
		r.Flush(t.Context())
		r.add(1)
		r.Flush(t.Context())
		r.wantWritten(t, []int{1})
		r.store(errBroken, false)
		r.add(2)
		r.Flush(t.Context()) // tried and refused
		if !r.Failing() {
			t.Error("it is not said that the store fails")
		}
		r.store(nil, false)
		r.Flush(t.Context()) // without waiting for the next try
		if r.Failing() {
			t.Error("it is said that the store fails")
		}
		r.wantWritten(t, []int{1}, []int{2})
		r.wantTried(t, 0, 0, 0)
		r.store(nil, true)
		r.add(3)
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		r.Flush(ctx)
		if took := time.Since(r.began); took != second {
			t.Errorf("waited for %v", took)
		}
		if missing, err := r.Close(ctx); missing != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d are missing, %v", missing, err)
		}
	})
}

func TestAStoreThatFailsIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.store(errBroken, false)
		r.add(1)
		time.Sleep(100 * second)
		r.wantTried(t, 0, second, 3*second, 7*second, 15*second, 31*second, 61*second, 91*second)
		r.add(2, 3, 4)
		r.store(nil, false)
		time.Sleep(21 * second)
		r.wantWritten(t, []int{2, 3, 4})
		r.wantTried(t, 121*second)
		r.store(errBroken, false)
		r.add(5)
		time.Sleep(2 * second)
		r.wantTried(t, 121*second, 122*second) // from the beginning
		r.store(nil, false)
		r.close(t)
		said := r.log.String()
		if strings.Count(said, "it fails") != 2 || strings.Count(said, "it works again") != 2 || !strings.Contains(said, "lost=1") {
			t.Errorf("said\n%s", said)
		}
	})
}

func TestClosingTriesAsAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.store(errBroken, false)
		r.add(1, 2, 3, 4)
		time.Sleep(100 * second)
		r.wantTried(t, 0, second, 3*second, 7*second, 15*second, 31*second, 61*second, 91*second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*second)
		defer cancel()
		if missing, err := r.Close(ctx); missing != 4 || !errors.Is(err, errBroken) {
			t.Errorf("%d are missing, %v", missing, err)
		}
		r.wantTried(t, 100*second, 101*second, 103*second, 107*second)
		if missing, err := r.Close(t.Context()); missing != 3 || err == nil {
			t.Errorf("closing again: %d are missing, %v", missing, err)
		}
	})
}

func TestTooManyAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(second)
		r.add(1, 2, 3, 4, 5)
		r.close(t)
		r.wantWritten(t, []int{3, 4, 5})
		if said := r.log.String(); !strings.Contains(said, "there are too many") || !strings.Contains(said, "lost=2") {
			t.Errorf("said\n%s", said)
		}
	})
}
