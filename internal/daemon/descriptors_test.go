package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"perigee/internal/config"
)

func TestTooFewDescriptorsAreSaidAtTheStart(t *testing.T) {
	for _, test := range []struct {
		connections int
		available   uint64
		warns       bool
	}{{4096, 1024, true}, {4096, 4096, true}, {4096, 4096 + spareDescriptors, false}, {4096, 0, false}, {0, 1024, false}} {
		var log strings.Builder
		d := &Daemon{opts: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		d.warnDescriptors(&config.Config{Limits: config.Limits{Connections: test.connections}}, test.available)
		if got := strings.Contains(log.String(), "too few file descriptors"); got != test.warns {
			t.Errorf("%+v: %q", test, log.String())
		}
	}
}
