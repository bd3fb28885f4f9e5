package trace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A ring counts the bytes of all traces and removes the oldest ones. It belongs to the writing
// goroutine.
type ring struct {
	scan    <-chan []*entry // the entries of the directory when the Store was created, sent once
	scanned bool
	entries []*entry // the oldest first
	total   int64
}

// An entry is the directory of a call.
type entry struct {
	path string // from the directory of all traces: day and name
	size int64
	open bool // the call writes to it
}

// list returns the entries of the directory, the oldest first, or a part of them if ctx ends.
func list(ctx context.Context, dir string) (list []*entry) {
	for path := range directories(dir) {
		if ctx.Err() != nil {
			break
		}
		day, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		list = append(list, &entry{path: filepath.Join(day, name), size: sizeOf(path)})
	}
	slices.Reverse(list)
	return list
}

// sizeOf is the size of the files in the directory of a call.
func sizeOf(dir string) (size int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}

// Size returns how many calls have a directory, and the size of their files.
func Size(dir string) (calls, bytes int64) {
	for path := range directories(dir) {
		calls++
		bytes += sizeOf(path)
	}
	return calls, bytes
}

// add puts the entries found in the directory before the entries written since. Entries that are in
// both are not in older.
func (r *ring) add(found []*entry) (older []*entry) {
	known := make(map[string]bool, len(r.entries))
	for _, e := range r.entries {
		known[e.path] = true
	}
	var list []*entry
	for _, e := range found {
		if !known[e.path] {
			list = append(list, e)
			r.total += e.size
		}
	}
	r.entries, r.scanned, r.scan = slices.Concat(list, r.entries), true, nil
	return list
}

// begin adds the directory of a call that begins, and returns its entry.
func (r *ring) begin(path string) *entry {
	e := &entry{path: path, open: true}
	r.entries = append(r.entries, e)
	return e
}

// grow adds bytes to the size of a call.
func (r *ring) grow(e *entry, bytes int64) {
	e.size += bytes
	r.total += bytes
}

// trim removes the oldest calls that have ended until the limit is kept. Before the directory is
// known it removes none.
func (r *ring) trim(d *disk, keep int64, warn func(message string, args ...any)) {
	if !r.scanned || r.total <= keep {
		return
	}
	kept := r.entries[:0]
	for i, e := range r.entries {
		if r.total <= keep {
			kept = append(kept, r.entries[i:]...)
			break
		}
		if e.open {
			kept = append(kept, e)
			continue
		}
		if err := d.remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			warn("trace not removed", "directory", filepath.Join(d.dir, e.path), "error", err)
		}
		r.total -= e.size // also if it failed: the next start counts it again
	}
	clear(r.entries[len(kept):])
	r.entries = kept
}

// removeOldest removes the oldest call that has ended, and returns its size. ok is false if there
// is none.
func (r *ring) removeOldest(d *disk) (size int64, ok bool) {
	i := slices.IndexFunc(r.entries, func(e *entry) bool { return !e.open })
	if i < 0 {
		return 0, false
	}
	e := r.entries[i]
	_ = d.remove(e.path) // remaining files are counted at the next start
	r.total -= e.size
	r.entries = slices.Delete(r.entries, i, i+1)
	return e.size, true
}
