package connlimit

import (
	"log/slog"
	"strings"
	"testing"
)

func TestTooFewDescriptorsAreSaidAtTheStart(t *testing.T) {
	for _, test := range []struct {
		connections int
		available   uint64
		warns       bool
	}{{4096, 1024, true}, {4096, 4096, true}, {4096, 4096 + spareDescriptors, false}, {4096, 0, false}, {0, 1024, false}} {
		var log strings.Builder
		warnOf(slog.New(slog.NewTextHandler(&log, nil)), test.connections, test.available)
		if got := strings.Contains(log.String(), "too few file descriptors"); got != test.warns {
			t.Errorf("%+v: %q", test, log.String())
		}
	}
}
