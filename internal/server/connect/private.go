package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/edit"
)

// A settingsCopy is a copy of a settings file in the private directory of a launch. The client
// writes to it, and its changes are returned to the user's file.
type settingsCopy struct {
	Name       string // in the private directory
	Path, Root string // of the user's file
	edit.Copy
}

// A standIn is a directory in the private directory that replaces one of the user, because the
// client cannot be configured to read another settings file. Its entries are links to the user's.
// New ones, and those that the client has replaced, are returned to the user's directory, and files
// that the client has removed are removed there.
type standIn struct {
	Name, Path, Root string
	Except           []string // names that are not linked
	// Dirs are created in the user's directory, so that files in them are never anywhere else.
	Dirs []string
	Were map[string][]byte // the content of files at the start
}

// An owner is the client that a private directory is for, with the settings files of the user.
type owner struct {
	Client string
	Files  []string
}

func (c *Client) owner(m Machine, t Target) owner {
	o := owner{Client: c.Name}
	for _, f := range c.Files(m, t) {
		o.Files = append(o.Files, f.Path)
	}
	return o
}

// A manifest is the content of a private directory's own file, with which a later run can return
// the files in it if this one is killed.
type manifest struct {
	Of      owner
	Copies  []settingsCopy
	StandIn *standIn
}

// manifestName is the file of a manifest. The client does not use it: if it is missing, a program
// that cleans up has removed files.
const manifestName = "perigee.json"

// maxCompared is the maximum size of a file that is compared with its content at the start.
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
	c := edit.Copy{Original: data, Made: content, Undo: undo}
	for _, setting := range f.IfMissing {
		if len(setting.Path) == 1 {
			c.Needed = append(c.Needed, setting.Path)
		}
	}
	l.manifest.Copies = append(l.manifest.Copies, settingsCopy{Name: name, Path: f.Path, Root: f.root, Copy: c})
	return nil
}

// Prepare writes the files of a launch to its private directory.
func (l *Launch) Prepare(dir string) error {
	standIn := l.manifest.StandIn
	if standIn != nil {
		if err := standIn.look(); err != nil {
			return err
		}
	}
	data, err := json.Marshal(l.manifest)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o600); err != nil {
		return err
	}
	for name, data := range l.Files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			return err
		}
	}
	if standIn == nil {
		return nil
	}
	return standIn.link(filepath.Join(dir, standIn.Name))
}

// look makes the directories, and notes the content of the user's files.
func (s *standIn) look() error {
	for _, name := range s.Dirs {
		if err := os.MkdirAll(filepath.Join(s.Path, name), 0o700); err != nil {
			return err
		}
	}
	names, err := s.names(s.Path)
	s.Were = map[string][]byte{}
	for _, name := range names {
		path := filepath.Join(s.Path, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxCompared {
			if data, err := os.ReadFile(path); err == nil {
				s.Were[name] = data
			}
		}
	}
	return err
}

// names returns the entries of a directory, except those that are not linked.
func (s *standIn) names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !slices.Contains(s.Except, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func (s *standIn) link(dir string) error {
	names, err := s.names(s.Path)
	for _, name := range names {
		if err := os.Symlink(filepath.Join(s.Path, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return err
}

// Return returns the files that the client has written to the private directory to the user. It is
// called after the client has ended. The messages name files that were not returned because the
// user's own were changed as well. After an error, the directory has the files that were not
// returned.
func (l *Launch) Return(dir string) (messages []string, err error) {
	standIn := l.manifest.StandIn
	messages, err = l.manifest.restore(dir)
	if _, missing := os.Lstat(filepath.Join(dir, manifestName)); missing == nil && standIn != nil {
		told, failed := standIn.remove(filepath.Join(dir, standIn.Name))
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}

// ReturnEarlier does the same as Return for the private directory of an earlier run, if that was
// for the same client and settings; ok is false if it was not. It is called when the processes of
// that run have ended. It removes no file of the user: after a time, other programs remove files in
// directories for temporary files.
func (l *Launch) ReturnEarlier(dir string) (messages []string, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	var n manifest
	if err != nil || json.Unmarshal(data, &n) != nil || !reflect.DeepEqual(n.Of, l.manifest.Of) {
		return nil, false, nil
	}
	messages, err = n.restore(dir)
	if err == nil && (len(n.Copies) > 0 || n.StandIn != nil) {
		messages = append(messages, fmt.Sprintf("an earlier run of %s was killed; what it has changed is in your files now", n.Of.Client))
	}
	return messages, true, err
}

// Discard removes a private directory, beginning with the file that ReturnEarlier needs.
func Discard(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, manifestName)), os.RemoveAll(dir))
}

func (n *manifest) restore(dir string) (messages []string, err error) {
	for _, c := range n.Copies {
		told, failed := c.restore(filepath.Join(dir, filepath.FromSlash(c.Name)))
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	if n.StandIn != nil {
		told, failed := n.StandIn.restore(filepath.Join(dir, n.StandIn.Name))
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}

func (c *settingsCopy) restore(path string) (messages []string, err error) {
	now, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(now, c.Made) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := merge(c.Path, c.Root, c.Copy, now, false)
	for _, path := range kept {
		messages = append(messages, fmt.Sprintf("%s: %s was changed meanwhile, and stays", c.Path, path))
	}
	return messages, err
}

// merge makes the changes of a copy in a file of the user, or none of them if whole is set and one
// cannot be made. It begins again if the file is changed concurrently.
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

func (s *standIn) restore(dir string) (messages []string, err error) {
	names, err := s.names(dir)
	for _, name := range names {
		told, failed := s.move(filepath.Join(dir, name), filepath.Join(s.Path, name), s.Were[name])
		messages, err = append(messages, told...), errors.Join(err, failed)
	}
	return messages, err
}

// remove removes the files of the user that the client has removed, if they are unchanged since the
// start.
func (s *standIn) remove(dir string) (messages []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Were)) {
		path := filepath.Join(s.Path, name)
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// The target of a link does not belong to the client.
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		there, failed := look(path, s.Root)
		switch {
		case failed != nil:
		case bytes.Equal(there.data, s.Were[name]):
			failed = there.remove()
		default:
			messages = append(messages, fmt.Sprintf("%s was changed meanwhile, and stays; the client has removed it", path))
		}
		err = errors.Join(err, failed)
	}
	return messages, err
}

// move returns a file or directory to the user. was is the content of the user's file at the start,
// if that is known.
func (s *standIn) move(from, to string, was []byte) (messages []string, err error) {
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return s.moveDir(from, to, info.Mode().Perm())
	// A link that is still there, or a socket, which ends with the client.
	case !info.Mode().IsRegular():
		return nil, nil
	}
	now, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	there, err := look(to, s.Root)
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
	// Both have changed. Settings and registries of clients are objects, and their members can be
	// merged. If both have changed the same member, the file may be a sign-in, which must not
	// become a mixture of two.
	if kept, err := merge(to, s.Root, edit.Copy{Original: was, Made: was, Undo: new(edit.Undo)}, now, true); err == nil && len(kept) == 0 {
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
