package daemon_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/dbtest"
)

const proxied = `
upstreams: [{name: headless, kind: langserver, accept_terms_risk: true, binary: simulator, intercept: proxy, oauth: {client_id: me}}]
`

// canReplace asks whether a daemon with a configuration could take the place of the one in a
// directory.
func canReplace(t *testing.T, text, dir string) error {
	t.Helper()
	loaded, err := config.Load(daemontest.Sources(text, dir))
	if err != nil {
		t.Fatal(err)
	}
	return daemon.CanReplace(t.Context(), loaded.Config, false)
}

// The address of the intercepting proxy is free for the next daemon if the running one has it, and
// not if another program has.
func TestTheAddressOfTheProxyIsThatOfTheRunningDaemon(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	g := daemontest.StartIn(t, daemontest.Sources("interception: {listen: 127.0.0.1:0}\n"+proxied, dir), nil)
	status, err := daemon.Status(t.Context(), g.Config)
	if err != nil || len(status.Listeners) != 2 || "http://"+status.Listeners[0] != g.URL() {
		t.Fatalf("listeners %q of %s, %v", status.Listeners, g.URL(), err)
	}
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for _, address := range append(status.Listeners, "127.0.0.1:0") {
		if err := canReplace(t, "interception: {listen: '"+address+"'}\n"+proxied, dir); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	taken := "interception: {listen: '" + other.Addr().String() + "'}\n"
	if err := canReplace(t, taken+proxied, dir); err == nil || !strings.Contains(err.Error(), "change interception.listen") {
		t.Errorf("another program has the address: %v", err)
	}
	if err := canReplace(t, taken, dir); err != nil {
		t.Errorf("without a language server: %v", err)
	}
	g.Daemon.Stop(context.WithoutCancel(t.Context()))
	if err := canReplace(t, taken+proxied, dir); err != nil {
		t.Errorf("there is nothing to replace: %v", err)
	}
}

// A database without tables, or of this version, is one that the next daemon can use, and is left
// as it is.
func TestTheDatabaseOfTheNextDaemonIsNotChanged(t *testing.T) {
	t.Parallel()
	url := dbtest.Postgres(t)
	text := "store: {url: '" + url + "'}\n"
	dir := daemontest.DataDir(t)
	daemontest.StartIn(t, daemontest.Sources("", dir), nil)
	if err := canReplace(t, text, dir); err != nil {
		t.Errorf("without tables: %v", err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: perigee.NewSecret(url), ReadOnly: true})
	if err == nil {
		_ = store.Close()
	}
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound {
		t.Errorf("afterwards: %v", err)
	}
	daemontest.StartIn(t, daemontest.Sources(text, daemontest.DataDir(t)), nil)
	if err := canReplace(t, text, dir); err != nil {
		t.Errorf("with tables: %v", err)
	}
}
