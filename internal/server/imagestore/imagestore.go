// Package imagestore stores images and audio that models generate as files, for dialects that have
// no field for them: their clients get a link instead. Files are deleted after some days. The
// package does not serve them.
//
// The HTTP server saves and opens images; the daemon creates one Store for its data directory.
package imagestore

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the directory and the limits of a Store. Dir is required.
type Options struct {
	Dir       string // made when the first image comes
	MaxBytes  int64  // of all files together; 0 means 200 MiB
	MaxImages int    // 0 means 10,000
	Now       func() time.Time
	Random    io.Reader // source of ids; nil means crypto/rand
	Logger    *slog.Logger
}

const (
	maxAge        = 7 * 24 * time.Hour
	defaultBytes  = 200 << 20
	defaultImages = 10_000
)

// A Store keeps images. It is safe for concurrent use and holds nothing open.
type Store struct {
	opts Options

	mu     sync.Mutex    // guards the fields below and the files
	images []storedImage // the files in the directory, the oldest first, once listed
	bytes  int64         // of all of them
	listed bool
}

// A storedImage is an image in the directory.
type storedImage struct {
	id   string
	size int64
	at   time.Time
}

// New returns the store in a directory. Nothing is touched yet.
func New(opts Options) *Store {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, defaultBytes)
	opts.MaxImages = cmp.Or(opts.MaxImages, defaultImages)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	return &Store{opts: opts}
}

// Save keeps an image and returns its id, which cannot be guessed. The oldest images are removed
// when there are too many, or too many bytes.
func (s *Store) Save(mime string, data []byte) (id string, err error) {
	size := int64(len(data))
	if size > s.opts.MaxBytes {
		return "", fmt.Errorf("image of %d bytes: larger than all that is kept", size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(s.opts.Dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	if !s.listed {
		s.list(root)
	}
	s.trim(root, 1, size)
	if id, err = s.newID(extensionOf(mime)); err != nil {
		return "", err
	}
	at := s.opts.Now()
	if err := s.write(root, id, data, at); err != nil {
		return "", err
	}
	s.images = append(s.images, storedImage{id, size, at})
	s.bytes += size
	return id, nil
}

// write creates the file. Its modification time is at, from which its age is computed.
func (s *Store) write(root *os.Root, id string, data []byte, at time.Time) error {
	f, err := root.OpenFile(id, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close(), root.Chtimes(id, at, at)); err != nil {
		_ = root.Remove(id) // it is incomplete
		return err
	}
	return nil
}

// Open returns an image and its media type. The caller closes it. If there is no image with the id,
// the error is fs.ErrNotExist.
func (s *Store) Open(id string) (image *os.File, mime string, err error) {
	if !isID(id) {
		return nil, "", fs.ErrNotExist
	}
	root, err := os.OpenRoot(s.opts.Dir)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	// Opening a pipe would block.
	if info, err := root.Lstat(id); err != nil || !info.Mode().IsRegular() {
		return nil, "", errors.Join(fs.ErrNotExist, err)
	}
	f, err := root.Open(id)
	if err != nil {
		return nil, "", err
	}
	info, err := f.Stat()
	if err != nil || s.expired(info.ModTime()) {
		_ = f.Close()
		return nil, "", errors.Join(fs.ErrNotExist, err)
	}
	return f, mimeOf(id), nil
}

func (s *Store) expired(at time.Time) bool { return s.opts.Now().Sub(at) > maxAge }

// Sweep removes expired images, and lists the directory again. Saving an image removes expired ones
// as well.
func (s *Store) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.opts.Dir)
	if err != nil {
		return // there are none
	}
	defer func() { _ = root.Close() }()
	s.list(root)
	s.trim(root, 0, 0)
}

// Size returns how many images there are, and their bytes. It reads the directory if that was not
// done yet.
func (s *Store) Size() (images int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		root, err := os.OpenRoot(s.opts.Dir)
		if err != nil {
			return 0, 0
		}
		defer func() { _ = root.Close() }()
		s.list(root)
	}
	return len(s.images), s.bytes
}

// Limits returns the most images and bytes that are kept, and for how long.
func (s *Store) Limits() (images int, bytes int64, age time.Duration) {
	return s.opts.MaxImages, s.opts.MaxBytes, maxAge
}

// trim removes images that are too old, and then the oldest until there can be more images and
// bytes. Files that are not ours are left alone. An image that cannot be removed counts no more, so
// that it does not keep the next one from being saved; the next Sweep finds it again.
func (s *Store) trim(root *os.Root, images int, bytes int64) {
	gone := 0
	for _, k := range s.images {
		fits := len(s.images)-gone+images <= s.opts.MaxImages && s.bytes+bytes <= s.opts.MaxBytes
		if fits && !s.expired(k.at) {
			break // the rest is younger
		}
		if err := root.Remove(k.id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.opts.Logger.Warn("an old image cannot be removed", "image", k.id, "error", err)
		}
		s.bytes -= k.size
		gone++
	}
	s.images = s.images[gone:]
}

// list reads the directory. That takes time in proportion to the number of images, so it is done
// once.
func (s *Store) list(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		s.opts.Logger.Warn("the images cannot be listed", "error", err)
	}
	s.images, s.bytes, s.listed = nil, 0, err == nil
	for _, entry := range entries {
		if !isID(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			s.images = append(s.images, storedImage{entry.Name(), info.Size(), info.ModTime()})
			s.bytes += info.Size()
		}
	}
	slices.SortFunc(s.images, func(a, b storedImage) int { return a.at.Compare(b.at) })
}

// idLength is how many random characters an id has: 80 bits, far beyond guessing.
const idLength = 16

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet)

func (s *Store) newID(extension string) (string, error) {
	var random [idLength * 5 / 8]byte
	if _, err := io.ReadFull(s.opts.Random, random[:]); err != nil {
		return "", err
	}
	return encoding.EncodeToString(random[:]) + extension, nil
}

// isID reports whether newID could have returned a name. Other names are not looked up on disk.
func isID(name string) bool {
	if len(name) <= idLength || strings.Trim(name[:idLength], alphabet) != "" {
		return false
	}
	_, ok := types[name[idLength:]]
	return ok
}
