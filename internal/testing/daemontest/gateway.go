package daemontest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/perigeetest/await"
)

// A Gateway is a daemon under test.
type Gateway struct {
	*daemon.Daemon // nil means it runs in a process of its own
	Config         *config.Config
	Address        string
}

// URL is where it listens.
func (g *Gateway) URL() string { return g.Address }

// Sources give a configuration that is not on disk.
func Sources(text, dir string) config.Sources {
	return config.Sources{
		Path:     "config.yaml",
		Flags:    map[string]string{"listen": "127.0.0.1:0", "data_dir": dir},
		Env:      func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	}
}

// Launch starts a daemon under a configuration.
func Launch(ctx context.Context, src config.Sources, change func(*daemon.Options)) (*Gateway, error) {
	loaded, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	opts := daemon.Options{Loaded: loaded, Sources: src, Version: "test"}
	if change != nil {
		change(&opts)
	}
	d, err := daemon.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Gateway{d, loaded.Config, d.URL()}, nil
}

// Stop lets open calls finish and reads what was recorded.
func (g *Gateway) Stop(ctx context.Context) ([]perigee.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	g.Daemon.Stop(ctx)
	return Recorded(ctx, g.Config.DataDir)
}

// Ended stops it, if it is not stopped yet, and returns the only call that was recorded, which has
// ended in this way.
func (g *Gateway) Ended(t *testing.T, outcome perigee.Outcome) perigee.Call {
	t.Helper()
	calls, err := g.Stop(t.Context())
	if err != nil || len(calls) != 1 || calls[0].Outcome != outcome {
		t.Fatalf("recorded %+v (%v), want one that is %s", calls, err, outcome)
	}
	return calls[0]
}

// Recorded reads the calls in a data directory, the oldest first.
func Recorded(ctx context.Context, dir string) ([]perigee.Call, error) {
	store, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(dir, "perigee.db"), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	calls, err := store.Calls(ctx, perigee.CallQuery{Limit: 100_000})
	return calls, errors.Join(err, store.Close())
}

// Start starts a daemon for one test and stops it at its end.
func Start(t *testing.T, text string, change func(*daemon.Options)) *Gateway {
	t.Helper()
	return StartIn(t, Sources(text, DataDir(t)), change)
}

// DataDir is a data directory with an empty database.
func DataDir(t *testing.T) string {
	t.Helper()
	dir := EmptyDir(t)
	PutDatabase(t, dir)
	return dir
}

// EmptyDir is a directory with a short path, since sockets have little room for theirs.
func EmptyDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "perigee")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

// emptyDatabase is the file of a database that has no rows yet.
var emptyDatabase = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "perigee")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "perigee.db")
	store, err := sqlstore.Open(context.Background(), sqlstore.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// PutDatabase puts an empty database into a data directory. A daemon makes one itself, with a file
// system's wait for each migration, which hundreds of daemons in a test do not need.
func PutDatabase(t *testing.T, dir string) {
	t.Helper()
	file, err := emptyDatabase()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "perigee.db"), file, 0o600); err != nil {
		t.Fatal(err)
	}
}
