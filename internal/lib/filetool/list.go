package filetool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"perigee"
)

const (
	pageSize      = 1000    // entries of one answer
	maxScanned    = 500_000 // names that are looked at for one answer
	maxListErrors = 20      // errors that are named in one answer
)

// ListInput is the input of list_files.
type ListInput struct {
	Path string `json:"path,omitzero" jsonschema:"the directory; the first root if left out"`
	// Glob is a doublestar pattern for paths below the directory; without a slash it is for base
	// names. With a slash, directories below are listed too, regardless of Recursive.
	Glob           string `json:"glob,omitzero" jsonschema:"which entries to list: *.go matches names, src/**/*.{ts,tsx} matches paths below the directory"`
	Recursive      bool   `json:"recursive,omitzero" jsonschema:"also list what is in directories below"`
	Cursor         string `json:"cursor,omitzero" jsonschema:"next_cursor of the page before"`
	IncludeIgnored bool   `json:"include_ignored,omitzero" jsonschema:"also list .git and what .gitignore, .ignore and .git/info/exclude name"`
}

// ListResult is the result of list_files.
type ListResult struct {
	Entries    []Entry `json:"entries" jsonschema:"at most 1000 entries in bytewise order of their paths"`
	NextCursor string  `json:"next_cursor,omitzero" jsonschema:"there may be more: call again with this as cursor"`
	// Ignored counts entries of this page that ignore files have left out; a directory counts once.
	Ignored int         `json:"ignored,omitzero" jsonschema:"how many entries ignore files have left out on this page; include_ignored lists them"`
	Errors  []ListError `json:"errors,omitzero" jsonschema:"what could not be listed"`
}

// An Entry is a file, directory or link. Links are not followed.
type Entry struct {
	Path     string    `json:"path" jsonschema:"the path, as read_file takes it"`
	Type     string    `json:"type" jsonschema:"file, directory, symlink or other"`
	Size     int64     `json:"size" jsonschema:"the size of a file in bytes"`
	Modified time.Time `json:"modified" jsonschema:"when it was last modified"`
}

// A ListError is the reason why a directory, or an entry of it, is missing from a listing.
type ListError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// List lists a directory. A page costs the directories that its entries are in: nothing before the
// cursor is sorted or looked at again. If files come and go between two pages, entries that stay
// are listed exactly once.
func (t *Tools) List(ctx context.Context, in ListInput) (*ListResult, error) {
	at, err := t.locate(in.Path)
	if err != nil {
		return nil, err
	}
	l := &lister{ctx: ctx, t: t, in: in, at: at, result: &ListResult{Entries: []Entry{}}}
	if err := l.parseGlob(); err != nil {
		return nil, err
	}
	if err := l.parseCursor(); err != nil {
		return nil, err
	}
	w := t.newWalk(at)
	defer w.close()
	if err := w.run(at.parts); err != nil {
		return nil, err
	}
	if w.name != "" && w.info == nil {
		return nil, w.failed("list", fs.ErrNotExist)
	} else if w.name != "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s is not a directory", w.shown()).WithHint("read_file reads files")
	}
	l.walk = w
	start := listedDir{after: l.after}
	if !in.IncludeIgnored {
		start.ignores = l.ignoresAbove()
	}
	if err := l.list(start); err != nil && !errors.Is(err, errPageFull) {
		return nil, w.failed("list", err)
	}
	return l.result, nil
}

var errPageFull = errors.New("the page is full")

// A lister makes one page.
type lister struct {
	ctx    context.Context
	t      *Tools
	in     ListInput
	at     place
	walk   *walk // its last directory is the one that is being listed
	result *ListResult

	recursive bool
	glob      string
	byName    bool   // glob is for base names
	globBase  string // the directory that everything that glob matches is in
	globDepth int    // how many directories below there can be matches; -1 for any number

	after   string // the last path that the cursor has seen
	last    string // the last path that was looked at
	scanned int
}

// A listedDir is a directory on the way down.
type listedDir struct {
	path    string // from the directory that is listed; empty or with a slash at the end
	real    string // from the root, without links; empty or with a slash at the end
	after   string // entries up to this one are on pages before; relative to path
	ignores *ignoreRules
}

func (l *lister) parseGlob() error {
	glob := strings.TrimPrefix(l.in.Glob, "./")
	l.recursive, l.globDepth = l.in.Recursive, -1
	if glob == "" {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return perigee.Errorf(perigee.ClassInvalid, "glob "+format, args...).WithHint("examples: *.go, src/**/*.ts, **/*_test.{js,ts}")
	}
	if len(glob) > 1000 || strings.Count(glob, "{") > 6 || strings.Count(glob, ",") > 40 {
		return refuse("is too long or has too many alternatives")
	}
	if !doublestar.ValidatePattern(glob) {
		return refuse("%q is malformed", l.in.Glob)
	}
	if l.glob, l.byName = glob, !strings.Contains(glob, "/"); l.byName {
		return nil
	}
	if strings.HasPrefix(glob, "/") || slices.Contains(strings.Split(glob, "/"), "..") {
		return refuse("%q is not relative to path", l.in.Glob)
	}
	l.recursive = true
	l.globBase, _ = doublestar.SplitPattern(glob)
	if !strings.Contains(glob, "**") {
		l.globDepth = strings.Count(glob, "/")
	}
	return nil
}

// query identifies the listing that a cursor belongs to.
func (l *lister) query() []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t %t", l.at.root.path, l.at.parts, l.glob, l.recursive, l.in.IncludeIgnored))
	return sum[:8]
}

func (l *lister) parseCursor() error {
	if l.in.Cursor == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(l.in.Cursor)
	if err != nil || len(raw) < 8 || !bytes.Equal(raw[:8], l.query()) {
		return perigee.Errorf(perigee.ClassInvalid, "cursor does not belong to this listing").
			WithHint("use next_cursor of the page before with the same path, glob, recursive and include_ignored, or leave it out")
	}
	l.after = string(raw[8:])
	return nil
}

func (l *lister) endPage() error {
	l.result.NextCursor = base64.RawURLEncoding.EncodeToString(append(l.query(), l.last...))
	return errPageFull
}

// ignoresAbove loads the ignore files from the root down to the last directory of the walk, without
// that one.
func (l *lister) ignoresAbove() (rules *ignoreRules) {
	w := l.walk
	for i, dir := range w.dirs[:len(w.dirs)-1] {
		var err error
		if rules, err = ignoresIn(rules, dir.dir, strings.Join(w.names[:i], "/"), func(string) bool { return true }); err != nil {
			l.fail(l.t.show(place{w.root, w.names[:i]}), err)
		}
	}
	return rules
}

// list lists the last directory of the walk from d.after on, in the order of full paths: "a",
// "a-b", "a/c".
func (l *lister) list(d listedDir) error {
	if names := l.walk.names; len(names) > 0 {
		d.real = strings.Join(names, "/") + "/"
	}
	names, below, err := l.readDir(&d)
	if err != nil && (d.path == "" || l.ctx.Err() != nil) {
		return err
	} else if err != nil {
		l.fail(l.show(d.path), err)
		return nil
	}
	for len(names) > 0 || len(below) > 0 {
		if err := l.ctx.Err(); err != nil {
			return perigee.AsError(err)
		}
		// The entries of a directory sort after names such as "a-b" and before "a0". The last
		// directory of below is the first.
		last := len(below) - 1
		if last >= 0 && (len(names) == 0 || below[last] < names[0]) {
			if err := l.enter(&d, strings.TrimSuffix(below[last], "/")); err != nil {
				return err
			}
			below = below[:last]
			continue
		}
		isDir, err := l.add(&d, names[0])
		if err != nil {
			return err
		}
		if l.recursive && isDir {
			below = append(below, names[0]+"/")
		}
		names = names[1:]
	}
	return nil
}

// readDir reads the names of a directory that are behind the cursor, and its ignore files. below
// has the names before the cursor, with a slash, that may be directories with a part behind it, in
// reverse order.
func (l *lister) readDir(d *listedDir) (names, below []string, err error) {
	dir := l.walk.top().dir
	f, err := dir.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	special := map[string]bool{}
	for err == nil {
		if err := l.ctx.Err(); err != nil {
			return nil, nil, perigee.AsError(err)
		}
		var some []string
		// Not ReadDir, which looks at every file in a directory of an os.Root.
		some, err = f.Readdirnames(4096)
		for _, name := range some {
			if name == ".gitignore" || name == ".ignore" || name == ".git" {
				special[name] = true
			}
			if name > d.after {
				names = append(names, name)
			} else if l.recursive && strings.HasPrefix(d.after, name) {
				if inside := name + "/"; inside > d.after || strings.HasPrefix(d.after, inside) {
					below = append(below, inside)
				}
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	slices.Sort(names)
	slices.Sort(below)
	slices.Reverse(below)
	if !l.in.IncludeIgnored {
		real := strings.TrimSuffix(d.real, "/")
		has := func(name string) bool { return special[name] }
		d.ignores, err = ignoresIn(d.ignores, dir, real, has)
		if err != nil {
			l.fail(l.show(d.path), err)
		}
	}
	return names, below, nil
}

// leftOut reports whether an entry is not listed because of its name, and whether an ignore file is
// the reason.
func (l *lister) leftOut(d *listedDir, name string, isDir bool) (leftOut, ignored bool) {
	if l.in.IncludeIgnored {
		return false, false
	}
	ignored = d.ignores.ignored(d.real+name, isDir)
	return ignored || name == ".git" || temporaryName().MatchString(name), ignored
}

// add adds an entry to the page, unless it is not to be listed, and reports whether it is a
// directory.
func (l *lister) add(d *listedDir, name string) (isDir bool, err error) {
	path := d.path + name
	if l.scanned++; l.scanned > maxScanned {
		return false, l.endPage()
	}
	info, err := l.walk.top().dir.Lstat(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // it may have been removed concurrently
			l.fail(l.show(path), err)
		}
		l.last = path
		return false, nil
	}
	listed := l.entry(d, name, path, info)
	if listed != nil && len(l.result.Entries) == l.t.page {
		return false, l.endPage()
	}
	if l.last = path; listed != nil {
		l.result.Entries = append(l.result.Entries, *listed)
	}
	return info.IsDir(), nil
}

// entry returns an entry, or nil if it is not to be listed.
func (l *lister) entry(d *listedDir, name, path string, info fs.FileInfo) *Entry {
	if leftOut, ignored := l.leftOut(d, name, info.IsDir()); leftOut {
		if ignored {
			l.result.Ignored++
		}
		return nil
	}
	if !l.matches(name, path) ||
		l.walk.guard.covers(info) || l.walk.guard.coversName(l.walk.top().info, []string{name}) {
		return nil
	}
	e := &Entry{Path: l.show(path), Type: "other", Modified: info.ModTime().UTC()}
	switch {
	case info.Mode().IsRegular():
		e.Type, e.Size = "file", info.Size()
	case info.IsDir():
		e.Type = "directory"
	case info.Mode()&fs.ModeSymlink != 0:
		e.Type = "symlink"
	}
	return e
}

func (l *lister) matches(name, path string) bool {
	switch {
	case l.glob == "":
		return true
	case l.byName:
		return doublestar.MatchUnvalidated(l.glob, name)
	}
	return doublestar.MatchUnvalidated(l.glob, path)
}

// enter lists a directory below.
func (l *lister) enter(d *listedDir, name string) error {
	w, path := l.walk, d.path+name
	leftOut, _ := l.leftOut(d, name, true)
	if leftOut || !l.mayMatchBelow(path) || w.guard.coversName(w.top().info, []string{name}) {
		return nil
	}
	if len(w.names) >= maxDepth {
		l.fail(l.show(path), fmt.Errorf("it is more than %d directories deep", maxDepth))
		return nil
	}
	info, err := w.top().dir.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil // removed or replaced concurrently
	}
	entered, err := w.down(name, info)
	if err != nil {
		l.fail(l.show(path), err)
	}
	if !entered {
		return nil
	}
	defer w.pop()
	if w.guard.covers(w.top().info) {
		return nil
	}
	after, inside := strings.CutPrefix(d.after, name+"/")
	if !inside {
		after = ""
	}
	return l.list(listedDir{path: path + "/", after: after, ignores: d.ignores})
}

// mayMatchBelow reports whether the glob can match anything in a directory.
func (l *lister) mayMatchBelow(path string) bool {
	if l.globDepth >= 0 && strings.Count(path, "/") >= l.globDepth {
		return false
	}
	base := l.globBase
	return base == "" || base == "." ||
		strings.HasPrefix(path+"/", base+"/") || strings.HasPrefix(base+"/", path+"/")
}

// show returns a path below the directory that is listed as results contain it.
func (l *lister) show(path string) string {
	return l.t.show(place{l.at.root, append(slices.Clone(l.at.parts), split(path)...)})
}

func (l *lister) fail(path string, err error) {
	if len(l.result.Errors) < maxListErrors {
		l.result.Errors = append(l.result.Errors, ListError{Path: path, Message: reason(err)})
	}
}
