package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
)

// hungDaemon is a remote to something that takes connections, and answers only what it is told to.
func hungDaemon(t *testing.T, answers ...string) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "perigee") // t.TempDir has the test's name in it, and the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "perigee.sock")
	l, err := net.Listen("unix", socket)
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
	r := New(socket)
	r.limits = limits{alive: 50 * time.Millisecond, quota: 100 * time.Millisecond, lookup: time.Hour}
	return r
}

func get(ctx context.Context, r *Client, path string) error {
	_, err := Ask[nothing](ctx, r, http.MethodGet, path, nil)
	return err
}

// Whatever is asked of a daemon that hangs, it is given up soon: also what may take long once it
// has begun.
func TestDaemonThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	r := hungDaemon(t)
	ctx := t.Context()
	for name, try := range map[string]func() error{
		"accounts": func() error { _, err := r.Accounts(ctx); return err },
		"import": func() error {
			_, err := r.ImportAccounts(ctx, perigee.AccountImport{Document: []byte("[]")})
			return err
		},
		"enable":  func() error { _, err := r.EnableAccount(ctx, perigee.AccountName{}, true); return err },
		"remove":  func() error { return r.RemoveAccount(ctx, perigee.AccountName{}) },
		"use":     func() error { return r.UseAccount(ctx, perigee.AccountName{}) },
		"explain": func() error { _, err := r.ExplainAccounts(ctx, "m"); return err },
		"quota":   func() error { _, err := r.Quota(ctx, true); return err },
		"usage":   func() error { return get(ctx, r, usagePath+"?by=day") },
		"traces":  func() error { return get(ctx, r, "/v1/traces?limit=20") },
	} {
		if err := try(); !errors.Is(err, ErrNoAnswer) || !strings.HasSuffix(err.Error(), "(no answer within 50ms)") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// One that is alive, and whose provider is not, gets its time and no more.
	if _, err := hungDaemon(t, healthPath).Quota(ctx, true); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestHowLongADaemonMayTake(t *testing.T) {
	t.Parallel()
	r := New("")
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

// An answer that is read as it comes has no limit of time, and begins only if the daemon is alive.
func TestAnswersThatAreReadAsTheyCome(t *testing.T) {
	t.Parallel()
	if _, err := hungDaemon(t).Open(t.Context(), http.MethodPost, "/v1/replay/last"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a daemon that hangs: %v", err)
	}
	answers := hungDaemon(t, healthPath, "/v1/live")
	answers.limits.alive = time.Minute
	resp, err := answers.Open(t.Context(), http.MethodGet, "/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	resp.StatusCode, resp.Header = http.StatusNotFound, http.Header{"X-Perigee-Class": {"not_found"}}
	resp.Body = io.NopCloser(strings.NewReader(`{"error":{"message":"there is no call"}}`))
	if e := perigee.AsError(Refusal(resp)); e.Class != perigee.ClassNotFound || e.Message != "there is no call" {
		t.Errorf("got %v", e)
	}
}
