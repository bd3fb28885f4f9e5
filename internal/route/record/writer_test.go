package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

func stream(t *testing.T, r *Recorder, id string) {
	t.Helper()
	for _, err := range r.Stream(t.Context(), request(id)) {
		if err != nil {
			t.Error(err)
		}
	}
}

// sleep is a step that takes a while, in a bubble.
func sleep(d time.Duration) func() { return func() { time.Sleep(d) } }

func wantWritten(t *testing.T, store *memory, want ...[]string) {
	t.Helper()
	if got := store.written(); !reflect.DeepEqual(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestShortCallIsOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, sleep(49 * time.Millisecond), finish}, Options{Store: &store})
		stream(t, r, "c")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantWritten(t, &store, []string{"c done"})
		time.Sleep(time.Hour)
		wantWritten(t, &store, []string{"c done"})
		mustClose(t, r)
	})
}

func TestLongCallIsTwoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, sleep(time.Second), finish}, Options{Store: &store})
		stream(t, r, "c")
		wantWritten(t, &store, []string{"c open"})
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		wantWritten(t, &store, []string{"c open"}, []string{"c done"})
		mustClose(t, r)
	})
}

func TestCallsOfOneMomentAreOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, finish}, Options{Store: &store, Linger: time.Second})
		for i := range 3 {
			stream(t, r, fmt.Sprint(i))
			time.Sleep(300 * time.Millisecond)
		}
		wantWritten(t, &store)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		wantWritten(t, &store, []string{"0 done", "1 done", "2 done"})
		mustClose(t, r)
	})
}

func TestCloseDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, finish}, Options{Store: &store, Linger: time.Hour})
		stream(t, r, "c")
		began := time.Now()
		mustClose(t, r)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		wantWritten(t, &store, []string{"c done"})
		stream(t, r, "late") // must not hang or fail
		mustClose(t, r)
		wantWritten(t, &store, []string{"c done"})
	})
}

// failing makes a recorder, in a bubble, whose store has just refused a batch for the first time.
func failing(t *testing.T, limit int) (*Recorder, *memory, *bytes.Buffer) {
	t.Helper()
	store := &memory{err: errBroken}
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	r := New(script{start, finish}, Options{Store: store, Limit: limit, Logger: slog.New(onlyWriter{logger.Handler()})})
	stream(t, r, "0")
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
	if store.attempts() != 1 {
		t.Fatalf("tried %d times", store.attempts())
	}
	return r, store, &out
}

// onlyWriter leaves out the lines about single calls.
type onlyWriter struct{ slog.Handler }

func (h onlyWriter) Handle(ctx context.Context, line slog.Record) error {
	if strings.HasPrefix(line.Message, "calls ") {
		return h.Handler.Handle(ctx, line)
	}
	return nil
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, out := failing(t, 0)
		for i, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
			time.Sleep(time.Duration(seconds)*time.Second - 1)
			synctest.Wait()
			if got := store.attempts(); got != i+1 {
				t.Errorf("just before retry %d: tried %d times", i+1, got)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if got := store.attempts(); got != i+2 {
				t.Errorf("at retry %d: tried %d times", i+1, got)
			}
		}
		stream(t, r, "1")
		store.fail(nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		wantWritten(t, store, []string{"0 done", "1 done"})
		mustClose(t, r)
		if got := strings.Count(out.String(), "cannot be recorded"); got != 1 {
			t.Errorf("said %d times that it fails:\n%s", got, out)
		}
		if got := strings.Count(out.String(), "recorded again"); got != 1 {
			t.Errorf("said %d times that it works again:\n%s", got, out)
		}
	})
}

func TestBackoffStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, _ := failing(t, 0)
		time.Sleep(3 * time.Second) // tried three times, next in 4s
		store.fail(nil)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		wantWritten(t, store, []string{"0 done"})
		store.fail(errBroken)
		stream(t, r, "1")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		store.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		wantWritten(t, store, []string{"0 done"}, []string{"1 done"})
		mustClose(t, r)
	})
}

func TestLimitLosesOpenRowsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, out := failing(t, 3)
		stream(t, r, "1")
		r.writer.Put("long", perigee.Call{ID: "long", Outcome: perigee.OutcomeOpen})
		stream(t, r, "2") // its open row pushes the other one out, and then it is done itself
		stream(t, r, "3") // now there are only ended ones: its open row is lost, its end pushes 0 out
		store.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		wantWritten(t, store, []string{"1 done", "2 done", "3 done"})
		if !strings.Contains(out.String(), "lost=3") {
			t.Errorf("said\n%s", out)
		}
		// A call whose open row was lost is told of when it ends.
		r.writer.Put("long", perigee.Call{ID: "long", Outcome: perigee.OutcomeDone})
		mustClose(t, r)
		if got := store.calls()["long"].Outcome; got != perigee.OutcomeDone {
			t.Errorf("got %q", got)
		}
	})
}

// gate is a store that holds each save until it is let through.
type gate struct {
	memory
	entered chan struct{}
	results chan error
}

func (g *gate) SaveCalls(ctx context.Context, calls []perigee.Call) error {
	g.entered <- struct{}{}
	select {
	case err := <-g.results:
		if err != nil {
			return err
		}
		return g.memory.SaveCalls(ctx, calls)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNewerStateWinsOverAFailedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gate{entered: make(chan struct{}), results: make(chan error)}
		ending := make(chan struct{})
		r := New(script{start, func() { <-ending }, finish}, Options{Store: store})
		var calling sync.WaitGroup
		calling.Go(func() { stream(t, r, "c") })
		<-store.entered // the open row is being written
		close(ending)
		calling.Wait() // and the call does not wait for that
		store.results <- errBroken
		<-store.entered
		store.results <- nil
		synctest.Wait()
		wantWritten(t, &store.memory, []string{"c done"})
		mustClose(t, r)
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, _ := failing(t, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := r.Close(ctx)
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "1 calls were not recorded") {
			t.Errorf("got %v", err)
		}
		// At once when Close was called, and then 2, 4 seconds later: it did keep trying.
		if got := store.attempts(); got < 3 || got > 6 {
			t.Errorf("tried %d times", got)
		}
	})
}

func TestCloseRetriesUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, _ := failing(t, 0)
		time.AfterFunc(5*time.Second, func() { store.fail(nil) })
		mustClose(t, r)
		wantWritten(t, store, []string{"0 done"})
	})
}

func TestCloseInterruptsAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gate{entered: make(chan struct{}), results: make(chan error)}
		r := New(script{start, finish}, Options{Store: store})
		stream(t, r, "c")
		<-store.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestThousandCallsAtOnce(t *testing.T) {
	var store memory
	r := New(script{start, text, text, usage, finish}, Options{Store: &store, Linger: time.Millisecond})
	var calling sync.WaitGroup
	for i := range 1000 {
		calling.Go(func() { stream(t, r, fmt.Sprint(i)) })
	}
	await.Return(t, calling.Wait, "the calls")
	mustClose(t, r)
	calls := store.calls()
	for id, c := range calls {
		if c.Outcome != perigee.OutcomeDone || c.Usage != *usage.Usage || c.FirstByte <= 0 || c.Duration < c.FirstByte {
			t.Errorf("%s: %+v", id, c)
		}
	}
	if len(calls) != 1000 {
		t.Errorf("recorded %d calls", len(calls))
	}
}

func TestFlushDoesNotWaitForTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		r := New(script{start, finish}, Options{Store: &store})
		began := time.Now()
		r.Flush(t.Context()) // nothing to write
		stream(t, r, "c")
		r.Flush(t.Context())
		wantWritten(t, &store, []string{"c done"})
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		mustClose(t, r)
		r.Flush(t.Context()) // closed: nothing to wait for
	})
}

func TestFlushDoesNotWaitForAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memory
		store.fail(errors.New("disk full"))
		r := New(script{start, finish}, Options{Store: &store})
		stream(t, r, "c")
		r.Flush(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err == nil {
			t.Error("no error")
		}
	})
}
