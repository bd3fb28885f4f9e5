package daemon_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
)

// A daemon tells its owner which variables it has its secrets from, and never a secret.
func TestStatusNamesVariables(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "perigee") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "config.yaml")
	text := "listen: 127.0.0.1:0\nlimits: {drain: 5m, shutdown_delay: 1500ms}\ndata_dir: " + dir + "/data\nkeys: [{name: laptop, secret: env:CLIENT}]\nupstreams: [{name: studio, kind: gemini, keys: [env:STUDIO, a-literal-secret]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"CLIENT": "the-secret-of-a-client", "STUDIO": "the-secret-of-studio"}[name]
		return value, ok
	}
	g := daemontest.StartIn(t, config.Sources{Path: path, Env: env}, nil)
	loaded, err := config.Load(config.Sources{Path: path, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	status, err := daemon.Status(t.Context(), loaded.Config)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(status.Variables, []string{"CLIENT", "STUDIO"}) || !slices.Equal(status.Upstreams, []string{"studio (gemini, 2 keys)"}) ||
		status.Listen != g.URL() || status.Configuration != path {
		t.Errorf("status %+v", status)
	}
	if status.StopTime() != 5*time.Minute+1500*time.Millisecond {
		t.Errorf("it says that it stops within %v", status.StopTime())
	}
	if raw, err := json.Marshal(status); err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("%v: %s", err, raw)
	}
	g.Daemon.Stop(t.Context())
	if _, err := daemon.Status(t.Context(), loaded.Config); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("after its end: %v", err)
	}
}
