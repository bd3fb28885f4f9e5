package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/edit"
)

// A diskFile is a settings file on disk.
type diskFile struct {
	target string // where the content is, after links
	exists bool
	data   []byte
	mode   fs.FileMode
}

// look reads a settings file. It returns an error for a file that may not be changed: one that is
// not a regular file, that cannot be read or written, that is too large, or that a link puts
// outside of root.
func look(path, root string) (diskFile, error) {
	target, err := resolve(path, root)
	if err != nil {
		return diskFile{}, err
	}
	f := diskFile{target: target}
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, writableDir(filepath.Dir(target))
	case err != nil:
		return f, err
	case !info.Mode().IsRegular():
		return f, fmt.Errorf("%s is not a plain file", path)
	case info.Mode().Perm()&0o400 == 0:
		return f, fmt.Errorf("%s cannot be read: its mode is %04o", path, info.Mode().Perm())
	case info.Mode().Perm()&0o200 == 0:
		return f, fmt.Errorf("%s is read-only", path)
	case info.Size() > edit.MaxSize:
		return f, fmt.Errorf("%s has %d bytes, and at most %d are edited", path, info.Size(), edit.MaxSize)
	}
	f.exists, f.mode = true, info.Mode().Perm()
	file, err := os.OpenFile(target, os.O_RDWR, 0) // which also shows whether it can be written
	if err != nil {
		return f, err
	}
	defer func() { _ = file.Close() }()
	if f.data, err = io.ReadAll(io.LimitReader(file, edit.MaxSize+1)); err != nil {
		return f, err
	}
	return f, writableDir(filepath.Dir(target))
}

// resolve follows the links of a path as far as it exists. The result has to be below root.
func resolve(path, root string) (string, error) {
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		realRoot = filepath.Clean(root)
	}
	target, err := resolveExisting(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	if relative, err := filepath.Rel(realRoot, target); err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s is a link that leads out of %s, to %s", path, root, target)
	}
	return target, nil
}

// resolveExisting follows the links of the part of a path that exists. A link to nothing is an
// error.
func resolveExisting(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a link to a file that does not exist", path)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return "", err
	}
	dir, err := resolveExisting(parent)
	return filepath.Join(dir, filepath.Base(path)), err
}

// writableDir reports whether files can be created in a directory, or in the nearest one above it
// that exists.
func writableDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		return writableDir(filepath.Dir(dir))
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case info.Mode().Perm()&0o200 == 0:
		return fmt.Errorf("the directory %s is read-only", dir)
	}
	return nil
}

// missingDirs returns the directories above a file that do not exist, outermost first.
func missingDirs(path string) []string {
	var missing []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return missing
		}
		missing = append([]string{dir}, missing...)
	}
}

// errChanged means that a file was changed after it was read.
var errChanged = errors.New("was changed meanwhile")

// replace replaces the content of a file as a whole and makes the directories that are missing. It
// returns errChanged if the file was changed since it was read, so that no edit is overwritten.
func (f *diskFile) replace(data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(f.target), 0o700); err != nil {
		return err
	}
	return atomicfile.ReplaceIf(f.target, data, mode, f.check)
}

// remove removes a file, unless it was changed since it was read.
func (f *diskFile) remove() error {
	if err := f.check(); err != nil {
		return err
	}
	return os.Remove(f.target)
}

// check returns errChanged if the file was changed since it was read.
func (f *diskFile) check() error {
	now, err := os.ReadFile(f.target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case (err == nil) != f.exists || !bytes.Equal(now, f.data):
		return fmt.Errorf("%s %w", f.target, errChanged)
	}
	return nil
}

// readTree returns the content of a settings file; a file that does not exist has none.
func readTree(f File) (map[string]any, error) {
	data, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tree, err := edit.Parse(f.Format, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return tree, nil
}

// editedContent returns the content of a settings file with the settings in it. It does not change
// the file.
func editedContent(f File) ([]byte, error) {
	data, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	after, _, err := apply(f, data)
	return after, err
}

// apply sets the settings of a file in its content.
func apply(f File, data []byte) ([]byte, *edit.Undo, error) {
	tree, err := edit.Parse(f.Format, data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be parsed: %w", f.Path, err)
	}
	var settings []edit.Setting
	for _, s := range f.IfMissing {
		if _, ok := edit.Get(tree, s.Path); !ok {
			settings = append(settings, s)
		}
	}
	after, undo, err := edit.Apply(f.Format, data, append(settings, f.Set...))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return after, undo, nil
}
