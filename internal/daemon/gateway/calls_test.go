package gateway

import (
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// Calls may begin and end while an upstream waits for its last one.
func TestCallsBeginWhileTheLastIsWaitedFor(t *testing.T) {
	var calls openCalls
	closed := func(over <-chan struct{}) bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	if !closed(calls.none()) {
		t.Error("none is open")
	}
	calls.begin()
	calls.begin()
	first, second := calls.none(), calls.none()
	calls.end()
	if closed(first) || closed(second) {
		t.Error("one is open")
	}
	calls.end()
	if !closed(first) || !closed(second) {
		t.Error("the last one has ended")
	}
	calls.begin()
	if !closed(first) || closed(calls.none()) {
		t.Error("a call that begins later is another wait's")
	}
	calls.end()

	var together sync.WaitGroup
	for range 100 {
		together.Go(func() {
			for range 100 {
				calls.begin()
				calls.end()
			}
		})
		together.Go(func() { await.Receive(t, calls.none(), "the end of the calls") })
	}
	await.Return(t, together.Wait, "all calls")
	if !closed(calls.none()) {
		t.Error("all calls have ended")
	}
}
