package batchwriter_test

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

	"perigee/internal/store/batchwriter"
	"perigee/internal/testing/perigeetest/await"
)

// A rig is a Writer of numbers in a bubble of fake time, and what became of them.
type rig struct {
	*batchwriter.Writer[int, int]
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
	r.Writer = batchwriter.New[int](batchwriter.Options[int]{
		Rows: "numbers", MaxRows: 3, Linger: linger, Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Save: r.save,
	})
	return r
}

// save runs in the bubble.
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
		r.Put(n, n)
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
		r.add(4) // the writer has ended
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
		if r.Failure() == nil {
			t.Error("it is not said that the store fails")
		}
		r.store(nil, false)
		r.Flush(t.Context()) // without waiting for the next try
		if r.Failure() != nil {
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
		if strings.Count(said, "cannot be recorded") != 2 || strings.Count(said, "recorded again") != 2 || !strings.Contains(said, "lost=1") {
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
		if said := r.log.String(); !strings.Contains(said, "more came than could be recorded") || !strings.Contains(said, "lost=2") {
			t.Errorf("said\n%s", said)
		}
	})
}

// A text is a row with a key, so that one text can replace another.
type text struct{ key, value string }

func newTexts(save func([]text) error) *batchwriter.Writer[string, text] {
	return batchwriter.New[string](batchwriter.Options[text]{
		Rows: "texts", MaxBytes: 10,
		Linger:     second, // so that rows gather before the first batch
		Size:       func(t text) int { return len(t.value) },
		Expendable: func(t text) bool { return strings.HasPrefix(t.value, "?") },
		Save:       func(_ context.Context, batch []text) error { return save(batch) },
	})
}

// What was refused goes back before what has come since, and the oldest beyond the limit are
// dropped.
func TestRefusedRowsKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches []string
		var w *batchwriter.Writer[string, text]
		w = newTexts(func(batch []text) error {
			var values []string
			for _, t := range batch {
				values = append(values, t.value)
			}
			batches = append(batches, strings.Join(values, " "))
			if len(batches) > 1 {
				return nil
			}
			w.Put("b", text{"b", "newer"}) // while its older row is being written
			w.Put("d", text{"d", "four"})
			return errBroken
		})
		w.Put("a", text{"a", "one"})
		w.Put("b", text{"b", "old"})
		w.Put("c", text{"c", "3"})
		if missing, err := w.Close(t.Context()); missing != 0 || err != nil {
			t.Errorf("%d are missing, %v", missing, err)
		}
		if want := []string{"one old 3", "3 newer four"}; !reflect.DeepEqual(batches, want) {
			t.Errorf("wrote %q, want %q", batches, want)
		}
	})
}

func TestExpendableRowsAreDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []text
		w := newTexts(func(batch []text) error { written = batch; return nil })
		w.Put("a", text{"a", "aaaa"})
		w.Put("b", text{"b", "?bbb"})
		w.Put("c", text{"c", "cccc"})
		w.Put("huge", text{"huge", strings.Repeat("x", 11)}) // does not fit, even alone
		if missing, err := w.Close(t.Context()); missing != 0 || err != nil {
			t.Errorf("%d are missing, %v", missing, err)
		}
		if want := []text{{"a", "aaaa"}, {"c", "cccc"}}; !reflect.DeepEqual(written, want) {
			t.Errorf("wrote %q, want %q", written, want)
		}
	})
}

func TestNothingRunsWhileNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which would fail if a goroutine were left
		r := newRig(second)
		for n := range 3 {
			r.add(n)
			time.Sleep(2 * second)
		}
		r.wantWritten(t, []int{0}, []int{1}, []int{2})
	})
}

// After a failed batch, as many rows are dropped as came while it was tried; Put has to wait for
// that. If all rows were searched for each of them it would take minutes, and the wait fails after
// one.
func TestDroppingManyRowsIsQuick(t *testing.T) {
	many := 300_000
	if testing.Short() {
		many = 30_000
	}
	began, fail := make(chan struct{}, 10), make(chan struct{})
	w := batchwriter.New[int](batchwriter.Options[int]{Rows: "numbers", MaxRows: many, Expendable: func(n int) bool { return n == many },
		Save: func(ctx context.Context, _ []int) error {
			began <- struct{}{}
			select {
			case <-fail:
			case <-ctx.Done():
			}
			return errBroken
		}})
	for n := range many {
		w.Put(n, n)
	}
	go w.Flush(t.Context())
	await.Receive(t, began, "the batch")
	for n := range many {
		w.Put(many+n, many+n)
	}
	close(fail)
	await.Until(t, "the failure", func() bool { return w.Failure() != nil })
	await.Return(t, func() { w.Put(-1, -1) }, "Put")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if missing, _ := w.Close(ctx); missing < many {
		t.Errorf("%d rows are missing, want at least %d", missing, many)
	}
}
