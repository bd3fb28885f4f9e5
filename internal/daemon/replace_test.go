package daemon_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
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

// change runs statements on the SQLite file of a data directory, and returns the connection.
func change(t *testing.T, dir string, statements ...string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, datadir.StoreName)+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// A daemon is not replaced by one that its SQLite file excludes, with the error that the next daemon
// would have. A newer schema that allows this version is no reason.
func TestADaemonIsNotReplacedByOneThatTheSchemaExcludes(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	g := daemontest.StartIn(t, daemontest.Sources("", dir), nil)
	change(t, dir, "INSERT INTO schema_version (version, name, applied_us) VALUES (99, 'future', 0)")
	if err := canReplace(t, "", dir); err != nil {
		t.Errorf("a newer schema that allows this version: %v", err)
	}
	change(t, dir, "UPDATE schema_version SET compatible_with = 99 WHERE version = 99")
	if err := canReplace(t, "", dir); !errors.Is(err, sqlstore.ErrNewer) {
		t.Errorf("a schema that excludes this version: %v", err)
	}
	if _, err := daemon.Status(t.Context(), g.Config); err != nil {
		t.Errorf("the running daemon: %v", err)
	}
}

// A daemon that does not answer can be replaced although it has locked the SQLite file, or that file
// cannot be read: the next daemon reports what it finds.
//
// Real time: SQLite polls for the lock.
func TestAFileThatCannotBeReadDoesNotKeepTheDaemon(t *testing.T) {
	t.Parallel()
	perigeetest.Slow(t)
	dir := daemontest.DataDir(t)
	held, err := atomicfile.Lock(t.Context(), filepath.Join(dir, "perigee.lock"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	path := filepath.Join(dir, datadir.StoreName)
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	conn := change(t, dir, "INSERT INTO schema_version VALUES (99, 'future', 0, 99)", "PRAGMA locking_mode = exclusive", "BEGIN EXCLUSIVE")
	if err := canReplace(t, "", dir); err != nil {
		t.Errorf("while the file is locked: %v", err)
	}
	_ = conn.Close()
	if err := os.WriteFile(path, []byte("this is a text and no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := canReplace(t, "", dir); err != nil {
		t.Errorf("with a file that is no database: %v", err)
	}
}
