// Package imagestore keeps the pictures and sounds that models make, as files, for clients whose dialect has no place for
// them: they get a link instead. It keeps them for days, not for good, and it serves nothing itself.
//
// The HTTP edge saves and opens; the daemon makes one Store for its data directory.
package imagestore

import (
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

// Options say where images are kept and for how long. Dir is required.
type Options struct {
	Dir      string        // made when the first image comes
	MaxAge   time.Duration // 0: 7 days
	MaxBytes int64         // of all files together; 0: 200 MiB
	Now      func() time.Time
	Random   io.Reader // where ids come from; nil: crypto/rand
	Logger   *slog.Logger
}

const (
	defaultAge   = 7 * 24 * time.Hour
	defaultBytes = 200 << 20
)

// A Store keeps images. It is safe for concurrent use and holds nothing open.
type Store struct {
	opts Options
	mu   sync.Mutex // over making room and taking it
}

// New returns the store in a directory. Nothing is touched yet.
func New(opts Options) *Store {
	if opts.MaxAge == 0 {
		opts.MaxAge = defaultAge
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultBytes
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{opts: opts}
}

// Save keeps an image and returns its id, which nobody can guess. The oldest images go when room is needed.
func (s *Store) Save(mime string, data []byte) (id string, err error) {
	if int64(len(data)) > s.opts.MaxBytes {
		return "", fmt.Errorf("image of %d bytes: larger than all that is kept", len(data))
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
	s.makeRoom(root, int64(len(data)))
	if id, err = s.newID(extensionOf(mime)); err != nil {
		return "", err
	}
	if err := s.write(root, id, data); err != nil {
		return "", err
	}
	return id, nil
}

// write makes the file. Its time is the store's, so that its age is, too.
func (s *Store) write(root *os.Root, id string, data []byte) error {
	f, err := root.OpenFile(id, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	now := s.opts.Now()
	if err := errors.Join(err, f.Close(), root.Chtimes(id, now, now)); err != nil {
		_ = root.Remove(id) // half an image is none
		return err
	}
	return nil
}

// Open finds an image and what it is served as. Who opened it closes it. An id that was never given out, or whose image
// is gone, is fs.ErrNotExist.
func (s *Store) Open(id string) (image *os.File, mime string, err error) {
	if !isID(id) {
		return nil, "", fs.ErrNotExist
	}
	root, err := os.OpenRoot(s.opts.Dir)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(id); err != nil || !info.Mode().IsRegular() { // a pipe would never open
		return nil, "", errors.Join(fs.ErrNotExist, err)
	}
	f, err := root.Open(id)
	if err != nil {
		return nil, "", err
	}
	info, err := f.Stat()
	if err != nil || s.expired(info) {
		_ = f.Close()
		return nil, "", errors.Join(fs.ErrNotExist, err)
	}
	return f, mimeOf(id), nil
}

func (s *Store) expired(info fs.FileInfo) bool {
	return s.opts.Now().Sub(info.ModTime()) > s.opts.MaxAge
}

// Sweep removes the images whose time is over. Saving does so as well; a daemon that draws nothing any more sweeps when it
// starts.
func (s *Store) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.opts.Dir)
	if err != nil {
		return // there are none
	}
	defer func() { _ = root.Close() }()
	s.makeRoom(root, 0)
}

// makeRoom removes images that are too old, and then the oldest until there is room for more bytes. Files that are not
// ours are left alone. What cannot be removed does not keep the next image from being saved.
func (s *Store) makeRoom(root *os.Root, more int64) {
	kept, total := s.list(root)
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept {
		if !s.expired(info) && total+more <= s.opts.MaxBytes {
			return // the rest is younger
		}
		if err := root.Remove(info.Name()); err != nil {
			s.opts.Logger.Warn("an old image cannot be removed", "image", info.Name(), "error", err)
			continue
		}
		total -= info.Size()
	}
}

func (s *Store) list(root *os.Root) (images []fs.FileInfo, total int64) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		s.opts.Logger.Warn("the images cannot be listed", "error", err)
	}
	for _, entry := range entries {
		if !isID(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			images = append(images, info)
			total += info.Size()
		}
	}
	return images, total
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

// isID says whether a name could be one that newID made. Nothing else is ever looked for on disk.
func isID(name string) bool {
	if len(name) <= idLength || strings.Trim(name[:idLength], alphabet) != "" {
		return false
	}
	_, ok := types[name[idLength:]]
	return ok
}
