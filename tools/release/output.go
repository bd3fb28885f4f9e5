package release

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sums is the name of the list of checksums.
const sums = "SHA256SUMS"

// An output collects the files of a release in a directory beside the one that they are for, and
// takes its place when they are complete.
type output struct {
	dir, part string
	hashes    map[string]string // of the files, by name
	sizes     map[string]int64
}

func newOutput(dir string) (*output, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(replaceable(dir), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return nil, err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".part-*")
	return &output{dir: dir, part: part, hashes: make(map[string]string), sizes: make(map[string]int64)}, err
}

// replaceable returns an error unless a directory does not exist, is empty, or has a release and
// nothing else: an index, and regular files that the checksums list.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ours := map[string]bool{sums: true, sums + ".sig": true}
	for line := range strings.Lines(string(list)) {
		_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		ours[name] = true
	}
	for _, e := range entries {
		if !ours[e.Name()] || !e.Type().IsRegular() {
			return fmt.Errorf("%s has %s, which is not from a release: choose another directory with OUT=DIR", dir, e.Name())
		}
	}
	if _, err := readIndex(filepath.Join(dir, "index.json")); err != nil {
		return fmt.Errorf("%s is not from a release: choose another directory with OUT=DIR: %w", dir, err)
	}
	return nil
}

// write writes one file of the release.
func (o *output) write(name string, content []byte) error {
	if _, ok := o.hashes[name]; ok {
		return fmt.Errorf("%s would be written twice", name)
	}
	hash := sha256.Sum256(content)
	o.hashes[name], o.sizes[name] = hex.EncodeToString(hash[:]), int64(len(content))
	return o.put(name, content)
}

func (o *output) put(name string, content []byte) error {
	at := filepath.Join(o.part, name)
	if err := os.WriteFile(at, content, 0o644); err != nil {
		return err
	}
	return os.Chmod(at, 0o644) // whatever the umask is
}

// writeSums writes the checksums of all files, in the format of sha256sum.
func (o *output) writeSums() error {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.hashes)) {
		fmt.Fprintf(&list, "%s  %s\n", o.hashes[name], name)
	}
	return o.put(sums, []byte(list.String()))
}

// commit replaces the directory.
func (o *output) commit() error {
	if err := replaceable(o.dir); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(o.dir), os.Chmod(o.part, 0o755)); err != nil {
		return err
	}
	return os.Rename(o.part, o.dir)
}

// close removes what was not committed.
func (o *output) close() { _ = os.RemoveAll(o.part) }
