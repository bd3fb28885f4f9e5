package lease_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/connect/lease"
)

func TestALeaseLastsUntilItIsGiven(t *testing.T) {
	d := lease.Dir(filepath.Join(t.TempDir(), "run"))
	held := func() bool {
		t.Helper()
		done, err := d.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		held, err := d.Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	if held() {
		t.Error("a lease without a process")
	}
	first, err := d.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first()
	if !held() {
		t.Error("the second lease has gone with the first")
	}
	second()
	if held() {
		t.Error("a lease that was given is held")
	}
}

func TestALeaseOfAKilledProcessIsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "left.lease")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := lease.Dir(dir).Held(t.Context())
	if err != nil || held {
		t.Errorf("got %v, %v", held, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestATurnIsForOne(t *testing.T) {
	d := lease.Dir(t.TempDir())
	done, err := d.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Turn(ctx); err == nil {
		t.Error("two have a turn")
	}
	done()
	again, err := d.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}
