package connectcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
)

// A leaseDir is the directory of the leases.
type leaseDir string

const (
	turnName = "lock"
	suffix   = ".lease"
	turnTime = time.Minute // for another process to start or end the shared daemon
)

// Turn waits until no other process starts or ends the shared daemon. The caller may then do so
// until it calls done.
func (d leaseDir) Turn(ctx context.Context) (done func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	held, err := atomicfile.Lock(ctx, filepath.Join(string(d), turnName), turnTime)
	if err != nil {
		return nil, err
	}
	return func() { _ = held.Close() }, nil
}

// A lease lasts until it is given up, or until no process has its file open: the one that has taken
// it, and those that it has handed the file to.
type lease struct {
	// File is locked. A child process that inherits it holds the lease as well, also if this
	// process is killed.
	File *os.File
}

// Take takes a lease.
func (d leaseDir) Take(ctx context.Context) (*lease, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	for {
		f, err := os.CreateTemp(string(d), "*"+suffix)
		if err != nil {
			return nil, err
		}
		path := f.Name()
		_ = f.Close()
		held, err := atomicfile.Lock(ctx, path, time.Second)
		if err != nil {
			_ = os.Remove(path)
			return nil, err
		}
		if isAt(held, path) {
			return &lease{File: held}, nil
		}
		_ = held.Close() // InUse has removed the file before it was locked
	}
}

// isAt reports whether an open file is the one at a path.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}

// Give gives the lease up, for every process that has the file.
func (l *lease) Give() { remove(l.File) }

// remove removes a locked file before the lock is given up, so that no process locks it in between.
// Where a file that is open cannot be removed, another process that has opened it keeps it.
func remove(f *os.File) {
	err := os.Remove(f.Name())
	_ = f.Close()
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// InUse reports whether a process holds a lease. Files of processes that were killed are removed.
// It is called in a Turn.
func (d leaseDir) InUse(ctx context.Context) (bool, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return false, err
	}
	held := false
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		path := filepath.Join(string(d), entry.Name())
		free, err := atomicfile.Lock(ctx, path, lockTime)
		if errors.Is(err, atomicfile.ErrHeld) {
			held = true
			continue
		}
		if err != nil {
			return false, err
		}
		remove(free)
	}
	return held, nil
}
