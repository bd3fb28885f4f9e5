package perigeetest

import "testing"

// Slow skips a test that takes seconds when go test runs with -short, as make test does.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
}

// Unraced skips a test under the race detector: one of memory, which would measure the detector, or
// one that reads all of the source in one goroutine, which would take minutes. make unraced runs the
// packages that have such tests without the detector.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("runs without the race detector")
	}
}
