// Package filetool reads, writes and lists files for a model that works inside some directories,
// the roots.
//
// Every access goes through a directory that is held open (os.Root), one path component at a time.
// Links are resolved here, so that neither a link, nor "..", nor a directory that is swapped during
// the access leads out of a root. Perigee's own files are out of reach wherever they are.
//
// Errors are of type *perigee.Error. Their message and hint are written for the model that called.
package filetool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"perigee"
)

// Options are the limits of Tools.
type Options struct {
	// Roots are the directories inside which files are accessible. Relative paths are relative to
	// the first.
	Roots []string
	// Write allows Write.
	Write bool
	// Forbidden are files and directories that are neither read, written nor listed, also inside a
	// root and also through links and hard links. They do not have to exist.
	Forbidden []string
}

// Tools are the file tools for a set of roots. They can be used concurrently.
type Tools struct {
	roots  []*root
	write  bool
	page   int     // entries on a page of a listing
	shared *shared // with every Tools that Narrow has made
}

// A root is a directory that was opened once. Later changes of its path have no effect.
type root struct {
	dir  *os.Root
	info fs.FileInfo
	path string // absolute, as configured
	real string // the same without links
	own  bool   // it is inside a forbidden directory
}

// shared is the state that narrowed Tools share.
type shared struct {
	forbidden []string
	linked    linkedFiles
	replacing sync.Mutex // held from the last comparison with an expected hash to the rename
}

// New opens the roots. A root that is not a directory is an error.
func New(o Options) (*Tools, error) {
	if len(o.Roots) == 0 {
		return nil, perigee.Errorf(perigee.ClassInvalid, "no root directory is configured")
	}
	t := &Tools{write: o.Write, page: pageSize, shared: &shared{}}
	for _, path := range o.Forbidden {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t.shared.forbidden = append(t.shared.forbidden, abs)
	}
	for _, path := range o.Roots {
		r, err := openRoot(path)
		if err != nil {
			_ = t.Close()
			return nil, err
		}
		for _, forbidden := range t.shared.forbidden {
			_, inside := within(WithoutLinks(forbidden), r.real)
			r.own = r.own || inside
		}
		t.add(r)
	}
	return t, nil
}

func openRoot(path string) (*root, error) {
	fail := func(err error) error {
		return perigee.Errorf(perigee.ClassInvalid, "the root %s cannot be used: %w", path, err).
			WithHint("name a directory that exists and is readable")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fail(err)
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, fail(err)
	} else if !info.IsDir() {
		return nil, fail(errors.New("it is not a directory"))
	}
	name := abs
	if !os.IsPathSeparator(name[len(name)-1]) {
		name += string(filepath.Separator) // so that a FIFO, if there is one by now, does not block
	}
	dir, err := os.OpenRoot(name)
	if err != nil {
		return nil, fail(err)
	}
	return newRoot(dir, abs)
}

// newRoot takes over dir, which is at path.
func newRoot(dir *os.Root, path string) (*root, error) {
	info, err := dir.Stat(".")
	if err != nil {
		_ = dir.Close()
		return nil, perigee.Errorf(perigee.ClassInvalid, "the root %s cannot be used: %w", path, err)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		resolved = path
	}
	return &root{dir: dir, info: info, path: path, real: resolved}, nil
}

// add adds a root unless it is there already.
func (t *Tools) add(r *root) {
	if slices.ContainsFunc(t.roots, func(other *root) bool { return os.SameFile(other.info, r.info) }) {
		_ = r.dir.Close()
		return
	}
	t.roots = append(t.roots, r)
}

// Narrow returns Tools for the parts of the roots that are inside dirs: absolute paths or file
// URIs, as MCP clients send their roots. Directories outside of every root are ignored; if none is
// left, the result has the roots of t. The result must be closed.
func (t *Tools) Narrow(dirs []string) *Tools {
	narrowed := &Tools{write: t.write, page: t.page, shared: t.shared}
	for _, dir := range dirs {
		t.narrowTo(narrowed, dir)
	}
	if len(narrowed.roots) == 0 {
		for _, r := range t.roots {
			narrowed.share(r)
		}
	}
	return narrowed
}

func (t *Tools) narrowTo(narrowed *Tools, dir string) {
	path, err := fromURI(dir)
	if err != nil || !filepath.IsAbs(path) {
		return
	}
	if at, err := t.locate(path); err == nil {
		narrowed.open(t, at)
		return
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	for _, r := range t.roots { // roots inside dir stay whole
		if _, inside := within(resolved, r.real); inside {
			narrowed.share(r)
		}
	}
}

// open adds the directory at a place of wider Tools to the roots.
func (t *Tools) open(wider *Tools, at place) {
	w := wider.newWalk(at)
	defer w.close()
	if err := w.run(at.parts); err != nil || w.name != "" {
		return
	}
	dir, err := w.top().dir.OpenRoot(".")
	if err != nil {
		return
	}
	if r, err := newRoot(dir, filepath.Join(at.root.path, filepath.Join(at.parts...))); err == nil {
		t.add(r)
	}
}

// share adds a root of other Tools, with a handle of its own.
func (t *Tools) share(r *root) {
	dir, err := r.dir.OpenRoot(".")
	if err != nil {
		return
	}
	t.add(&root{dir: dir, info: r.info, path: r.path, real: r.real, own: r.own})
}

// Find returns the absolute path of a file or directory below its root, and its FileInfo. Links in
// the path are followed.
func (t *Tools) Find(path string) (absolute string, info fs.FileInfo, err error) {
	at, err := t.locate(path)
	if err != nil {
		return "", nil, err
	}
	w := t.newWalk(at)
	defer w.close()
	if err := w.run(at.parts); err != nil {
		return "", nil, err
	}
	if info = w.info; w.name == "" {
		info = w.top().info
	} else if info == nil {
		return "", nil, w.failed("find", fs.ErrNotExist)
	}
	return filepath.Join(at.root.path, filepath.Join(at.parts...)), info, nil
}

// Roots returns the absolute paths of the roots.
func (t *Tools) Roots() []string {
	paths := make([]string, len(t.roots))
	for i, r := range t.roots {
		paths[i] = r.path
	}
	return paths
}

// CanWrite reports whether Write is allowed.
func (t *Tools) CanWrite() bool { return t.write }

// Close closes the roots. Calls that are running may fail.
func (t *Tools) Close() error {
	var errs []error
	for _, r := range t.roots {
		errs = append(errs, r.dir.Close())
	}
	return errors.Join(errs...)
}
