package perigeetest

import "testing"

// Slow skips a test that takes seconds when go test runs with -short, as make test does.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
}
