package daemon

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

	"perigee/internal/ownfile"
)

// listenSocket listens where only the owner can connect. A socket that a killed daemon left behind is
// replaced: the lock on the directory says that nobody else uses it.
func listenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// The directory is 0700 already; this is for a directory that somebody opened up.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// lockName is the file in data_dir that a running daemon holds locked; its process id is in it.
const lockName = "perigee.lock"

// lockPatience is how long the lock is waited for: who has just ended may still be giving it up, and a process that is being
// started elsewhere holds it for the moment until it becomes another program.
const lockPatience = 500 * time.Millisecond

// lockDir makes sure that one daemon at a time uses a data directory. The lock goes with the process,
// however it ends.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := ownfile.Lock(ctx, path, lockPatience)
	switch {
	case errors.Is(err, ownfile.ErrHeld):
		owner, _ := os.ReadFile(path)
		if pid := strings.TrimSpace(string(owner)); pid != "" {
			return nil, fmt.Errorf("another perigee (process %s) uses %s; stop it, or give this one another data_dir", pid, dir)
		}
		return nil, fmt.Errorf("another perigee uses %s; stop it, or give this one another data_dir", dir)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, noDataDir(err)
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}
