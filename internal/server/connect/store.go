package connect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/edit"
)

// A Store has the original files of clients from before connect, one file for each client.
type Store struct {
	Dir string // <data_dir>/connect
}

// A record is the stored data of a client.
type record struct {
	Client string   `json:"client"`
	URL    string   `json:"url"`
	Model  string   `json:"model"`
	Files  []backup `json:"files"`
	Undone bool     `json:"undone,omitempty"` // undo has not restored all values
}

// A backup is a settings file before connect, and the changes that connect made.
type backup struct {
	Path     string         `json:"path"`
	Target   string         `json:"target"` // after links
	Root     string         `json:"root"`
	Format   edit.Format    `json:"format"`
	Existed  bool           `json:"existed"`
	Mode     fs.FileMode    `json:"mode"`
	Original []byte         `json:"original"`
	Made     []string       `json:"made,omitempty"` // directories, outermost first
	Written  []string       `json:"written"`        // SHA-256 of the contents of all runs
	Edited   bool           `json:"edited"`         // it was changed between two runs of connect
	NewMode  fs.FileMode    `json:"new_mode"`
	Set      []edit.Setting `json:"set"`
	Undo     *edit.Undo     `json:"undo"`
	First    *content       `json:"first,omitempty"` // before the first run, if Original is later
}

// A content is the content of a settings file, which may not exist.
type content struct {
	Existed bool   `json:"existed"`
	Data    []byte `json:"data"`
}

// first returns the file before the first run of connect.
func (f *backup) first() content {
	if f.First != nil {
		return *f.First
	}
	return content{Existed: f.Existed, Data: f.Original}
}

// lockTime is how long a run waits for another one.
const lockTime = 15 * time.Second

// Lock waits until no other process changes settings. The caller calls release to give the lock up.
func (s Store) Lock(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	held, err := atomicfile.Lock(ctx, filepath.Join(s.Dir, "lock"), lockTime)
	if errors.Is(err, atomicfile.ErrHeld) {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "another perigee connect is running").WithHint("run this again when it has ended")
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = held.Close() }, nil
}

func (s Store) path(client string) string { return filepath.Join(s.Dir, client+".json") }

// load returns the stored data of a client; it is empty for one that is not connected.
func (s Store) load(client string) (*record, error) {
	data, err := os.ReadFile(s.path(client))
	if errors.Is(err, fs.ErrNotExist) {
		return &record{Client: client}, nil
	}
	k := new(record)
	if err == nil {
		err = json.Unmarshal(data, k)
	}
	for i := range k.Files {
		if err == nil {
			err = k.Files[i].check()
		}
	}
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassInternal, "the backup of %s cannot be read: %w", client, err).
			WithHint("%s has it; without that file, connect and undo do not know what was there", s.path(client))
	}
	return k, nil
}

// check returns an error if something is missing that connect has written, or a directory is not
// one above the file.
func (f *backup) check() error {
	if !filepath.IsAbs(f.Path) || !filepath.IsAbs(f.Target) || !filepath.IsAbs(f.Root) || f.Undo == nil {
		return errors.New("it is not complete")
	}
	for _, dir := range f.Made {
		if !strings.HasPrefix(f.Target, filepath.Clean(dir)+string(filepath.Separator)) {
			return fmt.Errorf("%s is not a directory above %s", dir, f.Target)
		}
	}
	return nil
}

func (s Store) save(k *record) error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(s.path(k.Client), append(data, '\n'))
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// find returns the stored data of the file at target, or nil if there is none.
func (k *record) find(target string) *backup {
	for i := range k.Files {
		if k.Files[i].Target == target {
			return &k.Files[i]
		}
	}
	return nil
}

// add adds a change. If the file is stored already, and has values of an earlier run, its original
// stays. If it has none, the file is the user's own, and undo restores it.
func (k *record) add(c *Change) error {
	f := backup{
		Path: c.Path, Target: c.onDisk.target, Root: c.root, Format: c.Format, Existed: c.onDisk.exists, Mode: c.onDisk.mode, Original: c.onDisk.data,
		Made: missingDirs(c.onDisk.target), Written: []string{sum(c.after)}, NewMode: c.mode, Set: c.Set, Undo: c.undo,
	}
	old := k.find(f.Target)
	if old == nil {
		k.Files = append(k.Files, f)
		return nil
	}
	undo, err := old.Undo.Merge(f.Format, f.Undo)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	has, err := old.Undo.Has(f.Format, f.Original)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	for _, dir := range f.Made {
		if !slices.Contains(old.Made, dir) {
			old.Made = append(old.Made, dir)
		}
	}
	if !has {
		if first := old.first(); first.Existed != f.Existed || !bytes.Equal(first.Data, f.Original) {
			f.First = &first
		}
		undo.Made, undo.Empty, undo.Root = f.Undo.Made, f.Undo.Empty, f.Undo.Root
		f.Made, f.Undo = old.Made, undo
		*old = f
		return nil
	}
	old.Edited = old.Edited || !old.wrote(f.Original)
	old.Written = append(old.Written, f.Written...)
	old.NewMode, old.Set, old.Undo = f.NewMode, f.Set, undo
	return nil
}

// withoutStale returns the content of a file without the settings of an earlier run that this one
// does not have: the way to a key, or another model. Values that were changed since stay.
func (k *record) withoutStale(f File, on diskFile) ([]byte, error) {
	old := k.find(on.target)
	if old == nil || !on.exists {
		return on.data, nil
	}
	has := func(settings []edit.Setting, path edit.Path) bool {
		return slices.ContainsFunc(settings, func(s edit.Setting) bool { return slices.Equal(s.Path, path) })
	}
	stale := &edit.Undo{Made: old.Undo.Made, Empty: old.Undo.Empty}
	for _, was := range old.Undo.Was {
		if has(old.Set, was.Path) && !has(f.Set, was.Path) {
			stale.Was = append(stale.Was, was)
		}
	}
	if len(stale.Was) == 0 {
		return on.data, nil
	}
	reverted, err := edit.Revert(f.Format, on.data, stale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return reverted.Data, nil
}

// An Outcome is the result of Undo for a file.
type Outcome struct {
	Path   string
	Result string // one of the constants below
	// Kept are the settings that keep a value that the user has set since the first connect.
	Kept []edit.Path
	// Gone are the settings that had a value before the first connect and that the user has
	// removed.
	Gone []edit.Path
	// Copy is a file with the content from before the first connect. It is empty if all was
	// restored.
	Copy string
}

// The results of Undo.
const (
	Restored  = "restored"
	Removed   = "removed"
	TakenOut  = "changed since connect; only the settings of perigee were taken out"
	Between   = "changed between two runs of connect; only the settings of perigee were taken out"
	Untouched = "has no settings of perigee"
	Unchanged = "nothing was taken out"
	Missing   = "is gone: there are no settings of perigee to take out"
)

// A revert is a file that Undo is going to restore.
type revert struct {
	file backup
	now  diskFile
	edit.Reverted
}

// Undo restores the files of a client: bytes, mode and absence. A file that was changed since loses
// the settings of perigee only, and of these only values that connect has written, in any of its
// runs, and that are unchanged. A value that the user has set between two runs is the user's, too.
// As long as a setting differs from its value before the first run, the data for restoring it stays
// stored, so that Undo can be repeated, and a copy of the file from before the first run is in the
// store.
func (s Store) Undo(client string) ([]Outcome, error) {
	k, err := s.load(client)
	if err != nil {
		return nil, err
	}
	if len(k.Files) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "%s was not connected by perigee", client).WithHint("perigee connect lists the clients that are")
	}
	var reverts []revert
	for _, f := range k.Files { // before anything is changed
		r, err := f.revert(client)
		if err != nil {
			return nil, err
		}
		reverts = append(reverts, r)
	}
	var outcomes []Outcome
	left := &record{Client: k.Client, URL: k.URL, Model: k.Model, Undone: true}
	for _, r := range reverts {
		result, err := r.restore()
		if errors.Is(err, errChanged) {
			err = perigee.Errorf(perigee.ClassUnavailable, "%v; it was not restored", err).WithHint("run this again")
		}
		if err != nil {
			return outcomes, err
		}
		outcome := Outcome{Path: r.file.Path, Result: result, Kept: r.Kept, Gone: r.Gone}
		if r.Left != nil {
			r.file.Edited, r.file.Undo = true, r.Left
			left.Files = append(left.Files, r.file)
			if outcome.Copy, err = s.copyFirst(client, &r.file); err != nil {
				return outcomes, err
			}
		}
		outcomes = append(outcomes, outcome)
	}
	if len(left.Files) > 0 {
		return outcomes, s.save(left)
	}
	return outcomes, errors.Join(os.RemoveAll(s.copies(client)), os.Remove(s.path(client)))
}

// copies returns the directory of the copies of a client's files from before the first connect.
func (s Store) copies(client string) string { return filepath.Join(s.Dir, client) }

// copyFirst writes the content of a file before the first connect to the store, and returns its
// path; empty if there was none.
func (s Store) copyFirst(client string, f *backup) (string, error) {
	first := f.first()
	if !first.Existed {
		return "", nil
	}
	if err := os.MkdirAll(s.copies(client), 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(s.copies(client), filepath.Base(f.Path))
	return path, atomicfile.Write(path, first.Data)
}

// revert determines the changes that Undo has to make to a file.
func (f backup) revert(client string) (revert, error) {
	now, err := look(f.Path, f.Root)
	if err == nil && now.target != f.Target {
		err = fmt.Errorf("%s is now another file than it was", f.Path)
	}
	if err != nil {
		return revert{}, perigee.Errorf(perigee.ClassInvalid, "%v; nothing was changed", err)
	}
	r := revert{file: f, now: now}
	switch {
	case f.asFirst(&now), f.First == nil && f.asWritten(now.data) && now.exists:
		return r, nil
	case !now.exists:
		r.Left = f.Undo
		return r, nil
	}
	undo := *f.Undo
	if c, err := Find(client); err == nil {
		undo.Entries = c.Entries
	}
	if r.Reverted, err = edit.Revert(f.Format, now.data, &undo); err != nil {
		return revert{}, perigee.Errorf(perigee.ClassInvalid, "%s was changed since, and perigee's settings cannot be removed: %v", f.Path, err).
			WithHint("remove them by hand; perigee connect %s --print shows them", client)
	}
	// The user has deleted a file that was there before the first run.
	if r.Left == nil && f.First != nil && f.First.Existed && !f.Existed {
		r.Left = f.Undo
	}
	return r, nil
}

// asWritten reports whether connect has written a content, so that the original can be restored.
func (f *backup) asWritten(data []byte) bool { return !f.Edited && f.wrote(data) }

// wrote reports whether a run of connect has written a content.
func (f *backup) wrote(data []byte) bool { return slices.Contains(f.Written, sum(data)) }

// asFirst reports whether a file has its content from before the first connect: connect was killed
// before it has written, or undo after it, or the user has restored it.
func (f *backup) asFirst(now *diskFile) bool {
	first := f.first()
	return first.Existed == now.exists && bytes.Equal(now.data, first.Data)
}

// restore puts a file back. Its mode is restored together with the last of its values.
func (r *revert) restore() (string, error) {
	f, now := &r.file, &r.now
	mode := now.mode
	if mode == f.NewMode && f.Existed && (r.Left == nil || f.asWritten(now.data)) {
		mode = f.Mode
	}
	switch {
	case !now.exists:
		f.removeDirs()
		return Missing, nil
	case f.asFirst(now) && mode == now.mode:
		return Untouched, nil
	case f.asFirst(now):
		return Restored, now.replace(now.data, mode)
	case f.asWritten(now.data) && f.Existed:
		return Restored, now.replace(f.Original, mode)
	case f.asWritten(now.data), !f.Existed && isBlank(r.Data):
		if err := now.remove(); err != nil {
			return "", err
		}
		f.removeDirs()
		return Removed, nil
	case bytes.Equal(r.Data, now.data) && mode == now.mode && r.Left != nil:
		return Unchanged, nil
	case bytes.Equal(r.Data, now.data) && mode == now.mode:
		return Untouched, nil
	case f.wrote(now.data):
		return Between, now.replace(r.Data, mode)
	}
	return TakenOut, now.replace(r.Data, mode)
}

// isBlank reports whether a file has nothing in it.
func isBlank(data []byte) bool {
	text := bytes.Join(bytes.Fields(data), nil)
	return len(text) == 0 || string(text) == "{}"
}

// removeDirs removes the directories that connect has made, as far as nothing else is in them.
func (f *backup) removeDirs() {
	for _, dir := range slices.Backward(f.Made) {
		if os.Remove(dir) != nil {
			return
		}
	}
}
