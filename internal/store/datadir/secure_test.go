package datadir

import (
	"bytes"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The files of perigee are private afterwards. A directory with other files as well stays as it is,
// unless it was writable.
func TestSecure(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes here")
	}
	for _, c := range []struct {
		name  string
		mode  fs.FileMode // of the directory; 0 means there is none
		files map[string]fs.FileMode
		want  fs.FileMode
		after map[string]fs.FileMode
		said  []string
	}{
		{name: "not there yet", want: 0o700},
		{name: "private", mode: 0o700, want: 0o700, files: map[string]fs.FileMode{"letters.txt": 0o644}, after: map[string]fs.FileMode{"letters.txt": 0o644}},
		{name: "empty", mode: 0o755, want: 0o700},
		{name: "of an earlier perigee", mode: 0o755, want: 0o700,
			files: map[string]fs.FileMode{"perigee.db": 0o644, "perigee.db-wal": 0o640, "images/cat": 0o644, "letters.txt": 0o644},
			after: map[string]fs.FileMode{"perigee.db": 0o600, "perigee.db-wal": 0o600, "images": 0o700, "images/cat": 0o600, "letters.txt": 0o644}},
		{name: "private with files that are not", mode: 0o700, want: 0o700,
			files: map[string]fs.FileMode{"admin.token": 0o644, "seal.key": 0o604, "images/cat": 0o644},
			after: map[string]fs.FileMode{"admin.token": 0o600, "seal.key": 0o600, "images": 0o700, "images/cat": 0o600}},
		{name: "of something else", mode: 0o755, want: 0o755,
			files: map[string]fs.FileMode{"letters.txt": 0o644}, after: map[string]fs.FileMode{"letters.txt": 0o644},
			said: []string{"other users can read data_dir", "mode=0755", "chmod 700 "}},
		{name: "of something else that others write to", mode: 0o775, want: 0o700, files: map[string]fs.FileMode{"letters.txt": 0o644}},
		{name: "of many", mode: 0o777 | fs.ModeSticky, want: 0o777, files: map[string]fs.FileMode{"perigee.db": 0o644},
			after: map[string]fs.FileMode{"perigee.db": 0o600}, said: []string{"other users can read data_dir", "mode=0777"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if c.mode != 0 {
				make0755(t, dir, c.files)
				if err := os.Chmod(dir, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			if err := Secure(dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			after := map[string]fs.FileMode{".": c.want}
			maps.Copy(after, c.after)
			for name, want := range after {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s has mode %v (%v), want %v", name, info.Mode().Perm(), err, want)
				}
			}
			if len(c.said) == 0 && log.Len() > 0 {
				t.Errorf("said %s", &log)
			}
			for _, word := range c.said {
				if !strings.Contains(log.String(), word) {
					t.Errorf("said %q, without %s", &log, word)
				}
			}
		})
	}
}

// make0755 makes a directory, and in it files of the given modes in directories of mode 0755.
func make0755(t *testing.T, dir string, files map[string]fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// A link in the directory may lead to a file that is meant to be readable.
func TestSecureFollowsNoLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes here")
	}
	outside, dir := t.TempDir(), t.TempDir()
	make0755(t, outside, map[string]fs.FileMode{"letters.txt": 0o644})
	for _, name := range []string{"perigee.db", "images"} {
		target := filepath.Join(outside, "letters.txt")
		if name == "images" {
			target = outside
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Secure(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(outside, "letters.txt")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the file outside has mode %v (%v)", info.Mode(), err)
	}
}

// In a writable directory another user may have placed a link under the name of a file of ours, and
// we would write to its target.
func TestPlantedFilesAreNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes here")
	}
	for name, plant := range map[string]func(target, path string) error{"a link": os.Symlink, "a second name": os.Link} {
		for _, mode := range []fs.FileMode{0o777, 0o777 | fs.ModeSticky} {
			dir := filepath.Join(t.TempDir(), "data")
			target := filepath.Join(t.TempDir(), "diary")
			make0755(t, dir, nil)
			if err := os.WriteFile(target, []byte("dear diary"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(target, filepath.Join(dir, lockName)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			if err := Secure(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), lockName) {
				t.Errorf("%s in a directory of mode %v: %v", name, mode, err)
			}
			if kept, _ := os.ReadFile(target); string(kept) != "dear diary" {
				t.Errorf("%s in a directory of mode %v: the file is now %q", name, mode, kept)
			}
		}
	}
}

// A file in the place of the directory does not become one by being made writable.
func TestUnusableDirectoriesHaveANextStepThatWorks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, writable := range map[string]bool{file: false, filepath.Join(file, "below"): false, "": true} {
		err := fs.ErrPermission
		if path != "" {
			err = os.MkdirAll(path, 0o700)
		}
		if got := Unusable(err).Error(); strings.Contains(got, "make it writable") != writable || !strings.HasSuffix(got, "choose another one with data_dir or PERIGEE_DATA_DIR") {
			t.Errorf("%q: %s", path, got)
		}
	}
}
