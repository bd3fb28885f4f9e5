package filetool

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	linkedFilesAge = 5 * time.Second // how long the files in forbidden directories are remembered
	maxLinkedFiles = 20_000          // how many of them are looked at, if no other number is set
)

// A guard has the forbidden files and directories of one access. Files are compared by device and
// inode, so that links, hard links and other spellings of a path make no difference, and by name in
// their directory, so that missing ones cannot be created.
type guard struct {
	shared  *shared
	entries []guarded
}

type guarded struct {
	info   fs.FileInfo // nil if there is nothing
	parent fs.FileInfo // the nearest directory above that exists
	rest   []string    // the path from there
}

func (t *Tools) newGuard() *guard {
	g := &guard{shared: t.shared}
	for _, path := range t.shared.forbidden {
		e := guarded{}
		e.info, _ = os.Stat(path)
		for dir, last := filepath.Dir(path), path; last != dir; dir, last = filepath.Dir(dir), dir {
			e.rest = append(e.rest, filepath.Base(last))
			if info, err := os.Stat(dir); err == nil {
				e.parent = info
				break
			}
		}
		slices.Reverse(e.rest)
		g.entries = append(g.entries, e)
	}
	return g
}

// covers reports whether a file or directory is forbidden itself. Files in a forbidden directory
// are reached only through it, or by a hard link.
func (g *guard) covers(info fs.FileInfo) bool {
	for _, e := range g.entries {
		if e.info != nil && os.SameFile(e.info, info) {
			return true
		}
	}
	return len(g.entries) > 0 && info.Mode().IsRegular() && mayHaveLinks(info) && g.shared.linked.contains(info, g.shared.forbidden)
}

// coversName reports whether a path that starts in dir is, or leads through, a forbidden name.
func (g *guard) coversName(dir fs.FileInfo, parts []string) bool {
	for _, e := range g.entries {
		if e.parent == nil || len(e.rest) == 0 || len(parts) < len(e.rest) || !os.SameFile(e.parent, dir) {
			continue
		}
		if slices.EqualFunc(e.rest, parts[:len(e.rest)], strings.EqualFold) {
			return true
		}
	}
	return false
}

// linkedFiles are the files in forbidden directories that have a second name, which may be
// anywhere. If there are more files than are looked at, every file with several names could be one
// of them.
type linkedFiles struct {
	most int // the maximum number of files and directories to visit; maxLinkedFiles if 0

	mu    sync.Mutex
	taken time.Time
	files []fs.FileInfo
	cut   bool // there were more
}

func (l *linkedFiles) contains(info fs.FileInfo, forbidden []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken.IsZero() || time.Since(l.taken) > linkedFilesAge {
		l.files, l.cut = findLinked(forbidden, cmp.Or(l.most, maxLinkedFiles))
		l.taken = time.Now()
	}
	return l.cut || slices.ContainsFunc(l.files, func(file fs.FileInfo) bool { return os.SameFile(file, info) })
}

func findLinked(paths []string, most int) (files []fs.FileInfo, cut bool) {
	seen := 0
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if seen++; seen > most {
				cut = true
				return fs.SkipAll
			}
			if entry != nil && entry.IsDir() && isBulk(path, name) {
				return fs.SkipDir
			}
			if err != nil || !entry.Type().IsRegular() {
				return nil // unreadable entries are left out
			}
			if info, err := entry.Info(); err == nil && mayHaveLinks(info) {
				files = append(files, info)
			}
			return nil
		})
	}
	return files, cut
}

// isBulk reports whether a directory has many files and no credentials: traces, in which secrets
// are replaced, and the data of language servers, such as conversations. The credentials of those
// are directly below .gemini in their home.
func isBulk(dataDir, path string) bool {
	rest, err := filepath.Rel(dataDir, path)
	if err != nil {
		return false
	}
	parts := strings.Split(filepath.ToSlash(rest), "/")
	return len(parts) == 1 && parts[0] == "traces" || len(parts) == 5 && parts[0] == "langserver" && parts[2] == "home"
}
