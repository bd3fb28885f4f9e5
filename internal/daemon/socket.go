package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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

// lockSoon locks a file, and tries again for a while: who has just ended may still be giving it up, and a process that is
// being started elsewhere holds it for the moment until it becomes another program.
func lockSoon(f *os.File) (err error) {
	for range 20 {
		if err = lockFile(f); err == nil {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return err
}

// lockDir makes sure that one daemon at a time uses a data directory. The lock goes with the process,
// however it ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "perigee.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, noDataDir(err)
	}
	if err := lockSoon(f); err != nil {
		owner := make([]byte, 32)
		n, _ := f.ReadAt(owner, 0)
		_ = f.Close()
		if pid := strings.TrimSpace(string(owner[:n])); pid != "" {
			return nil, fmt.Errorf("another perigee (process %s) uses %s; stop it, or give this one another data_dir", pid, dir)
		}
		return nil, fmt.Errorf("another perigee uses %s (%w); stop it, or give this one another data_dir", dir, err)
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}
