// Package ownfile writes and locks the small files that perigee keeps for one user: keys, tokens, accounts on their way to
// another machine. What it writes only the user can read, is there whole or not at all, and is still there after a power
// cut. It knows nothing of what the files hold, and reads none.
//
// The daemon, the seal and the export of accounts use it. Databases and images have their own ways.
package ownfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// WriteWhole writes a file in place of the one that was there. What is there and is not a plain file (a link, a device, a
// pipe) is left alone, with an error.
func WriteWhole(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file", path)
	}
	return write(path, data, os.Rename)
}

// WriteNew writes a file unless there is something of that name already, which is fs.ErrExist.
func WriteNew(path string, data []byte) error { return write(path, data, publish) }

// write fills a file under another name in the same directory, and then has it named.
func write(path string, data []byte, name func(temporary, path string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it goes on under its own name, if at all
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

// publish gives a file its name unless another has it. Not every file system can give a file a second name; there an empty
// file reserves the name, which then is replaced.
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
