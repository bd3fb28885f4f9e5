package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"perigee"
	"perigee/internal/lib/redact"
)

// PackedName is the file that has all files of a call, for calls that are written while the machine
// is busy. Its first line is a JSON object, a table. The files follow, each after a line with its
// name. meta.json is the last one, as in a directory of files: the trace has no outcome before it
// is whole.
const PackedName = "trace.txt"

// A table is the first line of PackedName.
type table struct {
	Files []packedFile `json:"files"`
}

// A packedFile is where a file is in PackedName. Two files with the same content are there once.
type packedFile struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // bytes after the first line
	Size int64  `json:"size"`
}

// maxPacked is the size of the bodies up to which a call is written as one file.
const maxPacked = 1 << 20

// packs reports whether the call is written as one file.
func (b *batch) packs() bool {
	return b.first && b.ended && b.done && b.stage != stagePlenty && b.size <= maxPacked &&
		len(b.files) > 0 && b.files[0].file.name == ClientRequestName && len(b.files[0].chunks) > 0
}

// writePacked writes a call that is over as one file.
func (w *watcher) writePacked(dir *os.Root, r *redact.Redactor, b *batch) {
	s := w.store
	defer w.end()
	files := w.packBodies(r, b)
	m := w.describe(r, b)
	if truncated := w.truncated(); len(truncated) > 0 {
		m.Truncated = truncated
	}
	var err error
	for _, d := range append(w.outcome(cleaner{r}, &b.call, m.Status), document{MetaName, m}) {
		data, wrong := d.encode()
		err = errors.Join(err, wrong)
		files = append(files, content{d.name, data})
	}
	if err == nil {
		s.disk.scratch = pack(s.disk.scratch[:0], files)
		err = w.writeTo(dir, PackedName, s.disk.scratch, true)
	}
	if err != nil {
		s.warn("trace not written", "file", filepath.Join(s.opts.Dir, w.path(), PackedName), "error", err)
		return
	}
	s.ring.grow(w.entry, 0, int64(len(s.disk.scratch)))
	w.entry.packed = true
}

// A content is a file of a call.
type content struct {
	name string
	data []byte
}

// packBodies returns the bodies and the events without secrets. A request to a provider that is the
// client's, byte for byte, is the same memory.
func (w *watcher) packBodies(r *redact.Redactor, b *batch) (list []content) {
	var request, clean, events []byte
	for _, p := range b.files {
		f := p.file
		if len(p.chunks) == 0 {
			continue
		}
		if f.name == "" {
			f.name = UpstreamResponse(f.exchange, isStream(p.chunks[0]))
		}
		data := p.chunks[0]
		if len(p.chunks) > 1 {
			data = slices.Concat(p.chunks...)
		}
		switch {
		case f == w.request:
			request, clean = data, r.Clean(data)
			data = clean
		case bytes.Equal(data, request):
			data = clean
		default:
			data = r.Clean(data)
		}
		if data = p.clean(r, data); f == w.events {
			events = data
		}
		list = append(list, content{f.name, data})
	}
	cut := b.call.Outcome != perigee.OutcomeDone
	if !r.HasSpread(events, cut) {
		return list
	}
	truncated := w.truncated()
	for i := range list {
		if name := list[i].name; IsAnswer(name) {
			list[i].data = r.Deltas(list[i].data, cut || truncated[name] != "")
		}
	}
	return list
}

// pack appends the content of PackedName to dst.
func pack(dst []byte, files []content) []byte {
	sortFiles(files, func(c content) string { return c.name })
	files = append(files[1:], files[0])
	var t table
	at := int64(0)
	for i, f := range files {
		same := slices.IndexFunc(files[:i], f.same)
		if same < 0 {
			at += int64(len(headOf(f.name)))
			t.Files = append(t.Files, packedFile{f.name, at, int64(len(f.data))})
			at += int64(len(f.data)) + 1
		} else {
			t.Files = append(t.Files, packedFile{f.name, t.Files[same].At, t.Files[same].Size})
		}
	}
	head, _ := json.Marshal(t)
	dst = append(append(dst, head...), '\n')
	for i, f := range files {
		if slices.IndexFunc(files[:i], f.same) < 0 {
			dst = append(append(append(dst, headOf(f.name)...), f.data...), '\n')
		}
	}
	return dst
}

// same reports whether two files are the same memory.
func (c content) same(other content) bool {
	return len(c.data) > 0 && len(c.data) == len(other.data) && &c.data[0] == &other.data[0]
}

// headOf is the line before a file.
func headOf(name string) string { return "==> " + name + " <==\n" }

// A packed is an open PackedName.
type packed struct {
	*os.File
	table
	start int64 // of the bytes after the first line
}

// openPacked opens the file of a call that is written as one. The error is fs.ErrNotExist if the
// call has none.
func openPacked(dir *os.Root) (*packed, error) {
	file, err := openRegular(dir, PackedName)
	if err != nil {
		return nil, err
	}
	p := &packed{File: file}
	head, err := bufio.NewReader(file).ReadBytes('\n')
	info, wrong := file.Stat()
	if err != nil || wrong != nil || json.Unmarshal(head, &p.table) != nil {
		return p, nil // cut off before the end of the first line
	}
	p.start = int64(len(head))
	size := info.Size() - p.start
	p.Files = slices.DeleteFunc(p.Files, func(f packedFile) bool {
		return f.At < 0 || f.Size < 0 || f.Size > size || f.At > size-f.Size // cut off
	})
	return p, nil
}

// open returns a file.
func (p *packed) open(name string) (io.ReadCloser, int64, error) {
	i := slices.IndexFunc(p.Files, func(f packedFile) bool { return f.Name == name })
	if i < 0 {
		_ = p.Close()
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f := p.Files[i]
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(p, p.start+f.At, f.Size), p}, f.Size, nil
}
