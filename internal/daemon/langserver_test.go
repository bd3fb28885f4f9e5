package daemon_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
)

// A langserverStub is an upstream whose language server has failed.
type langserverStub struct{}

func (langserverStub) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		yield(perigee.Event{}, perigee.Errorf(perigee.ClassUnavailable, "it failed"))
	}
}

func (langserverStub) Status() supervisor.Status {
	return supervisor.Status{State: supervisor.Failed, PID: 7, HTTPPort: 8, HTTPSPort: 9, Version: "1.2.3", Profile: "classic",
		Account: "ada@example.com", Restarts: 3, Since: time.Date(2026, 3, 14, 12, 0, 0, 1, time.FixedZone("", 3600)),
		LastExit: "exit status 1", Memory: 1 << 20}
}

// The state of language servers is in GET /health, which stays 200, and whole for the owner.
func TestLangserversAreListed(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "perigee") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "config.yaml")
	text := "listen: 127.0.0.1:0\ndata_dir: " + dir + "/data\nupstreams:\n  - {name: studio, kind: gemini, keys: [any-key-will-do]}\n" +
		"  - {name: headless, kind: langserver, accept_terms_risk: true, oauth: {client_id: me}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	src := config.Sources{Path: path, Env: func(string) (string, bool) { return "", false }}
	g := daemontest.StartIn(t, src, func(o *daemon.Options) {
		o.BuildWith(config.KindLangserver, func(config.Upstream) perigee.Upstream { return langserverStub{} })
	})
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := daemon.Langservers(t.Context(), loaded.Config)
	want := []perigee.LangserverRow{{Upstream: "headless", State: "failed", PID: 7, HTTPPort: 8, HTTPSPort: 9, Version: "1.2.3",
		Profile: "classic", Account: "ada@example.com", Restarts: 3, Since: time.Date(2026, 3, 14, 11, 0, 0, 0, time.UTC),
		LastExit: "exit status 1", Memory: 1 << 20}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("got %+v, %v", rows, err)
	}
	resp, err := http.Get(g.URL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if got := string(body); err != nil || resp.StatusCode != http.StatusOK ||
		got != `{"status":"ok","langserver":[{"upstream":"headless","state":"failed"}]}` {
		t.Errorf("%d %s, %v", resp.StatusCode, body, err)
	}
	// The list has names of accounts, so it is for the owner only.
	if resp, err := http.Get(g.URL() + "/v1/langserver"); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	g.Daemon.Stop(t.Context())
	if _, err := daemon.Langservers(t.Context(), loaded.Config); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("after its end: %v", err)
	}
}
