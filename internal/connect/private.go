package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"perigee/internal/atomicfile"
	"perigee/internal/connect/edit"
)

// A settingsCopy is a copy of a settings file in the private directory of a launch. The client writes to it, and what it has
// changed goes back to the user's file.
type settingsCopy struct {
	name string // in the private directory
	file File
	edit.Copy
}

// A standIn is a directory in the private directory that stands in for one of the user, because the client cannot be told
// to read another settings file. Its entries are links to those of the user. New ones, and those that the client has replaced, go
// back to the user's directory.
type standIn struct {
	name, path, root string
	except           []string          // names that are not linked
	dirs             []string          // made in the user's directory, so that what the client saves there is never anywhere else
	were             map[string][]byte // the content of files at the start
}

// maxCompared is the size of the largest file whose content is compared with that at the start.
const maxCompared = 1 << 20

// copyOf adds a copy of a settings file, with its settings, to the private directory.
func (l *Launch) copyOf(f File, name string) error {
	data, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, undo, err := apply(f, data)
	if err != nil {
		return err
	}
	if l.Files == nil {
		l.Files = map[string][]byte{}
	}
	l.Files[name] = content
	c := edit.Copy{Original: data, Made: content, Undo: undo, Entry: f.URL[:min(len(f.URL), 2)]}
	for _, setting := range f.IfMissing {
		if len(setting.Path) == 1 {
			c.Needed = append(c.Needed, setting.Path)
		}
	}
	l.copies = append(l.copies, settingsCopy{name: name, file: f, Copy: c})
	return nil
}

// Prepare writes the files of a launch to its private directory.
func (l *Launch) Prepare(dir string) error {
	for name, data := range l.Files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			return err
		}
	}
	if l.standIn == nil {
		return nil
	}
	return l.standIn.link(filepath.Join(dir, l.standIn.name))
}

func (s *standIn) link(dir string) error {
	for _, name := range s.dirs {
		if err := os.MkdirAll(filepath.Join(s.path, name), 0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.were = map[string][]byte{}
	for _, entry := range entries {
		if slices.Contains(s.except, entry.Name()) {
			continue
		}
		path := filepath.Join(s.path, entry.Name())
		if err := os.Symlink(path, filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxCompared {
			if data, err := os.ReadFile(path); err == nil {
				s.were[entry.Name()] = data
			}
		}
	}
	return nil
}

// Return gives the user what the client has written to the private directory. It is called after the client has ended. The messages
// name what was not returned because the user's own was changed meanwhile. After an error, the directory has what was not returned.
func (l *Launch) Return(dir string) (messages []string, err error) {
	for _, c := range l.copies {
		told, failed := c.giveBack(filepath.Join(dir, filepath.FromSlash(c.name)))
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	if l.standIn != nil {
		told, failed := l.standIn.giveBack(filepath.Join(dir, l.standIn.name))
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}

func (c *settingsCopy) giveBack(path string) (messages []string, err error) {
	now, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(now, c.Made) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := merge(c.file.Path, c.file.root, c.Copy, now, false)
	for _, path := range kept {
		messages = append(messages, fmt.Sprintf("%s: %s was changed meanwhile, and stays", c.file.Path, path))
	}
	return messages, err
}

// merge makes the changes of a copy in a file of the user, or none of them if whole is set and one cannot be made. It begins again if
// the file is changed meanwhile.
func merge(path, root string, c edit.Copy, now []byte, whole bool) (kept []edit.Path, err error) {
	for range 5 {
		if kept, err = mergeOnce(path, root, c, now, whole); !errors.Is(err, errChanged) {
			break
		}
	}
	return kept, err
}

func mergeOnce(path, root string, c edit.Copy, now []byte, whole bool) (kept []edit.Path, err error) {
	there, err := look(path, root)
	if err != nil {
		return nil, err
	}
	data, kept, err := c.Return(now, there.data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	mode := there.mode
	if !there.exists {
		mode = 0o600
	}
	if bytes.Equal(data, there.data) || whole && len(kept) > 0 {
		return kept, nil
	}
	return kept, there.replace(data, mode)
}

func (s *standIn) giveBack(dir string) (messages []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if slices.Contains(s.except, entry.Name()) {
			continue
		}
		told, failed := s.move(filepath.Join(dir, entry.Name()), filepath.Join(s.path, entry.Name()), s.were[entry.Name()])
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}

// move gives a file or directory to the user. was is what the user's file had at the start, if that is known.
func (s *standIn) move(from, to string, was []byte) (messages []string, err error) {
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return s.moveDir(from, to, info.Mode().Perm())
	case !info.Mode().IsRegular(): // a link that is still there, or a socket, which ends with the client
		return nil, nil
	}
	now, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	there, err := look(to, s.root)
	switch {
	case err != nil:
		return nil, err
	case there.exists && bytes.Equal(there.data, now):
		return nil, nil
	case !there.exists:
		return nil, there.replace(now, info.Mode().Perm())
	case was != nil && bytes.Equal(there.data, was):
		return nil, there.replace(now, there.mode)
	}
	// Both have changed. Settings and registries of clients are objects, whose members can be merged. If both have changed the same
	// member, the file may be a sign-in, which must not become a mixture of two.
	if kept, err := merge(to, s.root, edit.Copy{Original: was, Made: was, Undo: new(edit.Undo)}, now, true); err == nil && len(kept) == 0 {
		return nil, nil
	}
	beside, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".run-*")
	if err != nil {
		return nil, err
	}
	_ = beside.Close()
	return []string{fmt.Sprintf("%s was changed meanwhile; what the client wrote is in %s", to, beside.Name())}, atomicfile.Replace(beside.Name(), now, 0o600)
}

func (s *standIn) moveDir(from, to string, mode fs.FileMode) (messages []string, err error) {
	if err := os.Mkdir(to, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		told, failed := s.move(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name()), nil)
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}
