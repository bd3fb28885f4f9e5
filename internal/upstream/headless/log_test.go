package headless

import (
	"log/slog"
	"testing"
)

// testLogger writes to the log of a test.
func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
