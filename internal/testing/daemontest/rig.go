package daemontest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
	"perigee/internal/testing/perigeetest/await"
)

// Serve puts a provider behind an address of its own, as long as the test runs.
func Serve(t *testing.T, provider http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(provider)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// NewSimulator returns a simulated provider for one test.
func NewSimulator(t *testing.T, opts simulator.Options, faults ...simulator.Fault) *simulator.Server {
	t.Helper()
	if opts.Seed == "" {
		opts.Seed = t.Name()
	}
	if opts.Switches == (rules.Switches{}) {
		opts.Switches = rules.StrictSwitches()
	}
	provider, err := simulator.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	if err := provider.AddFaults(faults...); err != nil {
		t.Fatal(err)
	}
	return provider
}

// StartSimulator puts one behind an address of its own.
func StartSimulator(t *testing.T, opts simulator.Options, faults ...simulator.Fault) (provider *simulator.Server, url string) {
	t.Helper()
	provider = NewSimulator(t, opts, faults...)
	return provider, Serve(t, provider)
}

// StartIn starts a daemon on what is there already, and stops it at the end of the test.
func StartIn(t *testing.T, src config.Sources, change func(*daemon.Options)) *Gateway {
	t.Helper()
	g, err := Launch(t.Context(), src, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
		defer cancel()
		g.Daemon.Stop(ctx) // again, where the test did it: that must do no harm
	})
	return g
}

// Stopping stops a daemon in the background. The channel is closed when it has.
func Stopping(ctx context.Context, g *Gateway) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(ctx, await.Limit)
		defer cancel()
		g.Daemon.Stop(ctx)
	}()
	return stopped
}

// SignIn puts accounts where the daemon keeps its own.
func SignIn(t *testing.T, dir string, list ...perigee.SignIn) {
	t.Helper()
	key, err := vault.Open(t.Context(), vault.Options{Dir: dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "perigee.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Accounts(key).AddSignIns(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// SignedIn is an account of the upstream gravity. Without a project its own is looked up.
func SignedIn(email, project, refresh string) perigee.SignIn {
	return perigee.SignIn{
		Account: perigee.Account{Email: email, Upstream: "gravity", Enabled: true, ProjectID: project},
		Refresh: perigee.NewSecret(refresh),
	}
}

// A Log is a log that several goroutines write and the test reads meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (n *Log) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

// Bytes is a copy of what was written.
func (n *Log) Bytes() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.text.Bytes())
}

func (n *Log) String() string { return string(n.Bytes()) }
