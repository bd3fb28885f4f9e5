package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// ourFiles are what perigee keeps in its directory. Whatever else is there is somebody else's.
var ourFiles = []string{
	storeName, storeName + "-wal", storeName + "-shm", storeName + "-journal",
	adminTokenName, lockName, "perigee.sock", "seal.key", "seal.lock", "images", "traces", "ca",
}

// ownDir makes a directory for the owner alone, or takes back what others were allowed in one that is there, and in what
// perigee keeps in it: who can read it sees what was said, and who can write to it can put an admin token there.
//
// A directory that is there for other things, too, is taken back only from those who could write to it; that others see
// what it holds may be meant, and is said in the log.
func ownDir(dir string, logger *slog.Logger) error {
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
		if err := closeDir(dir, info, root, logger); err != nil {
			return err
		}
	}
	if info.Mode().Perm()&0o022 != 0 {
		if err := nothingPlanted(root); err != nil {
			return err
		}
	}
	for _, name := range ourFiles {
		takeBack(root, name, open, logger)
	}
	return nil
}

// nothingPlanted refuses to use what somebody else may have put into a directory that others could write to: a link would have
// us write wherever it leads to, and what is in a file of theirs, a key or a database, they know.
func nothingPlanted(root *os.Root) error {
	for _, name := range ourFiles {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 || !isOurs(info) || isLinkedTwice(info) {
			return fmt.Errorf("%s is not a file of our own, in a directory that others could write to; remove it", filepath.Join(root.Name(), name))
		}
	}
	return nil
}

// closeDir takes a directory that others may enter back from them, or says why it does not.
func closeDir(dir string, info fs.FileInfo, root *os.Root, logger *slog.Logger) error {
	// In a sticky directory others can add files and not change ours, and what matters is looked at by itself. It is
	// meant for many, as /tmp is.
	sticky := info.Mode()&os.ModeSticky != 0
	writable := info.Mode().Perm()&0o022 != 0
	if isOurs(info) && !sticky && (writable || madeForUs(root)) {
		return os.Chmod(dir, 0o700)
	}
	if writable && !sticky {
		return fmt.Errorf("%s belongs to another user and is writable by others (mode %#o)", filepath.Clean(dir), info.Mode().Perm())
	}
	logger.Warn("others can look into data_dir", "data_dir", dir, "mode", fmt.Sprintf("%#o", info.Mode().Perm()), "next", "chmod 700 "+filepath.Clean(dir))
	return nil
}

// madeForUs says whether a directory has nothing in it, or what an earlier perigee left.
func madeForUs(root *os.Root) bool {
	if _, err := root.Lstat(storeName); err == nil {
		return true
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	return err == nil && len(entries) == 0
}

// takeBack allows only the owner to use a file or a directory of ours. What is in a directory is looked at when it could have
// been seen: when the directory, or the one that it is in, was open to others.
func takeBack(root *os.Root, name string, seen bool, logger *slog.Logger) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return // where a link leads to is not ours to change
	}
	if info.Mode().Perm()&0o077 != 0 {
		seen = true
		if err = errors.ErrUnsupported; isOurs(info) {
			err = root.Chmod(name, info.Mode().Perm()&0o700)
		}
		if err != nil {
			logger.Warn("others can read a file of ours", "file", filepath.Join(root.Name(), name), "mode", fmt.Sprintf("%#o", info.Mode().Perm()),
				"next", "make it belong to who runs perigee, and type: chmod go= "+filepath.Join(root.Name(), name))
		}
	}
	if !info.IsDir() || !seen {
		return
	}
	entries, _ := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	for _, entry := range entries {
		takeBack(root, path.Join(name, entry.Name()), seen, logger)
	}
}
