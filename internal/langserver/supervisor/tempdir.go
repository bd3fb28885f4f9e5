package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/procgroup"
)

// A tempDir is the temporary directory of one process. Its path in the environment marks all
// processes that the process starts. A lock next to it ends with perigee, so that the next start
// can find the directories that a killed perigee has left.
type tempDir struct {
	path string
	lock *os.File
	user *procgroup.User // owner of the directory and the process; nil for the user of perigee
}

const lockSuffix = ".lock"

func newTempDir(ctx context.Context, parent string) (*tempDir, error) {
	path, err := os.MkdirTemp(parent, "run-*")
	if err != nil {
		return nil, err
	}
	lock, err := atomicfile.Lock(ctx, path+lockSuffix, time.Second)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	return &tempDir{path: path, lock: lock}, nil
}

// remove deletes the directory.
func (d *tempDir) remove() {
	if d.user == nil {
		_ = os.RemoveAll(d.path)
	} else {
		_, _ = d.user.Run(context.Background(), nil, `rm -rf -- "$1"`, d.path)
	}
	_ = d.lock.Close()
	_ = os.Remove(d.lock.Name())
}

// removeAbandoned kills the processes of directories below parent that a killed perigee has left,
// and deletes the directories. If user is not nil, the directories belong to that user, and their
// locks are in locks.
func removeAbandoned(ctx context.Context, locks, parent string, user *procgroup.User) {
	paths, _ := filepath.Glob(filepath.Join(locks, "run-*"+lockSuffix))
	for _, path := range paths {
		lock, err := atomicfile.Lock(ctx, path, 0)
		if err != nil {
			continue // its owner is alive
		}
		name := strings.TrimSuffix(filepath.Base(path), lockSuffix)
		abandoned := tempDir{path: filepath.Join(parent, name), lock: lock, user: user}
		if !abandoned.killRest(nil) {
			killLeft(nil, abandoned.path)
		}
		abandoned.remove()
	}
}
