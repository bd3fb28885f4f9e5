package probe

import (
	"testing"
	"time"
)

// SetTimeout changes the limit of a run for a test.
func SetTimeout(t *testing.T, d time.Duration) {
	old := timeout
	timeout = d
	t.Cleanup(func() { timeout = old })
}
