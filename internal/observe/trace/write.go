package trace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"perigee"
	"perigee/internal/lib/redact"
)

// A batch is the data of a call since the last write.
type batch struct {
	files  []part
	call   perigee.Call
	ended  bool // call is complete
	done   bool // and so is the client's answer
	bodies int  // bytes
}

// A part is the data for one file.
type part struct {
	file     *file
	chunks   [][]byte
	complete bool
}

// take removes and returns the pending data of the call.
func (w *watcher) take() (b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.call, b.ended, b.done = w.call, w.over(), w.done
	w.queued, w.urgent = false, false
	if !b.ended && !w.ended.IsZero() {
		w.enqueue() // to be written again, when it is over
	}
	b.bodies, w.waiting = w.waiting, 0
	add := func(f *file, complete bool) {
		if f == nil || f.closed || len(f.chunks) == 0 && !complete {
			return
		}
		b.files = append(b.files, part{f, f.chunks, complete})
		f.chunks = nil
	}
	add(w.request, w.request != nil && w.request.complete)
	for i, e := range w.exchanges {
		add(e.request, e.request != nil && e.request.complete)
		add(e.answer, b.ended || i < len(w.exchanges)-1)
	}
	add(w.events, b.ended)
	add(w.answer, b.ended && b.done)
	return b
}

// flush writes the pending data. Only the writing goroutine calls it.
func (w *watcher) flush(r *redact.Redactor) {
	b := w.take()
	defer w.release(&b)
	dir, err := w.openDir()
	if err != nil {
		if !w.failed {
			w.store.warn("trace not written", "directory", filepath.Join(w.store.opts.Dir, w.path()), "error", err)
		}
		w.fail()
		return
	}
	if dir == nil {
		return
	}
	defer func() { _ = dir.Close() }()
	for _, p := range b.files {
		w.writeFile(dir, r, p)
	}
	if b.ended && b.done {
		w.redactDeltas(dir, r, b.call.Outcome != perigee.OutcomeDone)
	}
	w.writeMeta(dir, r, &b)
	if b.ended && b.done {
		w.entry.open = false
	}
}

// openDir opens the directory of the call, and creates it the first time. The result is nil after a
// failure.
func (w *watcher) openDir() (*os.Root, error) {
	s := w.store
	switch {
	case w.failed:
		return nil, nil
	case w.entry != nil:
		return s.disk.openCall(w.path())
	}
	dir, err := s.disk.mkdir(w.day, w.name)
	if err == nil {
		w.entry = s.ring.begin(w.path())
	}
	return dir, err
}

// fail ends the trace of a call if its directory cannot be written, or was removed.
func (w *watcher) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
	if w.entry != nil {
		w.entry.open = false
	}
	for _, f := range w.files() {
		w.drop(f)
	}
}

// files returns all files of the call that bodies are written to. Some may be nil.
func (w *watcher) files() []*file {
	list := []*file{w.request, w.answer, w.events}
	for _, e := range w.exchanges {
		list = append(list, e.request, e.answer)
	}
	return list
}

// drop discards the pending data of a file.
func (w *watcher) drop(f *file) {
	if f == nil {
		return
	}
	for _, c := range f.chunks {
		w.store.queued.Add(-int64(len(c)))
		w.waiting -= len(c)
		free(c)
	}
	f.chunks = nil
}

// release gives the memory of a batch back.
func (w *watcher) release(b *batch) {
	w.store.queued.Add(-int64(b.bodies))
	for _, p := range b.files {
		for _, c := range p.chunks {
			free(c)
		}
	}
}

// maxScratch is the number of redacted bytes that are buffered before they are written.
const maxScratch = 1 << 20

// writeFile writes the part of a file. A file that could not be written gets no more.
func (w *watcher) writeFile(dir *os.Root, r *redact.Redactor, p part) {
	f := p.file
	s := w.store
	if f.closed || !f.created && len(p.chunks) == 0 {
		return
	}
	if f.name == "" {
		f.name = UpstreamResponse(f.exchange, isStream(p.chunks[0]))
	}
	out := s.disk.scratch[:0]
	for _, c := range p.chunks {
		if out = f.redacted.Append(out, r, c); len(out) >= maxScratch {
			w.writeOut(dir, f, out)
			out = out[:0]
		}
	}
	if p.complete {
		out, f.closed = f.redacted.Close(out, r), true
	}
	w.writeOut(dir, f, out)
	s.disk.scratch = out
}

// maxJoined is the size of the files that are searched for secrets spelled over several events.
const maxJoined = 16 << 20

// redactDeltas removes secrets that are spread over several events of an answer: while the call
// runs, only the bytes of each file are searched. It reads events.jsonl, and further files only if
// that has such a secret. An answer that was cut off may end in the middle of a secret.
func (w *watcher) redactDeltas(dir *os.Root, r *redact.Redactor, cut bool) {
	if w.events == nil || !w.events.created || w.events.written > maxJoined {
		return
	}
	if events, err := dir.ReadFile(EventsName); err != nil || !r.HasSpread(events, cut) {
		return
	}
	list := []*file{w.events, w.answer}
	for _, e := range w.exchanges {
		list = append(list, e.answer)
	}
	truncated := w.truncated()
	for _, f := range list {
		if f == nil || !f.created {
			continue
		}
		grown, err := joinDeltas(dir, r, f.name, cut || truncated[f.name] != "")
		if err != nil {
			w.store.warn("trace not redacted", "file", filepath.Join(w.store.opts.Dir, w.path(), f.name), "error", err)
			continue
		}
		w.store.ring.grow(w.entry, grown)
	}
}

// joinDeltas removes secrets that a file spells over several events. It returns how much the file
// grew.
func joinDeltas(dir *os.Root, r *redact.Redactor, name string, cut bool) (grown int64, err error) {
	if size, found := sizeIn(dir, name); !found || size > maxJoined {
		return 0, nil
	}
	text, err := dir.ReadFile(name)
	if err != nil {
		return 0, err
	}
	clean := r.Deltas(text, cut)
	if bytes.Equal(clean, text) {
		return 0, nil
	}
	return int64(len(clean) - len(text)), replace(dir, name, clean)
}

// redactUnended does the work of redactDeltas for traces of calls that did not end because perigee
// was killed. It may run concurrently with the writing goroutine, because these directories get no
// more files. A directory may be removed while it runs.
func (s *Store) redactUnended(ctx context.Context, found []*entry) {
	for _, e := range found {
		if ctx.Err() != nil {
			return
		}
		t := Trace{Dir: filepath.Join(s.opts.Dir, e.path)}
		if err := t.readMeta(""); err != nil || t.Meta.Outcome != perigee.OutcomeOpen {
			continue
		}
		if err := t.redactDeltas(s.opts.Redactor()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.warn("trace not redacted", "directory", t.Dir, "error", err)
		}
	}
}

func (t *Trace) redactDeltas(r *redact.Redactor) error {
	dir, err := os.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for _, name := range t.Files() {
		if IsAnswer(name) {
			_, wrong := joinDeltas(dir, r, name, true)
			err = errors.Join(err, wrong)
		}
	}
	return err
}

var errLowSpace = errors.New("the disk is almost full")

func (w *watcher) writeOut(dir *os.Root, f *file, data []byte) {
	if len(data) == 0 && f.created {
		return
	}
	w.mu.Lock()
	refused := f.truncated == TruncatedDisk
	w.mu.Unlock()
	if refused {
		return
	}
	err := errLowSpace
	if s := &w.store.space; len(data) == 0 || s.left > int64(len(data)) || w.store.makeRoom() {
		err = appendTo(dir, f.name, data, !f.created)
		s.left -= int64(len(data))
	}
	if err == nil {
		f.created, f.written = true, f.written+int64(len(data))
		w.store.ring.grow(w.entry, int64(len(data)))
		return
	}
	w.store.warn("trace not written", "file", filepath.Join(w.store.opts.Dir, w.path(), f.name), "error", err)
	if size, found := sizeIn(dir, f.name); found { // a part was written
		f.created = true
		w.store.ring.grow(w.entry, max(0, size-f.written))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f.truncated = TruncatedDisk
	w.drop(f)
}
