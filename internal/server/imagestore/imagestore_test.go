package imagestore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// A clock stands still until it is told to move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newStore(t *testing.T, change func(*Options)) (*Store, string, *clock) {
	t.Helper()
	dir, c := filepath.Join(t.TempDir(), "images"), &clock{time.Date(2026, time.March, 14, 9, 0, 0, 0, time.UTC)}
	opts := Options{Dir: dir, Now: c.now}
	if change != nil {
		change(&opts)
	}
	return New(opts), dir, c
}

func save(t *testing.T, s *Store, mime, data string) string {
	t.Helper()
	id, err := s.Save(mime, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func has(s *Store, id string) bool {
	image, _, err := s.Open(id)
	if err == nil {
		_ = image.Close()
	}
	return err == nil
}

func TestImagesComeBack(t *testing.T) {
	s, dir, _ := newStore(t, nil)
	if has(s, "aaaaaaaaaaaaaaaa.png") {
		t.Error("an empty store has an image")
	}
	for _, test := range []struct{ mime, extension, served string }{
		{"image/png", ".png", "image/png"},
		{"IMAGE/JPEG", ".jpg", "image/jpeg"},
		{"image/jpg", ".jpg", "image/jpeg"},
		{"audio/wav; rate=24000", ".wav", "audio/wav"},
		{"image/svg+xml", ".bin", "application/octet-stream"},
		{"text/html", ".bin", "application/octet-stream"},
		{"../../evil", ".bin", "application/octet-stream"},
		{"", ".bin", "application/octet-stream"},
	} {
		id := save(t, s, test.mime, "data of "+test.mime)
		if len(id) != idLength+len(test.extension) || !strings.HasSuffix(id, test.extension) {
			t.Errorf("%s: id %q", test.mime, id)
		}
		image, mime, err := s.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(image)
		if err != nil || string(data) != "data of "+test.mime || mime != test.served {
			t.Errorf("%s: got %q (%v) as %s", test.mime, data, err, mime)
		}
		_ = image.Close()
		if runtime.GOOS == "windows" {
			continue
		}
		for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, id): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

func TestOnlyIDsAreLookedFor(t *testing.T) {
	s, dir, _ := newStore(t, nil)
	id := save(t, s, "image/png", "x")
	outside := filepath.Join(filepath.Dir(dir), id)
	for _, path := range []string{outside, filepath.Join(dir, "notes.txt"), filepath.Join(dir, "aaaaaaaaaaaaaaaa.html")} {
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dddddddddddddddd.png"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "llllllllllllllll.png")); err != nil {
		t.Logf("no links here: %v", err)
	}
	for _, bad := range []string{
		"", ".", "..", "../" + id, "/" + id, "./" + id, id + "/", id + "\x00", "x" + id, id[1:], id[:idLength], strings.ToUpper(id), outside,
		"notes.txt", "aaaaaaaaaaaaaaaa.html", "dddddddddddddddd.png", "llllllllllllllll.png", "../imagestore.go.png", "..%2f" + id, `..\` + id, "aaaaaaaaaaaaaaa/.png",
	} {
		if image, _, err := s.Open(bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v, %v", bad, image, err)
		}
	}
	if !has(s, id) {
		t.Error("the image itself is gone")
	}
}

func TestOldImagesGo(t *testing.T) {
	s, dir, c := newStore(t, nil)
	first := save(t, s, "image/png", "1")
	c.at = c.at.Add(maxAge)
	second := save(t, s, "image/png", "2")
	if !has(s, first) {
		t.Error("gone on its last day")
	}
	c.at = c.at.Add(time.Second)
	if has(s, first) {
		t.Error("still served after its time")
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "notes.txt"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	s.Sweep()
	if _, err := os.Stat(filepath.Join(dir, first)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still on disk after its time (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil || !has(s, second) {
		t.Errorf("something else went as well (%v)", err)
	}
}

func TestSweepingNothing(t *testing.T) {
	s, dir, _ := newStore(t, nil)
	s.Sweep()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sweeping made a directory (%v)", err)
	}
}

func TestOldestMakeRoom(t *testing.T) {
	s, _, c := newStore(t, func(o *Options) { o.MaxBytes = 10 })
	var ids []string
	for range 3 {
		ids = append(ids, save(t, s, "image/png", "four"))
		c.at = c.at.Add(time.Minute)
	}
	if has(s, ids[0]) || !has(s, ids[1]) || !has(s, ids[2]) {
		t.Error("of three images that do not fit, the first should be gone")
	}
	all := save(t, s, "image/png", "ten bytes!")
	if has(s, ids[1]) || has(s, ids[2]) || !has(s, all) {
		t.Error("one that takes all the room should be alone")
	}
	if _, err := s.Save("image/png", []byte("eleven byte")); err == nil || !has(s, all) {
		t.Errorf("one that does not fit at all should change nothing (%v)", err)
	}
}

func TestTroubleLeavesNothingBehind(t *testing.T) {
	s, dir, _ := newStore(t, func(o *Options) { o.Random = bytes.NewReader(make([]byte, 20)) })
	first := save(t, s, "image/png", "x")
	// The same id again: what is there must not be overwritten, nor removed for it.
	if id, err := s.Save("image/png", []byte("y")); err == nil {
		t.Errorf("two images are called %s", id)
	}
	if id, err := s.Save("image/png", []byte("y")); err == nil {
		t.Errorf("an id out of nothing: %s", id)
	}
	if data, err := os.ReadFile(filepath.Join(dir, first)); err != nil || string(data) != "x" {
		t.Errorf("the first image is %q (%v)", data, err)
	}
	if err := os.WriteFile(dir+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: dir + "2"}).Save("image/png", []byte("x")); err == nil {
		t.Error("saved into a file")
	}
}

func TestManyAtOnce(t *testing.T) {
	s, _, _ := newStore(t, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if id, err := s.Save("image/png", []byte("x")); err != nil || !has(s, id) {
				t.Errorf("%q, %v", id, err)
			}
		})
	}
	await.Return(t, group.Wait, "the goroutines")
}

func TestNumberIsBounded(t *testing.T) {
	s, dir, c := newStore(t, func(o *Options) { o.MaxImages = 3 })
	var ids []string
	for range 5 {
		ids = append(ids, save(t, s, "image/png", "x"))
		c.at = c.at.Add(time.Minute)
	}
	if images, bytes := s.Size(); images != 3 || bytes != 3 {
		t.Errorf("%d images of %d bytes are kept, want 3", images, bytes)
	}
	if has(s, ids[1]) || !has(s, ids[2]) || !has(s, ids[4]) {
		t.Error("the oldest should be gone, and the others there")
	}
	// What another run left behind counts as well, and what the user removed does not.
	if err := os.Remove(filepath.Join(dir, ids[2])); err != nil {
		t.Fatal(err)
	}
	again := New(Options{Dir: dir, Now: c.now, MaxImages: 3})
	sixth := save(t, again, "image/png", "x")
	if images, _ := again.Size(); images != 3 || !has(again, ids[3]) || !has(again, sixth) {
		t.Errorf("after a new start %d images are kept", images)
	}
}

// The directory is not read for each image: that made an answer with 4,000 pictures take 20
// seconds.
func TestSavingDoesNotReadTheDirectory(t *testing.T) {
	s, dir, _ := newStore(t, nil)
	save(t, s, "image/png", "x")
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("a", idLength-1)+string(alphabet[i])+".png"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(t, s, "image/png", "x")
	if images, _ := s.Size(); images != 2 {
		t.Errorf("the store has seen %d images: it has read the directory again", images)
	}
	s.Sweep()
	if images, _ := s.Size(); images != 5 {
		t.Errorf("sweeping has found %d images, want 5", images)
	}
}

// A full store of small ones must not be felt.
func BenchmarkSaveAmongThousand(b *testing.B) {
	s := New(Options{Dir: b.TempDir()})
	data := make([]byte, 1000)
	for range 1000 {
		if _, err := s.Save("image/png", data); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Save("image/png", data); err != nil {
			b.Fatal(err)
		}
	}
}
