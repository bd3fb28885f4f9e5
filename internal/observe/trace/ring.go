package trace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A ring counts the space of all traces and removes the oldest ones. It belongs to the writing
// goroutine, except for find.
type ring struct {
	scan    <-chan []*entry // the entries of the directory when the Store was created, sent once
	entries []*entry        // the oldest first
	days    map[string]int  // the number of entries of each day
	total   int64
	max     int // entries

	mu      sync.RWMutex
	byID    map[string]*entry
	scanned bool
}

// An entry is the directory of a call.
type entry struct {
	path   string // from the directory of all traces: day and name
	size   int64  // on the disk
	open   bool   // the call writes to it
	packed bool   // it has one file, PackedName
}

// MaxCalls is the default of Options.MaxCalls.
const MaxCalls = 10_000

// blockSize is what the size of a file or directory is rounded up to.
const blockSize = 4 << 10

// onDisk returns the space of a file with so many bytes.
func onDisk(bytes int64) int64 { return (bytes + blockSize - 1) / blockSize * blockSize }

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

// sizeOf is the space that the directory of a call and its files take on the disk.
func sizeOf(dir string) (size int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	if info, err := os.Lstat(dir); err == nil {
		size = spaceOf(info)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			size += spaceOf(info)
		}
	}
	return size
}

// Size returns how many calls have a directory, and the space of these on the disk.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[string]bool, len(r.entries))
	for _, e := range r.entries {
		known[e.path] = true
	}
	for _, e := range found {
		if !known[e.path] {
			older = append(older, e)
			r.count(e)
		}
	}
	r.entries, r.scanned, r.scan = slices.Concat(older, r.entries), true, nil
	return older
}

// count adds an entry to the sums and the index.
func (r *ring) count(e *entry) {
	if r.byID == nil {
		r.byID, r.days = map[string]*entry{}, map[string]int{}
	}
	r.byID[e.id()] = e
	r.days[filepath.Dir(e.path)]++
	r.total += e.size
}

// id is the ID of the call.
func (e *entry) id() string { return idOf(filepath.Base(e.path)) }

// find returns the path of the directory of a call; empty if there is none. Any goroutine may call
// it. known is false if the directory is not scanned yet.
func (r *ring) find(id string) (path string, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byID[id]; e != nil {
		return e.path, true
	}
	return "", r.scanned
}

// begin adds the directory of a call that begins, and returns its entry.
func (r *ring) begin(path string) *entry {
	e := &entry{path: path, size: blockSize, open: true}
	r.entries = append(r.entries, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(e)
	return e
}

// grow changes the size of a call: one of its files had before bytes, and has after bytes now.
func (r *ring) grow(e *entry, before, after int64) {
	bytes := onDisk(after) - onDisk(before)
	e.size += bytes
	r.total += bytes
}

// trim removes the oldest calls that have ended until the limits are kept. Before the directory is
// known it removes none. keep returns the limit of bytes, which may change meanwhile.
func (r *ring) trim(d *disk, keep func() int64, warn func(message string, args ...any)) {
	if !r.scanned || r.total <= keep() && len(r.entries) <= r.max {
		return
	}
	kept := r.entries[:0]
	for i, e := range r.entries {
		if left := len(kept) + len(r.entries) - i; r.total <= keep() && left <= r.max {
			kept = append(kept, r.entries[i:]...)
			break
		}
		if e.open {
			kept = append(kept, e)
			continue
		}
		if err := r.remove(d, e); err != nil && !errors.Is(err, fs.ErrNotExist) {
			warn("trace not removed", "directory", filepath.Join(d.dir, e.path), "error", err)
		}
	}
	clear(r.entries[len(kept):])
	r.entries = kept
}

// remove removes the directory of a call from the disk, and the directory of its day with the last.
// The caller removes it from the entries. If it fails, the next start counts it again.
func (r *ring) remove(d *disk, e *entry) error {
	day := filepath.Dir(e.path)
	r.mu.Lock()
	delete(r.byID, e.id())
	r.mu.Unlock()
	r.total -= e.size
	err := d.remove(e)
	if r.days[day]--; r.days[day] == 0 {
		delete(r.days, day)
		d.removeDay(day)
	}
	return err
}

// removeOldest removes the oldest call that has ended, and returns its size. ok is false if there
// is none.
func (r *ring) removeOldest(d *disk) (size int64, ok bool) {
	i := slices.IndexFunc(r.entries, func(e *entry) bool { return !e.open })
	if i < 0 {
		return 0, false
	}
	e := r.entries[i]
	_ = r.remove(d, e)
	r.entries = slices.Delete(r.entries, i, i+1)
	return e.size, true
}
