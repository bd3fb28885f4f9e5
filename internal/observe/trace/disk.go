package trace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A disk is the directory of all traces, for one goroutine. It keeps one descriptor open. Names are
// slash-separated and never lead out of the directory: os.Root does not follow links to the
// outside.
type disk struct {
	dir  string
	root *os.Root

	scratch []byte // reused for each write
}

func (d *disk) close() {
	if d.root != nil {
		_ = d.root.Close()
		d.root = nil
	}
}

// open opens the directory, and creates it if need be.
func (d *disk) open() error {
	if d.root != nil {
		return nil
	}
	root, err := os.OpenRoot(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(d.dir, 0o700); err == nil {
			root, err = os.OpenRoot(d.dir)
		}
	}
	d.root = root
	return err
}

// mkdir creates the directory of a call, and returns it. A directory of all traces that was removed
// is created again.
func (d *disk) mkdir(day, name string) (*os.Root, error) {
	var err error
	for range 2 {
		if err = d.open(); err != nil {
			return nil, err
		}
		if err = d.root.Mkdir(day, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.root.Mkdir(filepath.Join(day, name), 0o700)
		}
		if err == nil {
			return d.root.OpenRoot(filepath.Join(day, name))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		d.close()
	}
	return nil, err
}

// openCall opens the directory of a call again.
func (d *disk) openCall(path string) (*os.Root, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	return d.root.OpenRoot(path)
}

// appendTo appends to a file, and closes it: thousands of calls may be open.
func appendTo(dir *os.Root, name string, data []byte, create bool) (err error) {
	flags := os.O_WRONLY | os.O_APPEND
	if create {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := dir.OpenFile(name, flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(data)
	return err
}

// replace writes a file so that readers see the old content or the new one. It is not synced: a
// trace need not survive the loss of power.
func replace(dir *os.Root, name string, data []byte) error {
	temporary := "." + name
	err := appendTo(dir, temporary, data, true)
	if errors.Is(err, fs.ErrExist) {
		_ = dir.Remove(temporary)
		err = appendTo(dir, temporary, data, true)
	}
	if err != nil {
		_ = dir.Remove(temporary)
		return err
	}
	return dir.Rename(temporary, name)
}

// remove removes the directory of a call.
func (d *disk) remove(e *entry) error {
	if err := d.open(); err != nil {
		return err
	}
	if e.packed && d.root.Remove(filepath.Join(e.path, PackedName)) == nil && d.root.Remove(e.path) == nil {
		return nil
	}
	return d.root.RemoveAll(e.path)
}

// removeDay removes the directory of a day, if it is empty.
func (d *disk) removeDay(day string) {
	if d.open() == nil {
		_ = d.root.Remove(day)
	}
}

// sizeIn is the size of a file of a call.
func sizeIn(dir *os.Root, name string) (size int64, found bool) {
	info, err := dir.Lstat(name)
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}
