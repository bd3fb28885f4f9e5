package daemon_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest/await"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/sqlstore"
	"perigee/internal/vault"
)

// serve puts a provider behind an address of its own, as long as the test runs.
func serve(t *testing.T, provider http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(provider)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// newSimulator is the provider's stand-in for one test.
func newSimulator(t *testing.T, opts simulator.Options, faults ...simulator.Fault) *simulator.Server {
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

// startSimulator puts one behind an address of its own.
func startSimulator(t *testing.T, opts simulator.Options, faults ...simulator.Fault) (provider *simulator.Server, url string) {
	t.Helper()
	provider = newSimulator(t, opts, faults...)
	return provider, serve(t, provider)
}

// startIn starts a daemon on what is there already, and stops it at the end of the test.
func startIn(t *testing.T, src config.Sources, change func(*daemon.Options)) *gateway {
	t.Helper()
	g, err := launch(t.Context(), src, change)
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

// stopping stops a daemon in the background. The channel is closed when it has.
func stopping(ctx context.Context, g *gateway) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(ctx, await.Limit)
		defer cancel()
		g.Daemon.Stop(ctx)
	}()
	return stopped
}

// signIn puts accounts where the daemon keeps its own.
func signIn(t *testing.T, dir string, list ...perigee.SignIn) {
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

// signedIn is an account of the upstream gravity. Without a project its own is looked up.
func signedIn(email, project, refresh string) perigee.SignIn {
	return perigee.SignIn{
		Account: perigee.Account{Email: email, Upstream: "gravity", Enabled: true, ProjectID: project},
		Refresh: perigee.NewSecret(refresh),
	}
}

// A logRig is a log that several goroutines write and the test reads meanwhile.
type logRig struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *logRig) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *logRig) bytes() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.text.Bytes())
}

func (n *logRig) String() string { return string(n.bytes()) }
