package filetool_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func (r *fileRig) refusedWrite(in filetool.WriteInput, class perigee.Class, parts ...string) {
	r.Helper()
	_, err := r.tools.Write(r.Context(), in)
	refused(r.T, err, class, parts...)
}

// noTemporaryFiles checks that writes have left nothing behind.
func (r *fileRig) noTemporaryFiles() {
	r.Helper()
	err := filepath.WalkDir(r.root, func(path string, entry os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			r.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		r.Error(err)
	}
}

func TestLineEndsAreKept(t *testing.T) {
	for _, test := range []struct{ name, old, content, want string }{
		{"CRLF throughout", "a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"},
		{"CRLF without an end", "a\r\nb", "x\ny", "x\r\ny"},
		{"content has a CR", "a\r\nb\r\n", "x\r\ny\n", "x\r\ny\n"},
		{"mixed", "a\r\nb\n", "x\n", "x\n"},
		{"lone CR", "a\rb\r\n", "x\n", "x\n"},
		{"CR at the end", "a\r\nb\r", "x\n", "x\n"},
		{"LF", "a\nb\n", "x\n", "x\n"},
		{"no line end", "a", "x\n", "x\n"},
		{"binary", "a\r\n\x00", "x\n", "x\n"},
		{"BOM", "\xef\xbb\xbfa\r\n", "é\n", "\xef\xbb\xbfé\r\n"},
		{"BOM in both", "\xef\xbb\xbfa\n", "\ufeffé\n", "\xef\xbb\xbfé\n"},
		{"BOM in content", "a\n", "\ufeffé\n", "\ufeffé\n"},
		{"UTF-16LE", "\xff\xfea\x00\r\x00\n\x00", "é😀\n", "\xff\xfe\xe9\x00\x3d\xd8\x00\xde\r\x00\n\x00"},
		{"UTF-16BE", "\xfe\xff\x00a\x00\n", "é😀\n", "\xfe\xff\x00\xe9\xd8\x3d\xde\x00\x00\n"},
		{"empty", "", "x\n", "x\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, map[string]string{"f": test.old})
			got := r.write(filetool.WriteInput{Path: "f", Content: test.content})
			if r.get("f") != test.want || got.SHA256 != hashOf(test.want) || got.Bytes != len(test.want) || got.Created {
				t.Errorf("got %q, %+v; want %q", r.get("f"), got, test.want)
			}
		})
	}
}

// TestLineEndsAcrossPieces has CR and LF in different pieces of a file that is read in pieces.
func TestLineEndsAcrossPieces(t *testing.T) {
	for length := 128<<10 - 3; length <= 128<<10+1; length++ {
		r := newRig(t, map[string]string{"f": strings.Repeat("x", length) + "\r\nb\r\n"})
		r.write(filetool.WriteInput{Path: "f", Content: "x\n"})
		if r.get("f") != "x\r\n" {
			t.Errorf("length %d: got %q", length, r.get("f"))
		}
	}
}

func TestBinaryRoundTrip(t *testing.T) {
	content := string(bytes.Repeat([]byte{0, 0xff, '\n', '\r'}, 1000))
	r := newRig(t, map[string]string{"f": content})
	read := r.read(filetool.ReadInput{Path: "f"})
	got := r.write(filetool.WriteInput{Path: "new", Content: read.Content, Encoding: read.Encoding})
	if r.get("new") != content || got.SHA256 != read.SHA256 || !got.Created {
		t.Errorf("got %+v", got)
	}
	r.refusedWrite(filetool.WriteInput{Path: "new", Content: "***", Encoding: "base64"}, perigee.ClassInvalid, "base64")
	r.refusedWrite(filetool.WriteInput{Path: "new", Content: "x", Encoding: "latin1"}, perigee.ClassInvalid, "utf-8")
	if r.get("new") != content {
		t.Error("the file was changed")
	}
	r.put("crlf", "a\r\n")
	r.write(filetool.WriteInput{Path: "crlf", Content: base64.StdEncoding.EncodeToString([]byte("b\n")), Encoding: "base64"})
	if r.get("crlf") != "b\n" {
		t.Errorf("got %q: base64 is written as it is", r.get("crlf"))
	}
}

func TestExpectedHashGuardsAWrite(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"})
	none, old, other := "", strings.ToUpper(hashOf("old")), hashOf("other")
	r.refusedWrite(filetool.WriteInput{Path: "f", Content: "x", ExpectedSHA256: &other}, perigee.ClassInvalid, hashOf("old"), other)
	r.refusedWrite(filetool.WriteInput{Path: "f", Content: "x", ExpectedSHA256: &none}, perigee.ClassInvalid, hashOf("old"), "exists")
	r.refusedWrite(filetool.WriteInput{Path: "new", Content: "x", ExpectedSHA256: &other}, perigee.ClassNotFound, "does not exist")
	r.refusedWrite(filetool.WriteInput{Path: "a/b/new", Content: "x", ExpectedSHA256: &other, CreateDirs: true}, perigee.ClassNotFound)
	bad := "abc"
	r.refusedWrite(filetool.WriteInput{Path: "f", Content: "x", ExpectedSHA256: &bad}, perigee.ClassInvalid, "hex")
	if got := r.list(filetool.ListInput{Recursive: true, IncludeIgnored: true}); !slices.Equal(got, []string{"f"}) || r.get("f") != "old" {
		t.Fatalf("got %q, %q", got, r.get("f"))
	}
	if got := r.write(filetool.WriteInput{Path: "f", Content: "new", ExpectedSHA256: &old}); got.Created || r.get("f") != "new" {
		t.Errorf("got %+v", got)
	}
	if got := r.write(filetool.WriteInput{Path: "g", Content: "new", ExpectedSHA256: &none}); !got.Created || r.get("g") != "new" {
		t.Errorf("got %+v", got)
	}
	r.noTemporaryFiles()
}

// TestOneOfManyWritesWins has many writes with the same expectation at once, through several names
// of the file.
func TestOneOfManyWritesWins(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old", "link -> f": "", "d -> .": ""})
	narrow := r.tools.Narrow([]string{r.root})
	defer narrow.Close()
	for _, expected := range []string{hashOf("old"), ""} {
		if expected == "" {
			if err := os.Remove(r.path("f")); err != nil {
				t.Fatal(err)
			}
		}
		var wins atomic.Int32
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				tools := []*filetool.Tools{r.tools, narrow}[i%2]
				path := []string{"f", "link", "d/f", r.path("f")}[i%4]
				if _, err := tools.Write(t.Context(), filetool.WriteInput{Path: path, Content: fmt.Sprint(i), ExpectedSHA256: &expected}); err == nil {
					wins.Add(1)
				} else if !strings.Contains(err.Error(), "nothing was written") {
					t.Error(err)
				}
			})
		}
		await.Return(t, all.Wait, "all writes")
		if wins.Load() != 1 {
			t.Errorf("%d writes were accepted", wins.Load())
		}
	}
	r.noTemporaryFiles()
}

func TestAFileIsNeverHalfWritten(t *testing.T) {
	contents := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 200_000)}
	r := newRig(t, map[string]string{"f": contents[0]})
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got, err := os.ReadFile(r.path("f")); err != nil || !slices.Contains(contents, string(got)) {
				t.Errorf("got %d bytes, %v", len(got), err)
				return
			}
		}
	})
	for i := range 30 {
		r.write(filetool.WriteInput{Path: "f", Content: contents[(i+1)%2]})
	}
	close(stop)
	await.Return(t, reading.Wait, "the end of the reader")
	r.noTemporaryFiles()
}

func TestModesAreKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file modes")
	}
	r := newRig(t, map[string]string{"script": "#!/bin/sh\n", "secret": "s"})
	for name, mode := range map[string]os.FileMode{"script": 0o755, "secret": 0o600} {
		if err := os.Chmod(r.path(name), mode); err != nil {
			t.Fatal(err)
		}
		r.write(filetool.WriteInput{Path: name, Content: "new"})
		if info, err := os.Stat(r.path(name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: got %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	if err := os.WriteFile(r.path("as usual"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	usual, err := os.Stat(r.path("as usual"))
	if err != nil {
		t.Fatal(err)
	}
	for i, expected := range []*string{nil, new(string)} {
		name := fmt.Sprint("new", i)
		r.write(filetool.WriteInput{Path: name, Content: "new", ExpectedSHA256: expected})
		if info, err := os.Stat(r.path(name)); err != nil || info.Mode() != usual.Mode() {
			t.Errorf("got %v, %v; want %v", info.Mode(), err, usual.Mode())
		}
	}
}

func TestReadOnlyFileIsNotReplaced(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"})
	perigeetest.Unprivileged(t)
	if err := os.Chmod(r.path("f"), 0o444); err != nil {
		t.Fatal(err)
	}
	r.refusedWrite(filetool.WriteInput{Path: "f", Content: "new"}, perigee.ClassForbidden, "permission")
	if r.get("f") != "old" {
		t.Error("the file was changed")
	}
}

func TestLinksStayAndTheirTargetsAreWritten(t *testing.T) {
	r := newRig(t, map[string]string{"target": "old", "link -> target": "", "dir/link -> ../link": "", "dangling -> dir/new": "", "d -> dir": "",
		"loop1 -> loop2": "", "loop2 -> loop1": ""})
	r.put("abs -> "+r.path("target"), "")
	for _, link := range []string{"link", "dir/link", "d/link", "abs"} {
		if got := r.write(filetool.WriteInput{Path: link, Content: "via " + link}); got.Created || r.get("target") != "via "+link || got.Path != link {
			t.Errorf("%s: got %+v, %q", link, got, r.get("target"))
		}
	}
	if got := r.write(filetool.WriteInput{Path: "dangling", Content: "new"}); !got.Created || r.get("dir/new") != "new" {
		t.Errorf("got %+v", got)
	}
	for _, link := range []string{"link", "dir/link", "abs", "dangling"} {
		if info, err := os.Lstat(r.path(link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v", link, err)
		}
	}
	r.refusedWrite(filetool.WriteInput{Path: "loop1", Content: "x"}, perigee.ClassInvalid, "links")
}

func TestDirectoriesAreCreatedOnlyIfAskedFor(t *testing.T) {
	r := newRig(t, map[string]string{"file": "", "dir/": ""})
	r.refusedWrite(filetool.WriteInput{Path: "a/b/f", Content: "x"}, perigee.ClassNotFound, "create_dirs")
	r.refusedWrite(filetool.WriteInput{Path: "file/f", Content: "x", CreateDirs: true}, perigee.ClassNotFound, "not a directory")
	r.refusedWrite(filetool.WriteInput{Path: "dir", Content: "x"}, perigee.ClassInvalid, "is a directory")
	r.refusedWrite(filetool.WriteInput{Path: ".", Content: "x"}, perigee.ClassInvalid, "is a directory")
	r.refusedWrite(filetool.WriteInput{Path: "c/d/" + strings.Repeat("x", 300), Content: "x", CreateDirs: true}, perigee.ClassInvalid)
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, []string{"dir", "file"}) {
		t.Errorf("got %q", got)
	}
	if got := r.write(filetool.WriteInput{Path: "a/b/f", Content: "x", CreateDirs: true}); !got.Created || r.get("a/b/f") != "x" {
		t.Errorf("got %+v", got)
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			path := fmt.Sprintf("p/q/r/%d", i)
			if _, err := r.tools.Write(t.Context(), filetool.WriteInput{Path: path, Content: "x", CreateDirs: true}); err != nil {
				t.Error(err)
			}
		})
	}
	await.Return(t, all.Wait, "all writes")
}

func TestWritingCanBeTurnedOff(t *testing.T) {
	r := newRig(t, map[string]string{"f": "old"})
	r.tools = open(t, filetool.Options{Roots: []string{r.root}})
	r.refusedWrite(filetool.WriteInput{Path: "f", Content: "x"}, perigee.ClassForbidden, "turned off")
	if r.tools.CanWrite() || r.get("f") != "old" {
		t.Error("the file was changed")
	}
}
