// Package await waits for events in tests. Each wait has a limit and a name for the failure; at
// the limit it fails the test with the stacks of all goroutines, long before go test ends the whole
// package. Inside a synctest bubble the limit is one of the bubble's time. The functions call
// Fatalf, so only the goroutine of the test may use them.
package await

import (
	"runtime"
	"time"
)

// A Test is a testing.TB, or the script of a testscript.
type Test interface {
	Fatalf(format string, args ...any)
}

// helper returns the method that marks its caller as a helper, so that a failure has the line of
// the test.
func helper(t Test) func() {
	if t, ok := t.(interface{ Helper() }); ok {
		return t.Helper
	}
	return func() {}
}

// Limit bounds each wait. It is far above what anything takes on a busy machine with two cores, so
// that reaching it means that the event does not come.
const Limit = time.Minute

// Receive returns the next value of a channel, or the zero value if the channel is closed.
func Receive[T any](t Test, from <-chan T, what string) T {
	helper(t)()
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
func Send[T any](t Test, to chan<- T, value T, what string) {
	helper(t)()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case to <- value:
	case <-limit.C:
		fail(t, what)
	}
}

// Return calls a function that blocks, such as the Wait method of a sync.WaitGroup, and returns
// after it.
func Return(t Test, blocks func(), what string) {
	helper(t)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		blocks()
	}()
	Receive(t, done, what)
}

// Result calls a function that blocks, such as the Wait method of an exec.Cmd, and returns its
// result.
func Result[T any](t Test, blocks func() T, what string) T {
	helper(t)()
	result := make(chan T, 1)
	go func() { result <- blocks() }()
	return Receive(t, result, what)
}

// Until polls a condition until it holds. It is for what cannot be waited for: files, other
// processes, counters.
func Until(t Test, what string, holds func() bool) {
	helper(t)()
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
func fail(t Test, what string) {
	helper(t)()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.Fatalf("waited %v for: %s\n\n%s", Limit, what, stacks)
}
