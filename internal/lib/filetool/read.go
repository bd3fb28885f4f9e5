package filetool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"

	"perigee"
)

const (
	maxLines   = 2000      // of one answer
	maxContent = 256 << 10 // bytes of one answer's content
	maxHashed  = 64 << 20  // bytes of a file that is hashed
	maxBinary  = maxContent / 4 * 3
	maxReads   = 3 // of a file that changes while it is read
)

// ReadInput is the input of read_file.
type ReadInput struct {
	Path string `json:"path" jsonschema:"the file: a path relative to the first root, an absolute path inside a root, or a file URI"`
	// Offset is the number of the first line, from 1; 0 is 1.
	Offset int `json:"offset,omitzero" jsonschema:"the number of the first line to read; 1, the default, is the first line of the file"`
	// Limit is how many lines are read at most; 0 is 2,000, and so is more than that.
	Limit int `json:"limit,omitzero" jsonschema:"how many lines to read; at most 2000, which is the default"`
}

// ReadResult is the result of read_file.
type ReadResult struct {
	Path    string `json:"path" jsonschema:"the path of the file, relative to the root, or absolute if there are several roots"`
	Content string `json:"content" jsonschema:"the lines that were asked for, with their line ends; base64 if encoding says so"`
	// SHA256 is the hash of the whole file, in hex. It is left out for files above 64 MiB, and if
	// the file changed while it was read.
	SHA256     string `json:"sha256,omitzero" jsonschema:"SHA-256 of the whole file in hex, for expected_sha256 of write_file; left out above 64 MiB"`
	Lines      int    `json:"lines" jsonschema:"the number of lines in content"`
	TotalLines *int   `json:"total_lines,omitzero" jsonschema:"the number of lines in the file, if its end was seen"`
	Truncated  bool   `json:"truncated" jsonschema:"whether more follows in the file, or a line was cut"`
	Encoding   string `json:"encoding,omitzero" jsonschema:"base64 if the file is not text; content is then the beginning of the file"`
	Charset    string `json:"charset,omitzero" jsonschema:"utf-8-bom, utf-16le or utf-16be if the file has a byte order mark; content is decoded, and write_file keeps it"`
	Changing   bool   `json:"changing,omitzero" jsonschema:"the file changed while it was read, so content may be a mixture and there is no hash"`
}

// Read reads lines of a file. Content and hash are from one pass over one open file. If the file
// changes during that, it is read again, three times in all; after that the result is marked and
// has no hash.
func (t *Tools) Read(ctx context.Context, in ReadInput) (*ReadResult, error) {
	if in.Path == "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "path is missing").WithHint("name the file to read")
	}
	if in.Offset < 0 || in.Limit < 0 {
		return nil, perigee.Errorf(perigee.ClassInvalid, "offset and limit must not be negative").
			WithHint("offset 1 is the first line; limit is at most %d lines", maxLines)
	}
	in.Offset = max(in.Offset, 1)
	if in.Limit == 0 || in.Limit > maxLines {
		in.Limit = maxLines
	}
	at, err := t.locate(in.Path)
	if err != nil {
		return nil, err
	}
	w := t.newWalk(at)
	defer w.close()
	f, info, err := w.open(at.parts)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return t.readFile(ctx, w, in, f, info)
}

func (t *Tools) readFile(ctx context.Context, w *walk, in ReadInput, f *os.File, info fs.FileInfo) (*ReadResult, error) {
	for try := 1; ; try++ {
		s := newScan(in, info.Size())
		if err := s.run(ctx, f); err != nil {
			return nil, w.failed("read", err)
		}
		now, err := f.Stat()
		if err != nil {
			return nil, w.failed("read", err)
		}
		changed := now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) || s.short
		if changed && try < maxReads {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return nil, w.failed("read", err)
			}
			info = now
			continue
		}
		result, err := s.result(w.shown())
		if err == nil && changed {
			result.SHA256, result.Changing = "", true
		}
		return result, err
	}
}

// open opens the regular file at the end of a path for reading. It never waits for a FIFO, and
// never opens a device.
func (w *walk) open(parts []string) (*os.File, fs.FileInfo, error) {
	for {
		if err := w.run(parts); err != nil {
			return nil, nil, err
		}
		if w.name == "" {
			return nil, nil, perigee.Errorf(perigee.ClassInvalid, "%s is a directory", w.shown()).
				WithHint("list_files shows what is in it")
		}
		if w.info == nil {
			return nil, nil, w.failed("open", fs.ErrNotExist)
		}
		f, info, err := w.openHere(os.O_RDONLY)
		if err != nil || f != nil {
			return f, info, err
		}
		parts, w.name, w.info = []string{w.name}, "", nil // it was swapped: look again
		if err := w.swapped(); err != nil {
			return nil, nil, err
		}
	}
}

// openHere opens the file that the walk has ended at. The result is nil if something else is there
// by now.
func (w *walk) openHere(flag int) (*os.File, fs.FileInfo, error) {
	if !w.info.Mode().IsRegular() {
		return nil, nil, w.irregular(w.info.Mode())
	}
	f, err := w.top().dir.OpenFile(w.name, flag|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENXIO) || err != nil && escapes(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, w.failed("open", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = w.failed("open", err)
	// A link or, with the inode of the file, a FIFO has replaced it.
	case !os.SameFile(info, w.info) || !info.Mode().IsRegular():
		_ = f.Close()
		return nil, nil, nil
	case w.guard.covers(info):
		err = w.forbidden()
	case inProc(f):
		err = perigee.Errorf(perigee.ClassForbidden, "%s is a file of procfs", w.shown()).WithHint("only files on a disk can be read")
	default:
		return f, info, nil
	}
	_ = f.Close()
	return nil, nil, err
}

func (w *walk) irregular(mode fs.FileMode) error {
	kind := "not a regular file"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return perigee.Errorf(perigee.ClassInvalid, "%s is %s", w.shown(), kind).WithHint("only regular files can be read and written")
}

// A scan is one pass over a file: it collects the requested lines, counts the other lines, and
// hashes the bytes.
type scan struct {
	size    int64
	sum     hash.Hash // nil for a large file
	head    []byte    // the first bytes, in case the file is binary
	decoder decoder
	binary  bool
	lines   collector
	ended   bool // the end of the file was seen
	short   bool // the file was shorter than its size
}

func newScan(in ReadInput, size int64) *scan {
	s := &scan{size: size, lines: collector{first: in.Offset, limit: in.Limit}}
	if size <= maxHashed {
		s.sum = sha256.New()
	}
	return s
}

func (s *scan) run(ctx context.Context, f io.Reader) error {
	buf := make([]byte, 128<<10)
	left := s.size
	for left > 0 && !s.done() {
		if err := ctx.Err(); err != nil {
			return perigee.AsError(err)
		}
		n, err := io.ReadFull(f, buf[:min(left, int64(len(buf)))])
		left -= int64(n)
		s.add(buf[:n], left == 0)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			s.short = true
			break
		} else if err != nil {
			return err
		}
	}
	s.ended = left == 0 || s.short
	return nil
}

// done reports whether the rest of the file is not needed.
func (s *scan) done() bool {
	return s.sum == nil && (s.lines.full || s.binary && len(s.head) == maxBinary)
}

func (s *scan) add(piece []byte, end bool) {
	if s.sum != nil {
		_, _ = s.sum.Write(piece)
	}
	s.head = append(s.head, piece[:min(len(piece), maxBinary-len(s.head))]...)
	if s.binary {
		return
	}
	text, ok := s.decoder.decode(piece, end)
	if s.binary = !ok; ok {
		s.lines.add(text)
	}
}

func (s *scan) result(shown string) (*ReadResult, error) {
	r := &ReadResult{Path: shown}
	if s.sum != nil {
		r.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	}
	if s.binary {
		if s.lines.first > 1 {
			return nil, perigee.Errorf(perigee.ClassInvalid, "%s is not text and has no lines", shown).WithHint("leave offset out")
		}
		r.Content, r.Encoding = base64.StdEncoding.EncodeToString(s.head), "base64"
		r.Truncated = int64(len(s.head)) < s.size
		return r, nil
	}
	r.Charset = string(s.decoder.set)
	r.Content, r.Lines, r.Truncated = string(s.lines.content), s.lines.taken, s.lines.full
	if s.ended {
		total := s.lines.total()
		r.TotalLines = &total
	}
	return r, nil
}

// A collector picks lines out of a text that comes in pieces.
type collector struct {
	first, limit int

	content []byte
	taken   int  // complete and incomplete lines in content
	full    bool // something follows content, or its last line was cut
	breaks  int  // line ends so far
	open    bool // the last line has no end yet
}

func (c *collector) add(text []byte) {
	for len(text) > 0 {
		if c.full || c.breaks+1 < c.first && c.first-c.breaks > len(text) {
			c.skip(text)
			return
		}
		line, more := text, false
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, more = text[:i+1], true
		}
		if c.breaks+1 >= c.first {
			c.take(line)
		}
		if c.open = !more; more {
			c.breaks++
		}
		text = text[len(line):]
	}
}

// skip counts lines that were not requested.
func (c *collector) skip(text []byte) {
	c.breaks += bytes.Count(text, []byte("\n"))
	c.open = text[len(text)-1] != '\n'
}

// take adds a line, or the next part of one, as far as there is room.
func (c *collector) take(line []byte) {
	begins := !c.open
	if begins && c.taken == c.limit {
		c.full = true
		return
	}
	if begins {
		c.taken++
	}
	c.content = append(c.content, line...)
	if len(c.content) <= maxContent {
		return
	}
	c.full = true
	start := bytes.LastIndexByte(c.content[:len(c.content)-1], '\n') + 1
	if c.taken > 1 { // the line that does not fit is left for the next call
		c.content, c.taken = c.content[:start], c.taken-1
		return
	}
	end := maxContent
	for !utf8.RuneStart(c.content[end]) {
		end--
	}
	c.content = c.content[:end]
}

func (c *collector) total() int {
	if c.open {
		return c.breaks + 1
	}
	return c.breaks
}
