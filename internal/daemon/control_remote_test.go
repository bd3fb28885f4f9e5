package daemon

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"perigee"
	"perigee/internal/config"
)

// hungDaemon is a remote to something that takes connections, and answers only what it is told to.
func hungDaemon(t *testing.T, answers ...string) remote {
	t.Helper()
	dir, err := os.MkdirTemp("", "perigee") // t.TempDir has the test's name in it, and the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := &config.Config{DataDir: dir}
	l, err := net.Listen("unix", SocketPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	mux := http.NewServeMux()
	for _, path := range answers {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { close(over); _ = server.Close() })
	r := newRemote(cfg)
	r.limits = remoteLimits{alive: 50 * time.Millisecond, quota: 100 * time.Millisecond, lookup: time.Hour}
	return r
}

// Whatever is asked of a daemon that hangs, it is given up soon: also what may take long once it has begun.
func TestNobodyWaitsForADaemonThatHangs(t *testing.T) {
	t.Parallel()
	r := hungDaemon(t)
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"accounts": func() error { _, err := r.Accounts(ctx); return err },
		"import": func() error {
			_, err := r.ImportAccounts(ctx, perigee.AccountImport{Document: []byte("[]")})
			return err
		},
		"enable":  func() error { _, err := r.EnableAccount(ctx, perigee.AccountName{}, true); return err },
		"remove":  func() error { return r.RemoveAccount(ctx, perigee.AccountName{}) },
		"use":     func() error { return r.UseAccount(ctx, perigee.AccountName{}) },
		"explain": func() error { _, err := r.ExplainAccounts(ctx, "m"); return err },
		"quota":   func() error { _, err := r.Quota(ctx); return err },
		"usage":   func() error { return r.ask(ctx, http.MethodGet, usagePath+"?by=day", nil, nil) },
		"traces":  func() error { return r.ask(ctx, http.MethodGet, "/v1/traces?limit=20", nil, nil) },
	} {
		if err := ask(); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// One that is alive, and whose provider is not, gets its time and no more.
	if _, err := hungDaemon(t, healthPath).Quota(ctx); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestHowLongADaemonMayTake(t *testing.T) {
	t.Parallel()
	r := newRemote(&config.Config{DataDir: t.TempDir()})
	for request, want := range map[[2]string]time.Duration{
		{http.MethodGet, accountsPath}:                           10 * time.Second,
		{http.MethodPost, accountsPath + "/use"}:                 10 * time.Second,
		{http.MethodPost, accountsPath + "?upstream="}:           2 * time.Minute,
		{http.MethodGet, quotaPath + "?problems=true"}:           30 * time.Second,
		{http.MethodGet, usagePath + "?by=model"}:                2 * time.Minute,
		{http.MethodGet, "/v1/traces/01ktqe5x1v6n0q3hw8zd"}:      10 * time.Second,
		{http.MethodGet, accountsPath + "/status?model=a-model"}: 10 * time.Second,
	} {
		if got := r.limits.of(request[0], request[1]); got != want {
			t.Errorf("%v may take %v, want %v", request, got, want)
		}
	}
}
