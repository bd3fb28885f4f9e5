//go:build unix

package filetool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// swapping puts the things with the names of variants at a path, one after the other, until stop is
// called. Each variant is at path.NAME while it is not in use, so that at any moment there is one
// of them, or nothing, at the path.
func (r *fileRig) swapping(path string, variants ...string) (stop func()) {
	r.Helper()
	done, end := make(chan error, 1), make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			variant := r.path(path) + "." + variants[i%len(variants)]
			if err := os.Rename(variant, r.path(path)); err != nil {
				done <- err
				return
			}
			if err := os.Rename(r.path(path), variant); err != nil {
				done <- err
				return
			}
			select {
			case <-end:
				done <- nil
				return
			default:
			}
		}
	}()
	return func() {
		close(end)
		if err := await.Receive(r.T, done, "the end of the swaps"); err != nil {
			r.Error(err)
		}
	}
}

// during calls f five thousand times, and then until done says that enough has happened, a million
// times at most.
func during(f func(), done func() bool) (rounds int) {
	for rounds < 5000 || !done() && rounds < 1_000_000 {
		f()
		rounds++
	}
	return rounds
}

func always() bool { return true }

// acceptable checks the error of an access to something that is swapped.
func acceptable(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*perigee.Error)
	if !ok || e.Class == perigee.ClassInternal || e.Class == "" {
		t.Errorf("got %T %v", err, err)
	}
}

// raceRig has a directory outside of the root, a forbidden one inside, and variants of "x" to be
// swapped.
func raceRig(t *testing.T) *fileRig {
	perigeetest.Slow(t)
	r := newRig(t, map[string]string{
		"../outside/f": "secret outside", "../outside/sub/f": "secret outside", "data/f": "secret own", "data/sub/f": "secret own",
		"x.dir/f": "fine", "x.dir/sub/f": "fine", "x.out -> ../outside": "", "x.own -> data": "", "x.file": "fine",
		"x.outfile -> ../outside/f": "", "x.ownfile -> data/f": "", "x.down -> x.dir": "",
	})
	r.put("x.abs -> "+filepath.Join(filepath.Dir(r.root), "outside"), "")
	r.mkfifo("x.fifo")
	if err := os.Link(r.path("data/f"), r.path("x.hard")); err != nil {
		t.Fatal(err)
	}
	r.tools = open(t, filetool.Options{Roots: []string{r.root}, Write: true, Forbidden: []string{r.path("data")}})
	return r
}

// secrets checks that what is out of reach has not changed.
func (r *fileRig) secrets() {
	r.Helper()
	for _, dir := range []string{"../outside", "data"} {
		var names []string
		err := filepath.WalkDir(r.path(dir), func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, entry.Name())
				if content, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(content), "secret") {
					r.Errorf("%s: got %q, %v", path, content, err)
				}
			}
			return err
		})
		if err != nil || !slices.Equal(names, []string{"f", "f"}) {
			r.Errorf("%s: got %q, %v", dir, names, err)
		}
	}
}

func TestSwappedDirectoriesDoNotLeadOutWhenRead(t *testing.T) {
	r := raceRig(t)
	read := 0
	for _, variants := range [][]string{{"dir", "out"}, {"dir", "own"}, {"dir", "abs", "fifo", "down", "own"}} {
		stop := r.swapping("x", variants...)
		rounds := during(func() {
			for _, path := range []string{"x/f", "x/sub/f"} {
				got, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
				if err != nil {
					acceptable(t, err)
				} else if read++; got.Content != "fine" {
					t.Fatalf("got %q", got.Content)
				}
			}
		}, func() bool { return read > 0 })
		stop()
		t.Logf("%v: %d rounds", variants, rounds)
	}
	if read == 0 {
		t.Error("nothing was read")
	}
	r.secrets()
}

func TestSwappedFilesDoNotLeadOutWhenRead(t *testing.T) {
	r := raceRig(t)
	read := 0
	for _, variants := range [][]string{{"file", "outfile"}, {"file", "ownfile", "hard"}, {"file", "fifo"}} {
		stop := r.swapping("x", variants...)
		during(func() {
			got, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: "x"})
			if err != nil {
				acceptable(t, err)
			} else if read++; got.Content != "fine" {
				t.Fatalf("got %q", got.Content)
			}
		}, func() bool { return read > 0 })
		stop()
	}
	if read == 0 {
		t.Error("nothing was read")
	}
	r.secrets()
}

func TestSwappedDirectoriesDoNotLeadOutWhenWritten(t *testing.T) {
	r := raceRig(t)
	written := 0
	for _, variants := range [][]string{{"dir", "out"}, {"dir", "own"}, {"dir", "abs", "fifo"}} {
		stop := r.swapping("x", variants...)
		during(func() {
			for i, path := range []string{"x/f", "x/new", "x/sub/f"} {
				content := fmt.Sprintf("fine %d", i)
				if _, err := r.tools.Write(t.Context(), filetool.WriteInput{Path: path, Content: content}); err != nil {
					acceptable(t, err)
				} else {
					written++
				}
			}
		}, func() bool { return written > 0 })
		stop()
		r.secrets()
	}
	if written == 0 {
		t.Error("nothing was written")
	}
	r.noTemporaryFiles()
}

func TestSwappedFilesDoNotLeadOutWhenWritten(t *testing.T) {
	r := raceRig(t)
	// A write can replace a variant, so the variants are made anew.
	done, end := make(chan error, 1), make(chan struct{})
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-end:
				done <- nil
				return
			default:
			}
			_ = os.Remove(r.path("x"))
			switch i % 5 {
			case 0:
				err = os.Symlink("../outside/f", r.path("x"))
			case 1:
				err = os.Symlink("data/f", r.path("x"))
			case 2:
				err = os.WriteFile(r.path("x"), []byte("fine"), 0o644)
			case 3:
				err = syscall.Mkfifo(r.path("x"), 0o644)
			case 4:
				err = os.Link(r.path("data/f"), r.path("x"))
			}
			if os.IsExist(err) {
				err = nil // a write was faster
			}
		}
		done <- err
	}()
	expected := hashOf("fine")
	during(func() {
		for _, in := range []filetool.WriteInput{{Path: "x", Content: "fine"}, {Path: "x", Content: "fine", ExpectedSHA256: new(string)},
			{Path: "x", Content: "fine", ExpectedSHA256: &expected}} {
			if _, err := r.tools.Write(t.Context(), in); err != nil {
				acceptable(t, err)
			}
		}
	}, always)
	close(end)
	if err := await.Receive(t, done, "the end of the changes"); err != nil {
		t.Error(err)
	}
	r.secrets()
	r.noTemporaryFiles()
}

func TestSwappedDirectoriesDoNotLeadOutWhenListed(t *testing.T) {
	r := raceRig(t)
	r.put("x.dir/only", "")
	r.put("x.dir/sub/only", "")
	for _, dir := range []string{"../outside", "data"} {
		if err := os.Rename(r.path(dir+"/sub/f"), r.path(dir+"/sub/hidden")); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for _, variants := range [][]string{{"dir", "out"}, {"dir", "own"}, {"dir", "abs", "fifo", "file"}} {
		stop := r.swapping("x", variants...)
		during(func() {
			for _, in := range []filetool.ListInput{{Path: "x", Recursive: true}, {Recursive: true}, {Path: "x/sub"}} {
				result, err := r.tools.List(t.Context(), in)
				if err != nil {
					acceptable(t, err)
					continue
				}
				for _, path := range paths(result) {
					listed++
					if strings.Contains(path, "hidden") || strings.HasPrefix(path, "data") {
						t.Fatalf("%+v: %s is listed", in, path)
					}
				}
			}
		}, func() bool { return listed > 0 })
		stop()
	}
	if listed == 0 {
		t.Error("nothing was listed")
	}
}

// TestSwappedParentsDoNotLeadOut swaps a directory above the one that is used, by several readers
// and writers at once.
func TestSwappedParentsDoNotLeadOut(t *testing.T) {
	r := raceRig(t)
	r.put("x.dir/a/b/c/f", "fine")
	r.put("../outside/a/b/c/f", "secret outside")
	stop := r.swapping("x", "dir", "out")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			during(func() {
				if i%2 == 0 {
					got, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: "x/a/b/c/f"})
					if err != nil {
						acceptable(t, err)
					} else if got.Content != "fine" {
						t.Errorf("got %q", got.Content)
					}
				} else if _, err := r.tools.Write(t.Context(), filetool.WriteInput{Path: "x/a/b/c/f", Content: "fine"}); err != nil {
					acceptable(t, err)
				}
			}, always)
		})
	}
	await.Return(t, all.Wait, "all readers and writers")
	stop()
	if got := r.get("../outside/a/b/c/f"); got != "secret outside" {
		t.Errorf("got %q", got)
	}
	r.noTemporaryFiles()
}
