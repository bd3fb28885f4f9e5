package atomicfile_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/testing/perigeetest/await"
)

// alone checks that a directory holds one file, for the owner only, with this content.
func alone(t *testing.T, path, content string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Fatalf("there is %v, %v; want only %s", entries, err, filepath.Base(path))
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if got, err := os.ReadFile(path); string(got) != content || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, content)
	}
}

func TestWriteReplacesWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	alone(t, path, "one")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("two")); err != nil {
		t.Fatal(err)
	}
	alone(t, path, "two")
}

// The check comes when the new content is on disk under another name, and the old one is still
// there.
func TestReplaceIfChecksLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	for _, want := range []error{refused, nil} {
		err := atomicfile.ReplaceIf(path, []byte("two"), 0o600, func() error {
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(entries) != 2 {
				t.Errorf("there is %v, %v", entries, err)
			}
			if got, err := os.ReadFile(path); string(got) != "one" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if want != nil {
			alone(t, path, "one")
		}
	}
	alone(t, path, "two")
}

func TestCreateReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Create(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	alone(t, path, "one")
}

func TestWriteLeavesOtherThingsAlone(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{link, dir} {
		if err := atomicfile.Write(path, []byte("x")); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if err := atomicfile.Create(link, []byte("x")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := atomicfile.Write(filepath.Join(dir, "nowhere", "file"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, strings.Repeat("long", 100)), nil); err == nil {
		t.Error("no error for a name that is too long")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("there is %v", entries)
	}
}

func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := atomicfile.Lock(t.Context(), path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.Lock(t.Context(), path, time.Millisecond); !errors.Is(err, atomicfile.ErrHeld) {
		t.Errorf("got %v", err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := atomicfile.Lock(t.Context(), path, time.Minute)
		if err == nil {
			err = second.Close()
		}
		got <- err
	}()
	_ = held.Close()
	if err := await.Receive(t, got, "the lock"); err != nil {
		t.Error(err)
	}
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := atomicfile.Lock(t.Context(), path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := atomicfile.Lock(ctx, path, time.Hour)
		got <- err
	}()
	cancel()
	if err := await.Receive(t, got, "the lock"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhatCannotBeLockedIsNotHeld(t *testing.T) {
	if _, err := atomicfile.Lock(t.Context(), t.TempDir(), time.Hour); err == nil || errors.Is(err, atomicfile.ErrHeld) {
		t.Errorf("got %v", err)
	}
}
