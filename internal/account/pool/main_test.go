package pool

import (
	"os"
	"testing"
	"time"
)

// TestMain makes the tests independent of the time zone: messages have local times.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
