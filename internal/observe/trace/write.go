package trace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
)

// A batch is the data of a call since the last write.
type batch struct {
	files []part
	call  perigee.Call
	first bool // nothing of the call was written before
	stage stage
	ended bool // call is complete
	done  bool // and so is the client's answer
	size  int64
}

// A part is the data for one file.
type part struct {
	file *file
	pending
	complete bool
	cut      bool // it may break off in the middle of a secret
}

// clean returns text, which is all of the file or its end, without a secret that it breaks off in.
func (p *part) clean(r *redact.Redactor, text []byte) []byte {
	if p.cut {
		return r.BrokenOff(text)
	}
	return text
}

// take removes and returns the pending data of the call. It returns false if nothing is to be
// written: the call is dropped, or held until it is over. pressed is true if it is not to be held.
func (w *watcher) take(pressed bool) (b batch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.urgent = false, false
	if w.gone {
		return b, false
	}
	b.call, b.ended, b.done, b.size = w.call, w.over(), w.done, w.size()
	if b.first = !w.begun; b.first {
		b.stage = w.store.budget.stage(b.size)
		switch {
		case b.ended && b.stage == stageSpent && w.expendable():
			w.discard()
			return b, false
		case b.ended, pressed, b.stage == stagePlenty, b.stage == stageLow && time.Since(w.watched) >= flushPause:
			w.store.budget.begin()
			w.begun = true
		default:
			w.enqueue()
			return b, false
		}
	}
	if !b.ended && !w.ended.IsZero() {
		w.enqueue() // to be written again, when it is over
	}
	w.waiting = 0
	add := func(f *file, complete, cut bool) {
		if f == nil || f.closed || len(f.pending.chunks) == 0 && !complete {
			return
		}
		b.files = append(b.files, part{f, f.pending, complete, cut || f.truncated != ""})
		f.pending = pending{}
	}
	failed := b.call.Outcome != perigee.OutcomeDone
	add(w.request, w.request != nil && w.request.complete, false)
	for i, e := range w.exchanges {
		last := i == len(w.exchanges)-1
		add(e.request, e.request != nil && e.request.complete, false)
		add(e.answer, b.ended || !last, failed || !last)
	}
	add(w.events, b.ended, failed)
	add(w.answer, b.ended && b.done, failed)
	return b, true
}

// flush writes the pending data. Only the writing goroutine calls it.
func (w *watcher) flush(r *redact.Redactor, pressed bool) {
	b, ok := w.take(pressed)
	if !ok {
		return
	}
	defer w.release(&b)
	dir, err := w.openDir()
	if err != nil {
		w.fail(err)
		return
	}
	defer func() { _ = dir.Close() }()
	if b.packs() {
		w.writePacked(dir, r, &b)
		return
	}
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

// openDir opens the directory of the call, and creates it the first time.
func (w *watcher) openDir() (*os.Root, error) {
	s := w.store
	if w.entry != nil {
		return s.disk.openCall(w.path())
	}
	dir, err := s.disk.mkdir(w.place())
	if err == nil {
		w.entry = s.ring.begin(w.path())
	}
	return dir, err
}

// fail ends the trace of a call if its directory cannot be written, or was removed.
func (w *watcher) fail(err error) {
	w.store.warn("trace not written", "directory", filepath.Join(w.store.opts.Dir, w.path()), "error", err)
	w.end()
}

// end ends the trace of a call. No more is written.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entry != nil {
		w.entry.open = false
	}
	w.drop()
}

// files returns all files of the call that bodies are written to. Some may be nil.
func (w *watcher) files() []*file {
	list := make([]*file, 0, 8)
	list = append(list, w.request, w.answer, w.events)
	for _, e := range w.exchanges {
		list = append(list, e.request, e.answer)
	}
	return list
}

// release releases the memory of a batch.
func (w *watcher) release(b *batch) {
	for i := range b.files {
		w.store.release(&b.files[i].pending)
	}
	w.store.large.CompareAndSwap(w, nil)
}

// maxScratch is the number of redacted bytes that are buffered before they are written, and maxPiece
// the number that is redacted at once: a piece of a request may be as large as the request.
const (
	maxScratch = 1 << 20
	maxPiece   = 64 << 10
)

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
	if p.complete && len(p.chunks) == 1 && f.size == int64(len(p.chunks[0])) { // all of it
		f.closed = true
		w.writeOut(dir, f, p.clean(r, r.Clean(p.chunks[0])))
		return
	}
	out := s.disk.scratch[:0]
	for _, c := range p.chunks {
		for piece := range slices.Chunk(c, maxPiece) {
			if out = f.redacted.Append(out, r, piece); len(out) >= maxScratch {
				w.writeOut(dir, f, out)
				out = out[:0]
			}
		}
	}
	if p.complete {
		out, f.closed = p.clean(r, f.redacted.Close(out, r)), true
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
		size, err := joinDeltas(dir, r, f.name, cut || truncated[f.name] != "")
		if err != nil {
			w.store.warn("trace not redacted", "file", filepath.Join(w.store.opts.Dir, w.path(), f.name), "error", err)
			continue
		}
		if size > 0 {
			w.store.ring.grow(w.entry, f.written, size)
			f.written = size
		}
	}
}

// joinDeltas removes secrets that a file spells over several events. It returns the new size of the
// file; 0 if it is not changed.
func joinDeltas(dir *os.Root, r *redact.Redactor, name string, cut bool) (changed int64, err error) {
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
	return int64(len(clean)), replace(dir, name, clean)
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
	err := w.writeTo(dir, f.name, data, !f.created)
	if err == nil {
		w.store.ring.grow(w.entry, f.written, f.written+int64(len(data)))
		f.created, f.written = true, f.written+int64(len(data))
		return
	}
	w.store.warn("trace not written", "file", filepath.Join(w.store.opts.Dir, w.path(), f.name), "error", err)
	if size, found := sizeIn(dir, f.name); found { // a part was written
		f.created = true
		w.store.ring.grow(w.entry, f.written, max(f.written, size))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f.truncated = TruncatedDisk
	w.dropFile(f)
}

// writeTo appends to a file, or creates it, if the disk has enough free space.
func (w *watcher) writeTo(dir *os.Root, name string, data []byte, create bool) error {
	s := &w.store.space
	if len(data) > 0 && s.left <= int64(len(data)) && !w.store.makeRoom() {
		return errLowSpace
	}
	s.left -= int64(len(data))
	return appendTo(dir, name, data, create)
}
