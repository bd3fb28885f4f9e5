// Package await waits for events in tests. Each wait has a limit and says what it waited for; at the limit it fails the
// test with the stacks of all goroutines, long before go test ends the whole package. Inside a synctest bubble the limit
// is one of the bubble's time. The functions call t.Fatal, so only the goroutine of the test may use them.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Limit bounds each wait. It is far above what anything takes on a busy machine with two cores, so that reaching it means
// that the event does not come.
const Limit = time.Minute

// Receive returns the next value of a channel, or the zero value if the channel is closed.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case value := <-from:
		return value
	case <-limit.C:
		fail(t, what)
		panic("not reached")
	}
}

// Send sends a value to a channel.
func Send[T any](t testing.TB, to chan<- T, value T, what string) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case to <- value:
	case <-limit.C:
		fail(t, what)
	}
}

// Return calls a function that blocks, such as the Wait method of a sync.WaitGroup, and returns after it.
func Return(t testing.TB, blocks func(), what string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		blocks()
	}()
	Receive(t, done, what)
}

// Result calls a function that blocks, such as the Wait method of an exec.Cmd, and returns its result.
func Result[T any](t testing.TB, blocks func() T, what string) T {
	t.Helper()
	result := make(chan T, 1)
	go func() { result <- blocks() }()
	return Receive(t, result, what)
}

// Until polls a condition until it holds. It is for what cannot be waited for: files, other processes, counters.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit.C:
			fail(t, what)
		}
	}
}

// fail ends the test with the stacks of all goroutines, up to 1 MiB of them.
func fail(t testing.TB, what string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.Fatalf("waited %v for: %s\n\n%s", Limit, what, stacks)
}
