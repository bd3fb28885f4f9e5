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
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"perigee"
	"perigee/internal/lib/filetool/ignore"
)

const (
	pageSize      = 1000    // entries of one answer
	maxScanned    = 500_000 // names that are looked at for one answer
	maxListErrors = 20      // errors that are named in one answer
)

// ListInput is the input of list_files.
type ListInput struct {
	Path string `json:"path,omitzero" jsonschema:"the directory; the first root if left out"`
	// Glob is a doublestar pattern for paths below the directory; without a slash it is for base names. With a slash, directories
	// below are listed too, whatever Recursive says.
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

// A ListError says why a directory, or an entry of it, is missing from a listing.
type ListError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// List lists a directory. A page costs the directories that its entries are in: nothing before the cursor is sorted or looked at
// again. If files come and go between two pages, entries that stay are listed exactly once.
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
	l.guard = w.guard
	start := listedDir{openDir: w.top(), real: strings.Join(w.names, "/"), depth: len(w.names), after: l.after}
	if !in.IncludeIgnored {
		start.ignores = l.ignoresAbove(w)
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
	guard  *guard
	result *ListResult

	recursive bool
	glob      string
	byName    bool   // glob is for base names
	globBase  string // the directory that everything that glob matches is in
	globDepth int    // how many directories below there can be matches; -1: any number

	after   string // the last path that the cursor has seen
	last    string // the last path that was looked at
	scanned int
}

// A listedDir is a directory on the way down.
type listedDir struct {
	openDir
	path    string // from the directory that is listed; empty or with a slash at the end
	real    string // from the root, without links
	depth   int
	after   string // entries up to this one are on pages before; relative to path
	ignores *ignore.Rules
}

func (d *listedDir) realPath(name string) string {
	if d.real == "" {
		return name
	}
	return d.real + "/" + name
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

// query identifies what a cursor belongs to.
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

// ignoresAbove loads the ignore files from the root down to the last directory of a walk, without that one.
func (l *lister) ignoresAbove(w *walk) (rules *ignore.Rules) {
	for i, dir := range w.dirs[:len(w.dirs)-1] {
		var err error
		if rules, err = ignoresIn(rules, dir.dir, strings.Join(w.names[:i], "/"), func(string) bool { return true }); err != nil {
			l.fail(l.t.show(place{w.root, w.names[:i]}), err)
		}
	}
	return rules
}

// list lists a directory from d.after on, in the order of full paths: "a", "a-b", "a/c".
func (l *lister) list(d listedDir) error {
	items, err := l.readDir(&d)
	if errors.Is(err, errPageFull) || l.ctx.Err() != nil {
		return err
	} else if err != nil && d.path == "" {
		return err
	} else if err != nil {
		l.fail(l.show(strings.TrimSuffix(d.path, "/")), err)
		return nil
	}
	for len(items) > 0 {
		if err := l.ctx.Err(); err != nil {
			return perigee.AsError(err)
		}
		item := items.pop()
		if name, below := strings.CutSuffix(item, "/"); below {
			err = l.enter(&d, name)
		} else {
			err = l.add(&d, name, &items)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir reads the names of a directory that are behind the cursor, and its ignore files.
func (l *lister) readDir(d *listedDir) (items listItems, err error) {
	f, err := d.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	special := map[string]bool{}
	for {
		if err := l.ctx.Err(); err != nil {
			return nil, perigee.AsError(err)
		}
		names, err := f.Readdirnames(4096) // not ReadDir, which looks at every file in a directory of an os.Root
		for _, name := range names {
			if name == ".gitignore" || name == ".ignore" || name == ".git" {
				special[name] = true
			}
			if name > d.after {
				items = append(items, name)
			} else if l.recursive && strings.HasPrefix(d.after, name) { // a directory, perhaps with a part behind the cursor
				if below := name + "/"; below > d.after || strings.HasPrefix(d.after, below) {
					items = append(items, below)
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	items.init()
	if !l.in.IncludeIgnored {
		d.ignores, err = ignoresIn(d.ignores, d.dir, d.real, func(name string) bool { return special[name] })
		if err != nil {
			l.fail(l.show(strings.TrimSuffix(d.path, "/")), err)
		}
	}
	return items, nil
}

// leftOut reports whether an entry is not listed because of its name, and whether an ignore file says so.
func (l *lister) leftOut(d *listedDir, name string, isDir bool) (leftOut, ignored bool) {
	if l.in.IncludeIgnored {
		return false, false
	}
	ignored = d.ignores.Ignored(d.realPath(name), isDir)
	return ignored || name == ".git" || temporaryName.MatchString(name), ignored
}

// add adds an entry to the page, and what is below it to the items of its directory.
func (l *lister) add(d *listedDir, name string, items *listItems) error {
	path := d.path + name
	if l.scanned++; l.scanned > maxScanned {
		return l.endPage()
	}
	info, err := d.dir.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have been removed meanwhile
		l.fail(l.show(path), err)
	}
	var listed *Entry
	if err == nil {
		listed = l.entry(d, name, path, info)
	}
	if listed != nil && len(l.result.Entries) == l.t.page {
		return l.endPage()
	}
	if l.last = path; listed != nil {
		l.result.Entries = append(l.result.Entries, *listed)
	}
	if l.recursive && err == nil && info.IsDir() {
		items.push(name + "/")
	}
	return nil
}

// entry returns an entry, or nil if it is not to be listed.
func (l *lister) entry(d *listedDir, name, path string, info fs.FileInfo) *Entry {
	if leftOut, ignored := l.leftOut(d, name, info.IsDir()); leftOut {
		if ignored {
			l.result.Ignored++
		}
		return nil
	}
	if !l.matches(name, path) || l.guard.covers(info) || l.guard.coversName(d.info, []string{name}) {
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
	path := d.path + name
	if leftOut, _ := l.leftOut(d, name, true); leftOut || !l.mayMatchBelow(path) || l.guard.coversName(d.info, []string{name}) {
		return nil
	}
	if d.depth >= maxDepth {
		l.fail(l.show(path), fmt.Errorf("it is more than %d directories deep", maxDepth))
		return nil
	}
	was, err := d.dir.Lstat(name)
	if err != nil || !was.IsDir() {
		return nil // removed or swapped meanwhile
	}
	sub, info, err := openSub(d.dir, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !escapes(err) {
			l.fail(l.show(path), err)
		}
		return nil
	}
	defer func() { _ = sub.Close() }()
	if !os.SameFile(was, info) || l.guard.covers(info) {
		return nil
	}
	after, inside := strings.CutPrefix(d.after, name+"/")
	if !inside {
		after = ""
	}
	return l.list(listedDir{openDir: openDir{sub, info}, path: path + "/", real: d.realPath(name), depth: d.depth + 1, after: after,
		ignores: d.ignores})
}

// mayMatchBelow reports whether the glob can match anything in a directory.
func (l *lister) mayMatchBelow(path string) bool {
	if l.globBase == "" || l.globBase == "." {
		return l.globDepth < 0 || strings.Count(path, "/") < l.globDepth
	}
	return (l.globDepth < 0 || strings.Count(path, "/") < l.globDepth) &&
		(strings.HasPrefix(path+"/", l.globBase+"/") || strings.HasPrefix(l.globBase+"/", path+"/"))
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

// listItems is a heap of the names in a directory. A page of a large directory needs its first thousand names in order, not all of
// them. What is below a name is an item with a slash at the end, which is behind names such as "a-b" and before "a0".
type listItems []string

func (h listItems) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h listItems) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child] < h[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (h *listItems) push(item string) {
	*h = append(*h, item)
	items := *h
	for i := len(items) - 1; i > 0 && items[i] < items[(i-1)/2]; i = (i - 1) / 2 {
		items[i], items[(i-1)/2] = items[(i-1)/2], items[i]
	}
}

func (h *listItems) pop() string {
	old := *h
	first, last := old[0], len(old)-1
	old[0] = old[last]
	*h = old[:last]
	h.down(0)
	return first
}
