package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"perigee"
)

// What one search may cost.
const (
	maxRead    = 400 << 20 // two language servers of the largest size, and all bundles
	maxEntries = 50_000    // of directories
	maxClients = 64
)

// A finding is what a search has found so far.
type finding struct {
	clients []Identity // no two of them the same
	stage   int        // how many are done
	at      time.Time  // when the last one was

	left     int64    // bytes that may still be read
	entries  int      // of directories, seen
	searched []string // roots that are there
	absent   []string // roots that are not
	files    int      // that were read
	skipped  []string // what could not be read, and why
}

// A stage is files that are searched together.
type stage struct {
	places []place
	packed bool // they are programs, whose texts stand without anything between them
}

// A place is files in a directory, which is below the root of an installation.
type place struct {
	dir  string
	deep bool // and in those below it
	fits func(name string) bool
}

// stages go from what is small and readable to what is not.
var stages = []stage{
	{places: slices.Concat(
		below("out", true, func(name string) bool { return name == "main.js" }, applications...),
		below("extensions/antigravity/dist", false, func(name string) bool { return path.Ext(name) == ".js" }, applications...))},
	{packed: true, places: slices.Concat(
		below("extensions/antigravity/bin", false, isLanguageServer, applications...),
		below("bin", false, isLanguageServer, resources...))},
}

// Installations differ by platform, and who names one may name a part of it.
var (
	resources    = []string{"resources", "Contents/Resources", "."}
	applications = []string{"resources/app", "Contents/Resources/app", "app", "."}
)

func below(dir string, deep bool, fits func(string) bool, bases ...string) (list []place) {
	for _, base := range bases {
		list = append(list, place{path.Join(base, dir), deep, fits})
	}
	return list
}

func isLanguageServer(name string) bool { return strings.HasPrefix(name, "language_server") }

// read searches the files of a stage in all roots, which the user has named or which are the usual ones. What cannot be read
// is noted; the error is that ctx ended.
func (f *finding) read(ctx context.Context, roots []string, named bool, s stage) error {
	f.searched, f.absent = nil, nil // they are the same for each stage
	var seen []fs.FileInfo
	for _, dir := range roots {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			f.absent = append(f.absent, dir)
			continue
		}
		if err == nil && !named {
			err = isForeign(info)
		}
		if err != nil {
			f.skip(dir, err)
			continue
		}
		// A root may be a link to another one.
		if slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		seen = append(seen, info)
		f.searched = append(f.searched, dir)
		if err := f.readRoot(ctx, dir, s); err != nil {
			return err
		}
	}
	return nil
}

// readRoot searches one installation. Links that lead out of it are not followed.
func (f *finding) readRoot(ctx context.Context, dir string, s stage) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.skip(dir, err)
		return nil
	}
	defer func() { _ = root.Close() }()
	for _, p := range s.places {
		names, err := f.list(ctx, root, p)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := f.readFile(ctx, root, name, s.packed); err != nil {
				return err
			}
		}
	}
	return nil
}

// list returns the files of a place.
func (f *finding) list(ctx context.Context, root *os.Root, p place) (names []string, err error) {
	err = fs.WalkDir(root.FS(), p.dir, func(name string, entry fs.DirEntry, err error) error {
		f.entries++
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // most places are not in most installations
			return nil
		case err != nil:
			f.skip(filepath.Join(root.Name(), name), err)
			return nil
		case f.entries > maxEntries:
			f.skip(filepath.Join(root.Name(), name), errors.New("there are too many files"))
			return fs.SkipAll
		case entry.IsDir() && name != p.dir && !p.deep:
			return fs.SkipDir
		case !entry.IsDir() && p.fits(path.Base(name)):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// readFile takes the clients out of a file.
func (f *finding) readFile(ctx context.Context, root *os.Root, name string, packed bool) error {
	shown := filepath.Join(root.Name(), filepath.FromSlash(name))
	info, err := root.Stat(name) // before opening: that may wait for ever with what is no file
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err == nil && f.left <= 0 {
		err = fmt.Errorf("%d MiB have been read already", maxRead>>20)
	}
	if err != nil {
		f.skip(shown, err)
		return nil
	}
	file, err := root.OpenFile(name, os.O_RDONLY|openAtOnce, 0) // it may be something else by now
	if err != nil {
		f.skip(shown, err)
		return nil
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		f.skip(shown, cmp.Or(err, errors.New("it is no file")))
		return nil
	}
	f.files++
	near := pairing{found: func(id string, secret perigee.Secret) { f.add(Identity{id, secret, shown}) }}
	n, err := scan(ctx, io.LimitReader(file, f.left), packed, near.take)
	near.end()
	f.left -= n
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		f.skip(shown, err)
	case n < info.Size() && f.left <= 0:
		f.skip(shown, fmt.Errorf("only its first %d MiB were read", n>>20))
	}
	return nil
}

func (f *finding) add(client Identity) {
	known := func(other Identity) bool { return other.ID == client.ID && other.Secret.Equal(client.Secret.Reveal()) }
	if len(f.clients) < maxClients && !slices.ContainsFunc(f.clients, known) {
		f.clients = append(f.clients, client)
	}
}

func (f *finding) skip(file string, err error) {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // its path is below the root, and file is the whole one
	}
	if line := oneWord(fmt.Sprintf("%s (%v)", file, err)); !slices.Contains(f.skipped, line) {
		f.skipped = append(f.skipped, line)
	}
}

// oneWord makes a name fit for a terminal: whoever can write to an installation can name its files.
func oneWord(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}

// String says where was looked.
func (f *finding) String() string {
	var parts []string
	if len(f.searched) > 0 {
		parts = append(parts, fmt.Sprintf("%d files read in %s", f.files, strings.Join(f.searched, ", ")))
	}
	if len(f.absent) > 0 {
		parts = append(parts, "no installation in "+strings.Join(f.absent, ", "))
	}
	if n := len(f.skipped); n > 0 {
		const most = 5
		list := strings.Join(f.skipped[:min(n, most)], ", ")
		if n > most {
			list += fmt.Sprintf(" and %d more", n-most)
		}
		parts = append(parts, "not readable: "+list)
	}
	return strings.Join(parts, "; ")
}
