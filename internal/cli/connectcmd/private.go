package connectcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"perigee/internal/cli"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/server/connect"
	"perigee/internal/store/datadir"
)

const (
	privatePattern = "perigee-run-*"
	privateLock    = "perigee.lock"       // in the directory; the client and this process hold it
	lockTime       = 5 * time.Millisecond // for a lock that is held or not
	ownLockTime    = 10 * time.Second     // longer than another run holds the lock to test it
)

// A private is the directory with the files of a launch. dir is empty if there are none.
type private struct {
	env    *cli.Env
	launch *connect.Launch
	dir    string
	lock   *os.File
}

// newPrivate makes a new directory that only this user can read, with the files of a launch.
func newPrivate(ctx context.Context, env *cli.Env, launch *connect.Launch) (*private, error) {
	p := &private{env: env, launch: launch}
	if len(launch.Files) == 0 {
		return p, nil
	}
	var err error
	if p.dir, err = os.MkdirTemp("", privatePattern); err != nil {
		return nil, err
	}
	if p.lock, err = atomicfile.Lock(ctx, filepath.Join(p.dir, privateLock), ownLockTime); err == nil {
		err = launch.Prepare(p.dir)
	}
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("write settings for the client: %w", err)
	}
	return p, nil
}

// end returns the client's changes to the user, and removes the directory. It is called when the
// client has ended.
func (p *private) end() {
	if p.dir == "" {
		return
	}
	messages, err := p.launch.Return(p.dir)
	for _, message := range messages {
		p.env.Remark("%s", message)
	}
	if err != nil {
		p.env.Remark("not everything that the client has changed could be saved: %v; it is in %s", err, p.dir)
		return
	}
	p.discard()
}

func (p *private) discard() {
	_ = connect.Discard(p.dir)
	if p.lock != nil {
		_ = p.lock.Close()
		_ = os.RemoveAll(p.dir) // where a file that is open cannot be removed
	}
}

// returnEarlier returns the files of earlier runs of the client that were killed before they could
// do so, and reports whether there was one. Files that cannot be returned stay in their directory.
func returnEarlier(ctx context.Context, env *cli.Env, client string, launch *connect.Launch) (found bool) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), privatePattern)) // the pattern is valid
	for _, dir := range dirs {
		held := lockEarlier(ctx, dir)
		if held == nil {
			continue
		}
		messages, ok, err := launch.ReturnEarlier(dir)
		for _, message := range messages {
			env.Remark("%s", message)
		}
		switch {
		case !ok: // it is of another client
			_ = held.Close()
			continue
		case err != nil:
			env.Remark("an earlier run of %s was killed, and not everything that it has changed could be saved: %v; it is in %s", client, err, dir)
			_ = held.Close()
		default:
			(&private{dir: dir, lock: held}).discard()
		}
		found = true
	}
	return found
}

// lockEarlier locks a private directory of this user that no process uses; nil if dir is not one.
func lockEarlier(ctx context.Context, dir string) *os.File {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !datadir.Owned(info) || os.PathSeparator == '/' && info.Mode().Perm() != 0o700 {
		return nil
	}
	path := filepath.Join(dir, privateLock)
	if _, err := os.Lstat(path); err != nil { // it was removed, perhaps while a client is running
		return nil
	}
	held, err := atomicfile.Lock(ctx, path, lockTime)
	if err != nil {
		return nil
	}
	return held
}
