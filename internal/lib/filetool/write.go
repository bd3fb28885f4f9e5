package filetool

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/lazyregexp"

	"perigee"
)

// WriteInput is the input of write_file.
type WriteInput struct {
	Path    string `json:"path" jsonschema:"the file: a path relative to the first root, an absolute path inside a root, or a file URI"`
	Content string `json:"content" jsonschema:"the whole new content of the file"`
	// Encoding is utf-8, which is the default, or base64.
	Encoding string `json:"encoding,omitzero" jsonschema:"utf-8, the default, or base64 for content that is not text"`
	// ExpectedSHA256 is the hash that the file must have. If it is empty, the file must not exist;
	// if it is nil, anything is replaced.
	ExpectedSHA256 *string `json:"expected_sha256,omitzero" jsonschema:"write only if the file has this SHA-256, as read_file returned it; an empty string: only if there is no such file"`
	CreateDirs     bool    `json:"create_dirs,omitzero" jsonschema:"create missing directories"`
}

// WriteResult is the result of write_file.
type WriteResult struct {
	Path    string `json:"path" jsonschema:"the path of the file, relative to the root, or absolute if there are several roots"`
	SHA256  string `json:"sha256" jsonschema:"SHA-256 of the new content in hex"`
	Bytes   int    `json:"bytes" jsonschema:"the size of the file"`
	Created bool   `json:"created" jsonschema:"whether there was no such file before"`
}

// Write replaces a file, or creates it. The file has its old or its new content at any time, also
// when the disk is full or the process is killed. Permissions, access control lists, owner (where
// the user may), byte order mark, UTF-16 and CR LF line ends are kept; set-user-ID bits are not. A
// link inside the roots stays, and its target is replaced. Other hard links keep the old content.
//
// Of two writes with the same expected hash one fails, also if another process of perigee makes it:
// the directory is locked from the last comparison to the replacement, where the system and the
// file system can. Other programs can still change the file in that moment.
func (t *Tools) Write(ctx context.Context, in WriteInput) (*WriteResult, error) {
	if !t.write {
		return nil, perigee.Errorf(perigee.ClassForbidden, "writing is turned off").
			WithHint("show the change to the user instead, who can allow writing in the configuration (mcp.write, mcp.http_write)")
	}
	if in.Path == "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "path is missing").WithHint("name the file to write")
	}
	r := &replacement{in: in}
	if err := r.check(); err != nil {
		return nil, err
	}
	at, err := t.locate(in.Path)
	if err != nil {
		return nil, err
	}
	r.walk = t.newWalk(at)
	defer r.walk.close()
	result, err := r.run(ctx)
	if err != nil {
		r.walk.undo()
		return nil, r.walk.failed("write", err)
	}
	return result, nil
}

// A replacement is one write.
type replacement struct {
	in    WriteInput
	bytes []byte // content of encoding base64
	walk  *walk
	old   *oldFile // nil if there is none
}

// An oldFile describes a file that will be replaced.
type oldFile struct {
	info   fs.FileInfo
	sha256 string
	text   bool // and these are known:
	set    charset
	crlf   bool
}

// check checks the arguments without accessing files.
func (r *replacement) check() error {
	switch r.in.Encoding {
	case "", "utf-8":
	case "base64":
		var err error
		if r.bytes, err = base64.StdEncoding.DecodeString(r.in.Content); err != nil {
			return perigee.Errorf(perigee.ClassInvalid, "content is not base64: %w", err).
				WithHint("use the standard alphabet with padding, or leave encoding out for text")
		}
	default:
		return perigee.Errorf(perigee.ClassInvalid, "encoding %q is unknown", r.in.Encoding).WithHint("use utf-8 or base64")
	}
	if e := r.in.ExpectedSHA256; e != nil && *e != "" {
		if raw, err := hex.DecodeString(*e); err != nil || len(raw) != sha256.Size {
			return perigee.Errorf(perigee.ClassInvalid, "expected_sha256 is not a SHA-256 in hex").
				WithHint("use the sha256 that read_file returned, or an empty string if the file must not exist")
		}
	}
	return nil
}

func (r *replacement) run(ctx context.Context) (*WriteResult, error) {
	w := r.walk
	// Directories are only created if the file may be missing.
	w.mkdir = r.in.CreateDirs && (r.in.ExpectedSHA256 == nil || *r.in.ExpectedSHA256 == "")
	if err := w.run(w.asked.parts); err != nil {
		if perigee.AsError(err).Class == perigee.ClassNotFound && !r.in.CreateDirs {
			err = perigee.AsError(err).WithHint("create_dirs: true creates missing directories")
		}
		return nil, err
	}
	if w.name == "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s is a directory", w.shown()).WithHint("name a file in it")
	}
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	if err := r.compare(); err != nil {
		return nil, err
	}
	data := r.data()
	if err := ctx.Err(); err != nil {
		return nil, perigee.AsError(err)
	}
	if err := r.replace(ctx, data); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &WriteResult{Path: w.shown(), SHA256: hex.EncodeToString(sum[:]), Bytes: len(data), Created: r.old == nil}, nil
}

// look reads the file that is there, if there is one.
func (r *replacement) look(ctx context.Context) error {
	w, name := r.walk, r.walk.name
	w.name, w.info, r.old = "", nil, nil
	for {
		info, err := w.top().dir.Lstat(name)
		if w.name = name; errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if w.info = info; info.Mode()&fs.ModeSymlink != 0 || info.IsDir() {
			return perigee.Errorf(perigee.ClassUnavailable, "%s was replaced during the call", w.shown()).WithHint("try again")
		}
		// The file is opened for writing too, because a read-only file must not be replaced.
		f, info, err := w.openHere(os.O_RDWR)
		if isBusy(err) {
			f, info, err = w.openHere(os.O_RDONLY)
		}
		if err == nil && f == nil {
			if err := w.swapped(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		r.old, err = inspect(ctx, f, info)
		return errors.Join(err, f.Close())
	}
}

// inspect reads a file for its hash, charset and line ends.
func inspect(ctx context.Context, f io.Reader, info fs.FileInfo) (*oldFile, error) {
	old := &oldFile{info: info, text: info.Size() <= maxHashed}
	sum, d, ends := sha256.New(), decoder{}, lineEnds{}
	buf := make([]byte, 128<<10)
	for {
		if err := ctx.Err(); err != nil {
			return nil, perigee.AsError(err)
		}
		n, err := io.ReadFull(f, buf)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return nil, err
		}
		_, _ = sum.Write(buf[:n])
		if old.text {
			var text []byte
			if text, old.text = d.decode(buf[:n], end); old.text {
				ends.add(text)
			}
		}
		if end {
			old.sha256, old.set, old.crlf = hex.EncodeToString(sum.Sum(nil)), d.set, ends.allCRLF()
			return old, nil
		}
	}
}

// compare checks the expectation of the caller.
func (r *replacement) compare() error {
	expected, shown := r.in.ExpectedSHA256, r.walk.shown()
	switch {
	case expected == nil:
		return nil
	case *expected == "" && r.old != nil:
		return perigee.Errorf(perigee.ClassInvalid, "%s exists already, with the sha256 %s; nothing was written", shown, r.old.sha256).
			WithHint("read it, and pass its sha256 as expected_sha256 to replace it")
	case *expected != "" && r.old == nil:
		return perigee.Errorf(perigee.ClassNotFound, "%s does not exist; nothing was written", shown).
			WithHint("leave expected_sha256 empty to create it")
	case *expected != "" && !strings.EqualFold(*expected, r.old.sha256):
		return perigee.Errorf(perigee.ClassInvalid, "%s has changed: its sha256 is %s, not %s; nothing was written",
			shown, r.old.sha256, strings.ToLower(*expected)).
			WithHint("read it again, apply the change to what is there now, and pass the new sha256")
	}
	return nil
}

// data returns the bytes to write: text in the charset and with the line ends of the old file.
func (r *replacement) data() []byte {
	if r.in.Encoding == "base64" {
		return r.bytes
	}
	text := r.in.Content
	if r.old == nil || !r.old.text {
		return []byte(text)
	}
	if r.old.set != utf8Plain {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if r.old.crlf && !strings.Contains(text, "\r") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return encode(text, r.old.set)
}

// temporaryName matches the names of files that are being written.
var temporaryName = lazyregexp.New(`^\.perigee-[0-9a-f]{32}\.tmp$`)

// replace writes a file next to the old one and renames it.
func (r *replacement) replace(ctx context.Context, data []byte) error {
	w := r.walk
	dir := w.top().dir
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	temporary := ".perigee-" + hex.EncodeToString(random) + ".tmp"
	if err := r.fill(dir, temporary, data); err != nil {
		return err
	}
	defer func() { _ = dir.Remove(temporary) }() // unless it was renamed
	err := r.rename(ctx, temporary)
	if err == nil {
		syncDir(dir)
	}
	return err
}

// rename gives the temporary file its name, unless the file differs from the expected one by now.
func (r *replacement) rename(ctx context.Context, temporary string) error {
	dir, name := r.walk.top().dir, r.walk.name
	unlock, err := lockDir(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	replacing := &r.walk.t.shared.replacing // for directories that cannot be locked
	replacing.Lock()
	defer replacing.Unlock()
	if r.in.ExpectedSHA256 == nil {
		return dir.Rename(temporary, name)
	}
	if err := r.compareAgain(ctx); err != nil {
		return err
	}
	if r.old != nil {
		return dir.Rename(temporary, name)
	}
	err = publish(dir, temporary, name)
	if errors.Is(err, fs.ErrExist) {
		if err := r.compareAgain(ctx); err != nil {
			return err
		}
	}
	return err
}

// compareAgain reads the file once more. Another content could have the same inode, size and time.
func (r *replacement) compareAgain(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	return r.compare()
}

// lockPatience is how long a write waits for another process.
const lockPatience = 10 * time.Second

// lockDir keeps other processes of perigee from replacing files in a directory, until unlock is
// called or the process ends. It leaves no file there. A directory that cannot be locked is written
// without a lock.
func lockDir(ctx context.Context, dir *os.Root) (unlock func(), err error) {
	f, err := dir.Open(".")
	if err != nil {
		return func() {}, nil
	}
	unlock = func() { _ = f.Close() }
	switch err := atomicfile.LockFile(ctx, f, lockPatience); {
	case errors.Is(err, atomicfile.ErrHeld):
		unlock()
		return nil, perigee.Errorf(perigee.ClassUnavailable, "another program has locked the directory; nothing was written").WithHint("try again")
	case err != nil && ctx.Err() != nil:
		unlock()
		return nil, perigee.AsError(ctx.Err())
	}
	return unlock, nil
}

// fill writes the temporary file. If it fails, there is none.
func (r *replacement) fill(dir *os.Root, temporary string, data []byte) error {
	mode := fs.FileMode(0o644)
	if r.old != nil {
		mode = 0o600 // until it has the right owner
	}
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(data))
	if r.old != nil && err == nil {
		chown(f, r.old.info)
		if err = f.Chmod(r.old.info.Mode().Perm()); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
		copyAttributes(f, dir, r.walk.name, r.old.info)
	}
	if err == nil {
		err = f.Sync() // or else a power cut may leave the name without the content
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return nil
}

// publish gives a file its name unless there is something of that name. Not every file system can
// give a file a second name; there an empty file reserves the name and is then replaced.
func publish(dir *os.Root, temporary, name string) error {
	err := dir.Link(temporary, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	reserved, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err = errors.Join(reserved.Close(), dir.Rename(temporary, name)); err != nil {
		_ = dir.Remove(name)
	}
	return err
}

// syncDir makes a new name last, where the file system can. The file is there in any case, so an
// error would be misleading.
func syncDir(dir *os.Root) {
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
