// Package atomicfile writes and locks the small files that perigee stores for one user: keys,
// tokens, exported accounts. A file is written whole or not at all, with mode 0600, and is on disk
// when the call returns. DiskOf returns how much may still be written.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Write replaces or creates a file. It returns an error, and changes nothing, if path is not a
// regular file (a link, a device, a pipe).
func Write(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is not a file", path)
	}
	return write(path, data, os.Rename)
}

// Replace replaces or creates a file with a mode. The owner of the file stays, where the process
// may set it. It returns an error, and changes nothing, if path is not a regular file.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return ReplaceIf(path, data, mode, func() error { return nil })
}

// ReplaceIf is like Replace, but calls check immediately before the new file gets its name. If
// check returns an error, ReplaceIf returns that error and changes nothing.
func ReplaceIf(path string, data []byte, mode fs.FileMode, check func() error) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is not a file", path)
	}
	return write(path, data, func(temporary, path string) error {
		if err == nil {
			keepOwner(temporary, info)
		}
		if err := os.Chmod(temporary, mode); err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		return os.Rename(temporary, path)
	})
}

// Create writes a file unless there is something of that name already, which is fs.ErrExist.
func Create(path string, data []byte) error { return write(path, data, publish) }

// write fills a file under another name in the same directory, and then has it named.
func write(path string, data []byte, name func(temporary, path string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename there is nothing to remove
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // or else a power cut may leave the name without the content
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// publish gives a file its name unless another has it. Not every file system can give a file a
// second name; there an empty file reserves the name, which then is replaced.
func publish(temporary, path string) error {
	err := os.Link(temporary, path)
	if err == nil || os.IsExist(err) {
		return err
	}
	return publishByRename(temporary, path)
}

func publishByRename(temporary, path string) error {
	reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(reserved.Close(), os.Rename(temporary, path))
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// syncDir makes a new name last, where the file system can.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
