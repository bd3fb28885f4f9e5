package daemon_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest"
	"perigee/internal/perigeetest/await"
	"perigee/internal/sqlstore"
)

// A gateway is a daemon under test.
type gateway struct {
	*daemon.Daemon
	cfg     *config.Config
	address string
}

// URL is where it listens.
func (g *gateway) URL() string { return g.address }

// sources give a configuration that is not on disk.
func sources(text, dir string) config.Sources {
	return config.Sources{
		Path:     "config.yaml",
		Flags:    map[string]string{"listen": "127.0.0.1:0", "data_dir": dir},
		Env:      func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	}
}

// launch starts a daemon under a configuration.
func launch(ctx context.Context, src config.Sources, change func(*daemon.Options)) (*gateway, error) {
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
	return &gateway{d, loaded.Config, d.URL()}, nil
}

// Stop lets open calls finish and reads what was recorded.
func (g *gateway) Stop(ctx context.Context) ([]perigee.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	g.Daemon.Stop(ctx)
	return recorded(ctx, g.cfg.DataDir)
}

// ended stops it, if it is not stopped yet, and returns the only call that was recorded, which has ended in this way.
func (g *gateway) ended(t *testing.T, outcome perigee.Outcome) perigee.Call {
	t.Helper()
	calls, err := g.Stop(t.Context())
	if err != nil || len(calls) != 1 || calls[0].Outcome != outcome {
		t.Fatalf("recorded %+v (%v), want one that is %s", calls, err, outcome)
	}
	return calls[0]
}

// recorded reads the calls in a data directory, the oldest first.
func recorded(ctx context.Context, dir string) ([]perigee.Call, error) {
	store, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(dir, "perigee.db"), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	calls, err := store.Calls(ctx, perigee.CallQuery{Limit: 100_000})
	return calls, errors.Join(err, store.Close())
}

// start starts a daemon for one test and stops it at its end.
func start(t *testing.T, text string, change func(*daemon.Options)) *gateway {
	t.Helper()
	return startIn(t, sources(text, dataDir(t)), change)
}

// dataDir is a directory with a short path, since sockets have little room for theirs.
func dataDir(t *testing.T) string {
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

// counting is randomness that is none: the last byte of each reading is one more than that of the one before.
type counting struct{ n atomic.Uint32 }

func (c *counting) Read(p []byte) (int, error) {
	clear(p)
	p[len(p)-1] = byte(c.n.Add(1))
	return len(p), nil
}

func TestTranscripts(t *testing.T) {
	runner := perigeetest.Runner{
		Update: *update,
		Start: func(ctx context.Context, setup perigeetest.Setup) (perigeetest.Gateway, error) {
			if strings.Contains(setup.Config, "{{sign-in}}") {
				signIn(t, setup.Dir, signedIn("ada@example.com", "ada-project", "refresh-of-ada"))
				setup.Config = strings.ReplaceAll(setup.Config, "{{sign-in}}", signInServer(t))
			}
			return launch(ctx, sources(setup.Config, setup.Dir), func(o *daemon.Options) {
				o.Now, o.NewID = setup.Clock.Now, setup.IDs.New
				o.Logger = slog.New(slog.DiscardHandler)
				o.Random = &counting{}
			})
		},
	}
	runner.Run(t, "testdata/*/*.txtar")
}
