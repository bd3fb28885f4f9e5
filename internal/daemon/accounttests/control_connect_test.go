package accounttests

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
)

// pretender is something that listens where a daemon would.
func pretender(t *testing.T, handler http.HandlerFunc) *config.Config {
	t.Helper()
	cfg := &config.Config{DataDir: daemontest.DataDir(t)}
	l, err := net.Listen("unix", daemon.SocketPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return cfg
}

// What a daemon says, or does not say, is told apart: scripts go by it.
func TestAnswersOfADaemon(t *testing.T) {
	t.Parallel()
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	halfway := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("[{"))
	}
	for name, handler := range map[string]http.HandlerFunc{"hangs up": hangUp, "breaks off": halfway} {
		cfg := pretender(t, handler)
		if _, err := daemon.Ask[struct{}](t.Context(), cfg, "/v1/usage"); !errors.Is(err, daemon.ErrNoAnswer) {
			t.Errorf("%s: got %v", name, err)
		}
		handle, err := daemon.Connect(t.Context(), daemon.Options{Loaded: &config.Loaded{Config: cfg}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := handle.Accounts(t.Context()); !errors.Is(err, daemon.ErrNoAnswer) {
			t.Errorf("%s: got %v", name, err)
		}
		handle.Close()
	}
	cfg := pretender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Perigee-Class", "exhausted")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"message":"it is used up"}}`))
	})
	if _, err := daemon.Ask[struct{}](t.Context(), cfg, "/v1/usage"); class(err) != perigee.ClassExhausted || err.Error() != "it is used up" {
		t.Errorf("got %v", err)
	}
	cfg = pretender(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "what?", http.StatusNotFound) })
	if _, err := daemon.Ask[struct{}](t.Context(), cfg, "/v1/usage"); class(err) != perigee.ClassInternal || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
	if _, err := daemon.Ask[struct{}](t.Context(), &config.Config{DataDir: t.TempDir()}, "/v1/usage"); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}

// A command that stops waiting does not blame the daemon.
func TestAskingIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := pretender(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := daemon.Ask[struct{}](ctx, cfg, "/v1/usage"); !errors.Is(err, context.Canceled) || errors.Is(err, daemon.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}
