// Package datadir manages the data directory: the names of the files in it, their permissions, the
// lock of the running daemon, the socket for commands and the admin token.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// The names of files and directories in the data directory.
const (
	StoreName  = "perigee.db"
	SocketName = "perigee.sock" // where commands reach the daemon
	ImagesName = "images"
	TracesName = "traces"
	RunName    = "run"          // the leases of perigee run
	MarkName   = "started.json" // the sections of the configuration that was last in effect
	RunLogName = "run.log"      // of the daemon that perigee run starts; .1 is added to the previous log
	lockName   = "perigee.lock" // a running daemon holds it locked; its process id is in it
	stopName   = "stop.lock"    // held by the command that stops the daemon
	tokenName  = "admin.token"
)

// ourFiles are everything that perigee keeps in the directory.
var ourFiles = []string{
	StoreName, StoreName + "-wal", StoreName + "-shm", StoreName + "-journal", StoreName + ".lock",
	tokenName, lockName, stopName, SocketName, "seal.key", "seal.lock", ImagesName, TracesName, "ca", RunName, MarkName, RunLogName, RunLogName + ".1",
}

// ourDirs are directories with files that keep the modes set by the program that writes them.
var ourDirs = []string{"langserver", "connect"}

// Ours reports whether perigee keeps a file or directory of a name in the data directory.
func Ours(name string) bool {
	return slices.Contains(ourFiles, name) || slices.Contains(ourDirs, name) || strings.HasPrefix(name, StoreName+".before-")
}

// Unusable returns the error about a data directory that cannot be used.
func Unusable(err error) error {
	if errors.Is(err, syscall.ENOTDIR) { // which permissions do not change
		return fmt.Errorf("data_dir: %w; choose another one with data_dir or PERIGEE_DATA_DIR", err)
	}
	return fmt.Errorf("data_dir: %w; make it writable, or choose another one with data_dir or PERIGEE_DATA_DIR", err)
}

// Secure creates the directory with mode 0700, or removes the permissions of all other users from
// an existing one and from the files of perigee in it: a reader would see prompts, and a writer
// could place an admin token.
//
// An existing directory that also has other files loses only write permissions; that it is readable
// may be intended, and is logged.
func Secure(dir string, logger *slog.Logger) error {
	if err := secureDir(dir, logger); err != nil {
		return Unusable(err)
	}
	return nil
}

func secureDir(dir string, logger *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || runtime.GOOS == "windows" {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	open := info.Mode().Perm()&0o077 != 0
	if open {
		if err := restrictDir(dir, info, root, logger); err != nil {
			return err
		}
	}
	if info.Mode().Perm()&0o022 != 0 {
		if err := refuseForeignFiles(root); err != nil {
			return err
		}
	}
	for _, name := range ourFiles {
		restrict(root, name, open, logger)
	}
	return nil
}

// refuseForeignFiles returns an error for a file of perigee's names that another user may have
// placed in a writable directory: a link would redirect writes to its target, and the other user
// could read a key or a database in a file that belongs to them.
func refuseForeignFiles(root *os.Root) error {
	for _, name := range ourFiles {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 || !Owned(info) || isLinkedTwice(info) {
			return fmt.Errorf("%s is not a file of our own, in a directory that others could write to; remove it",
				filepath.Join(root.Name(), name))
		}
	}
	return nil
}

// restrictDir removes all permissions of other users from a directory, or logs why it does not.
func restrictDir(dir string, info fs.FileInfo, root *os.Root, logger *slog.Logger) error {
	// A sticky directory such as /tmp is meant for many users: they can add files and not change
	// ours, which are checked one by one.
	sticky := info.Mode()&os.ModeSticky != 0
	writable := info.Mode().Perm()&0o022 != 0
	if Owned(info) && !sticky && (writable || isPerigees(root)) {
		return os.Chmod(dir, 0o700)
	}
	if writable && !sticky {
		return fmt.Errorf("%s belongs to another user and is writable by others (mode %#o)", filepath.Clean(dir), info.Mode().Perm())
	}
	logger.Warn("other users can read data_dir", "data_dir", dir, "mode", fmt.Sprintf("%#o", info.Mode().Perm()),
		"next", "chmod 700 "+filepath.Clean(dir))
	return nil
}

// isPerigees reports whether a directory is empty or has a database of perigee.
func isPerigees(root *os.Root) bool {
	if _, err := root.Lstat(StoreName); err == nil {
		return true
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	return err == nil && len(entries) == 0
}

// restrict removes the permissions of other users from a file or a directory of ours. The files in
// a directory are checked when it, or the one that it is in, was accessible before.
func restrict(root *os.Root, name string, seen bool, logger *slog.Logger) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return // the target of a link is not ours to change
	}
	if info.Mode().Perm()&0o077 != 0 {
		seen = true
		if err = errors.ErrUnsupported; Owned(info) {
			err = root.Chmod(name, info.Mode().Perm()&0o700)
		}
		if err != nil {
			logger.Warn("other users can read a file in data_dir", "file", filepath.Join(root.Name(), name),
				"mode", fmt.Sprintf("%#o", info.Mode().Perm()),
				"next", "make it belong to who runs perigee, and type: chmod go= "+filepath.Join(root.Name(), name))
		}
	}
	if !info.IsDir() || !seen {
		return
	}
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	for _, entry := range entries {
		restrict(root, path.Join(name, entry.Name()), seen, logger)
	}
}
