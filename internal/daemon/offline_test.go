package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"perigee/internal/daemon/gateway"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A database that does not answer must not keep a start, or a reload, from being ended.
func TestBuildingEndsWithTheContext(t *testing.T) {
	cfg := &config.Config{Upstreams: []config.Upstream{{Name: "gravity", Kind: config.KindAntigravity}}}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	silent := func(ctx context.Context) (*sqlstore.Accounts, error) {
		close(asked)
		select {
		case <-ctx.Done():
		case <-t.Context().Done():
		}
		return nil, ctx.Err()
	}
	built := make(chan error, 1)
	go func() {
		options := Options{}.complete().forUpstreams(silent)
		options.Brief = true
		_, err := gateway.New(ctx, cfg, options)
		built <- err
	}()
	await.Receive(t, asked, "the store to be opened")
	cancel()
	if err := await.Receive(t, built, "the control"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOpenOnce(t *testing.T) {
	type thing struct{}
	calls := 0
	broken := errors.New("broken")
	get := openOnce(func(context.Context) (*thing, error) {
		if calls++; calls == 1 {
			return nil, broken
		}
		return &thing{}, nil
	})
	if _, err := get(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	first, err := get(t.Context())
	if err != nil {
		t.Fatal("what failed is not tried again:", err)
	}
	if second, err := get(t.Context()); second != first || err != nil || calls != 2 {
		t.Errorf("opened %d times, %v", calls, err)
	}
}

func TestWaitingForWhoOpensEndsWithTheContext(t *testing.T) {
	opening, done := make(chan struct{}), make(chan struct{})
	get := openOnce(func(ctx context.Context) (*int, error) {
		close(opening)
		select {
		case <-done:
		case <-ctx.Done():
		}
		return new(int), nil
	})
	go func() { _, _ = get(context.Background()) }()
	await.Receive(t, opening, "the first caller")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(done)
	if _, err := get(t.Context()); err != nil {
		t.Error(err)
	}
}

// Waiting for a daemon that holds the lock and has no socket ends with the context.
func TestReachingADaemonEndsWithTheContext(t *testing.T) {
	perigeetest.Slow(t)
	cfg := &config.Config{DataDir: t.TempDir()}
	lock, err := atomicfile.Lock(t.Context(), filepath.Join(cfg.DataDir, "perigee.lock"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Reach(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := Reach(t.Context(), cfg); !errors.Is(err, ErrNoSocket) {
		t.Errorf("got %v", err)
	}
	_ = lock.Close()
	if _, err := Reach(t.Context(), cfg); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}
