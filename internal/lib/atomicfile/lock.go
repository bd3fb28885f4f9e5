package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrHeld means that another process held the lock for the whole time to wait.
var ErrHeld = errors.New("another process holds the lock")

// pollTime is how often a lock is tried. The systems have no way of waiting for one that can be
// given up.
const pollTime = 20 * time.Millisecond

// Lock locks a file, which is made if it is missing, for this process alone. Closing the file gives
// the lock up, and so does the end of the process, however it ends. While another process has the
// lock it waits: until ctx ends, which is ctx's error, or until patience is over, which is ErrHeld.
// A link in its place is an error: it may lead to any file.
func Lock(ctx context.Context, path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := LockFile(ctx, f, patience); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// LockFile is Lock for a file that is open, which may be a directory. An error other than ErrHeld
// and ctx's means that the file cannot be locked. The file stays open in any case.
func LockFile(ctx context.Context, f *os.File, patience time.Duration) error {
	over := time.NewTimer(patience)
	defer over.Stop()
	again := time.NewTicker(pollTime)
	defer again.Stop()
	for {
		err := tryLock(f)
		switch {
		case err == nil:
			return nil
		case !isHeld(err):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return fmt.Errorf("%w: %s", ErrHeld, f.Name())
		case <-again.C:
		}
	}
}
