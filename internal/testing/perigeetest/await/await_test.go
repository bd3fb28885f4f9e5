package await_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

func TestWaitsEndWithTheirEvent(t *testing.T) {
	events := make(chan int, 1)
	await.Send(t, events, 7, "room in the channel")
	if got := await.Receive(t, events, "the number"); got != 7 {
		t.Errorf("received %d", got)
	}
	close(events)
	if got := await.Receive(t, events, "the end"); got != 0 {
		t.Errorf("received %d from a closed channel", got)
	}

	var group sync.WaitGroup
	ran := false
	group.Go(func() { ran = true })
	await.Return(t, group.Wait, "the goroutine")
	if !ran {
		t.Error("Return did not wait")
	}

	failure := errors.New("exit status 3")
	if got := await.Result(t, func() error { return failure }, "the process"); got != failure {
		t.Errorf("the result is %v", got)
	}

	polled := 0
	await.Until(t, "three polls", func() bool { polled++; return polled == 3 })
}

// A recorder is a test that notes its failure and ends the goroutine, as testing.T does.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r)
}

func TestWaitsFailAtTheirLimit(t *testing.T) {
	var never chan struct{}
	for name, wait := range map[string]func(t await.Test){
		"Receive": func(t await.Test) { await.Receive(t, make(chan int), "a number") },
		"Send":    func(t await.Test) { await.Send(t, make(chan int), 1, "a number") },
		"Until":   func(t await.Test) { await.Until(t, "a number", func() bool { return false }) },
		"Return":  func(t await.Test) { await.Return(t, func() { <-never }, "a number") },
		"Result":  func(t await.Test) { await.Result(t, func() int { <-never; return 0 }, "a number") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				defer close(never)
				r, began := &recorder{TB: t}, time.Now()
				func() {
					defer func() { _ = recover() }()
					wait(r)
				}()
				if passed := time.Since(began); passed != await.Limit {
					t.Errorf("failed after %v", passed)
				}
				if !strings.HasPrefix(r.failure, "waited 1m0s for: a number\n\ngoroutine ") {
					t.Errorf("the failure is %.80q", r.failure)
				}
			})
		})
	}
}
