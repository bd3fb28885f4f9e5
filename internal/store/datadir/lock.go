package datadir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
)

// ListenSocket listens on a Unix socket that only the owner can connect to. The socket of a daemon
// that was killed is replaced: the lock on the directory proves that no other daemon uses it.
func ListenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// The directory is 0700 already; this is for a directory with other permissions.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// lockPatience is how long the lock is waited for: a daemon that has just ended may still be
// releasing it, and a process between fork and exec holds it for a moment.
const lockPatience = 500 * time.Millisecond

// Lock makes sure that one daemon at a time uses a data directory. The lock ends with the process,
// however that ends.
func Lock(ctx context.Context, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := atomicfile.Lock(ctx, path, lockPatience)
	switch {
	case errors.Is(err, atomicfile.ErrHeld):
		owner, _ := os.ReadFile(path)
		if pid := strings.TrimSpace(string(owner)); pid != "" {
			return nil, fmt.Errorf("another perigee (process %s) uses %s; stop it with perigee stop, or give this one another data_dir", pid, dir)
		}
		return nil, fmt.Errorf("another perigee uses %s; stop it with perigee stop, or give this one another data_dir", dir)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, Unusable(err)
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}

// LockStop ensures that one command at a time stops the daemon that uses a data directory. While
// another command does, it waits, at most for patience. The lock ends with unlock or with the
// process. If the lock cannot be created, on a full disk for instance, there is no error, since the
// daemon has to be stopped all the same.
func LockStop(ctx context.Context, dir string, patience time.Duration) (unlock func(), err error) {
	f, err := atomicfile.Lock(ctx, filepath.Join(dir, stopName), patience)
	switch {
	case errors.Is(err, atomicfile.ErrHeld):
		return nil, fmt.Errorf("another command is stopping the daemon that uses %s, and is not done after %v; end that command and try again", dir, patience)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return func() {}, nil
	}
	return func() { _ = f.Close() }, nil
}

// LockPath returns the file that a running daemon holds locked.
func LockPath(dir string) string { return filepath.Join(dir, lockName) }

// Holder returns the process ID of the daemon that used a data directory last, 0 if it is unknown.
// The process may have ended.
func Holder(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, lockName))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// Locked reports whether a daemon uses a data directory, after waiting a moment for the lock. A
// daemon that starts at the same time waits as well. The error is ctx.Err().
func Locked(ctx context.Context, dir string) (bool, error) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); err != nil {
		return false, ctx.Err() // no daemon has run there, and the question creates no file
	}
	f, err := atomicfile.Lock(ctx, path, lockPatience)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, atomicfile.ErrHeld), ctx.Err()
}
