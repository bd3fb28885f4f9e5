package perigeetest

import "testing"

// Slow skips a test that takes seconds when go test runs with -short, as make test does.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
}

// Unraced skips a test of memory under the race detector. make unraced runs the packages that
// have such tests without the detector.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("the race detector has memory of its own")
	}
}
