package filetool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"perigee"
)

const (
	maxDepth = 256 // directories below a root; each of them is held open during an access
	maxLinks = 40  // in one path, as on Linux
	maxSwaps = 100 // times that a component may change between two looks at it
)

// A walk follows a path from a root down, and holds every directory of it open.
type walk struct {
	t     *Tools
	guard *guard
	asked place
	root  *root
	dirs  []openDir
	names []string // of dirs[1:]; the place where the walk is, without links
	mkdir bool     // create missing directories

	made  []madeDir
	links int
	swaps int

	// Where the walk ended: in a directory (name is empty), at something else, or at a name in the
	// last directory that does not exist (info is nil).
	name string
	info fs.FileInfo
}

type openDir struct {
	dir  *os.Root
	info fs.FileInfo
}

type madeDir struct {
	dir  *os.Root
	name string
}

func (t *Tools) newWalk(at place) *walk {
	return &walk{t: t, guard: t.newGuard(), asked: at, root: at.root, dirs: []openDir{{dir: at.root.dir, info: at.root.info}}}
}

// close closes the directories. The root stays open.
func (w *walk) close() {
	for len(w.dirs) > 1 {
		w.pop()
	}
}

func (w *walk) pop() {
	last := len(w.dirs) - 1
	_ = w.dirs[last].dir.Close()
	w.dirs, w.names = w.dirs[:last], w.names[:last-1]
}

func (w *walk) top() openDir { return w.dirs[len(w.dirs)-1] }

// here returns the place of a name in the last directory.
func (w *walk) here(name string) place {
	return place{root: w.root, parts: append(append([]string{}, w.names...), name)}
}

// run follows a path to its end, links included.
func (w *walk) run(parts []string) error {
	if w.root.own || w.guard.covers(w.root.info) {
		return w.forbidden()
	}
	for len(parts) > 0 {
		switch parts[0] {
		case ".":
			parts = parts[1:]
			continue
		case "..": // of a link
			if len(w.dirs) == 1 {
				return w.t.outside(w.shown())
			}
			w.pop()
			parts = parts[1:]
			continue
		}
		rest, err := w.step(parts)
		if err != nil || w.name != "" {
			return err
		}
		parts = rest
	}
	return nil
}

// step handles the first component of a path. It returns the components that are left, or sets
// name.
func (w *walk) step(parts []string) ([]string, error) {
	name, rest, dir := parts[0], parts[1:], w.top()
	if w.guard.coversName(dir.info, parts) {
		return nil, w.forbidden()
	}
	info, err := dir.dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(rest) == 0:
		w.name = name
		return nil, nil
	case errors.Is(err, fs.ErrNotExist) && w.mkdir:
		if err := dir.dir.Mkdir(name, 0o777); err == nil {
			w.made = append(w.made, madeDir{dir.dir, name})
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, w.failed("create the directory of", err)
		}
		return parts, w.swapped()
	case err != nil:
		return nil, w.failed("access", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return w.follow(name, rest)
	case info.IsDir():
		return w.enter(name, parts, info)
	case len(rest) > 0:
		return nil, perigee.Errorf(perigee.ClassNotFound, "%s: %s is not a directory", w.shown(), w.t.show(w.here(name))).
			WithHint("list_files shows what is there")
	case w.guard.covers(info):
		return nil, w.forbidden()
	}
	w.name, w.info = name, info
	return nil, nil
}

// enter opens a directory. If something else than info is there by now, the step is repeated.
func (w *walk) enter(name string, parts []string, info fs.FileInfo) ([]string, error) {
	if len(w.names) >= maxDepth {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s is more than %d directories deep", w.shown(), maxDepth).
			WithHint("use a root further down")
	}
	switch entered, err := w.down(name, info); {
	case err != nil:
		return nil, w.failed("open the directory of", err)
	case !entered:
		return parts, w.swapped()
	case w.guard.covers(w.top().info):
		return nil, w.forbidden()
	}
	return parts[1:], nil
}

// down enters a subdirectory of the current directory. info is from an earlier Lstat; entered is
// false if the entry is another one now.
func (w *walk) down(name string, info fs.FileInfo) (entered bool, err error) {
	sub, err := w.top().dir.OpenRoot(name + "/.") // only a directory: a FIFO would block
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || escapes(err) {
			err = nil
		}
		return false, err
	}
	opened, err := sub.Stat(".")
	if err != nil || !os.SameFile(info, opened) {
		_ = sub.Close()
		return false, err
	}
	w.dirs, w.names = append(w.dirs, openDir{sub, opened}), append(w.names, name)
	return true, nil
}

// follow puts the target of a link in place of the link.
func (w *walk) follow(name string, rest []string) ([]string, error) {
	if w.links++; w.links > maxLinks {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s goes through more than %d links", w.shown(), maxLinks).
			WithHint("use the path of the file itself")
	}
	target, err := w.top().dir.Readlink(name)
	if err != nil {
		return append([]string{name}, rest...), w.swapped()
	}
	link := w.t.show(w.here(name))
	if !filepath.IsAbs(target) {
		return append(split(target), rest...), nil
	}
	r, below, ok := w.t.rootOf(filepath.Clean(target))
	if !ok {
		e := perigee.AsError(w.t.outside(w.shown()))
		return nil, perigee.Errorf(e.Class, "%s: %s is a link that leaves the roots", e.Message, link).WithHint("%s", e.Hint)
	}
	w.close()
	w.root, w.dirs = r, []openDir{{dir: r.dir, info: r.info}}
	if r.own || w.guard.covers(r.info) {
		return nil, w.forbidden()
	}
	return append(split(below), rest...), nil
}

// swapped counts how often something has changed during the walk.
func (w *walk) swapped() error {
	if w.swaps++; w.swaps > maxSwaps {
		return perigee.Errorf(perigee.ClassUnavailable, "%s changes all the time", w.shown()).WithHint("try again later")
	}
	return nil
}

// undo removes the directories that were created, unless something is in them.
func (w *walk) undo() {
	for i := len(w.made) - 1; i >= 0; i-- {
		_ = w.made[i].dir.Remove(w.made[i].name)
	}
	w.made = nil
}

func (w *walk) shown() string { return w.t.show(w.asked) }

func (w *walk) forbidden() error {
	return perigee.Errorf(perigee.ClassForbidden, "%s belongs to perigee itself, or may be another name of one of its files, and cannot be accessed", w.shown()).
		WithHint("it may contain credentials; change it by hand if you must")
}

// failed turns an error of the system into one that names the path that was asked for.
func (w *walk) failed(action string, err error) error { return w.t.failed(action, w.shown(), err) }

func (t *Tools) failed(action, shown string, err error) error {
	var e *perigee.Error
	if errors.As(err, &e) {
		return e
	}
	cause := reason(err)
	is := func(class perigee.Class, hint string) error {
		e := perigee.Errorf(class, "cannot %s %s: %s", action, shown, cause).WithHint("%s", hint)
		e.Cause = err
		return e
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return is(perigee.ClassNotFound, "list_files shows what is there")
	case errors.Is(err, fs.ErrPermission):
		return is(perigee.ClassForbidden, "the user that perigee runs as may not do that")
	case escapes(err):
		return t.outside(shown)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return is(perigee.ClassInvalid, "use a shorter name")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota), errors.Is(err, syscall.EFBIG):
		return is(perigee.ClassUnavailable, "nothing was changed; free some space and try again")
	case errors.Is(err, syscall.EROFS):
		return is(perigee.ClassForbidden, "the file system is read-only")
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		return is(perigee.ClassInvalid, "the file system does not accept that name")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return is(perigee.ClassInvalid, "list_files shows what is there")
	}
	return is(perigee.ClassUnavailable, "try again; if it stays, the disk or the file system has a problem")
}

// reason returns an error without the path, which may be of another form than the one that was
// asked for.
func reason(err error) string {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err.Error()
	case errors.As(err, &l):
		return l.Err.Error()
	}
	return err.Error()
}

// escapes reports whether os.Root has refused to leave its directory. The standard library has no
// value for that error.
func escapes(err error) bool { return strings.Contains(err.Error(), "path escapes from parent") }
