//go:build unix

package filetool_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func (r *fileRig) mkfifo(path string) {
	r.Helper()
	if err := syscall.Mkfifo(r.path(path), 0o644); err != nil {
		r.Fatal(err)
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r := &fileRig{T: t, root: dir, tools: open(t, filetool.Options{Roots: []string{dir, "/dev"}, Write: true})}
	r.mkfifo("fifo")
	r.put("link -> fifo", "")
	r.put("null -> /dev/null", "")
	listener, err := net.Listen("unix", r.path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for path, kind := range map[string]string{"fifo": "named pipe", "link": "named pipe", "socket": "socket", "/dev/zero": "device", "null": "device"} {
		_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
		refused(t, err, perigee.ClassInvalid, kind)
		r.refusedWrite(filetool.WriteInput{Path: path, Content: "x"}, perigee.ClassInvalid, kind)
		_, err = r.tools.List(t.Context(), filetool.ListInput{Path: path})
		refused(t, err, perigee.ClassInvalid, "not a directory")
	}
	result, err := r.tools.List(t.Context(), filetool.ListInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.Entries {
		if name := filepath.Base(e.Path); (e.Type == "other") != (name == "fifo" || name == "socket") {
			t.Errorf("got %+v", e)
		}
	}
}

func TestMemoryOfProcessesIsNotRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no procfs")
	}
	tools := open(t, filetool.Options{Roots: []string{"/proc"}, Write: true})
	for _, path := range []string{"self/environ", "self/cmdline", fmt.Sprintf("%d/environ", os.Getpid()), "self/task/../environ"} {
		_, err := tools.Read(t.Context(), filetool.ReadInput{Path: path})
		refused(t, err, perigee.ClassForbidden, "procfs")
	}
	tools = open(t, filetool.Options{Roots: []string{"/"}})
	if _, err := tools.Read(t.Context(), filetool.ReadInput{Path: "/proc/self/root/proc/self/environ"}); err == nil {
		t.Error("read through /proc/self/root")
	}
}

func TestOddNamesCanBeReadAsListed(t *testing.T) {
	r := newRig(t, nil)
	made := 0
	for i, name := range []string{"new\nline", "bad\xff\xfeutf8", "file:x", "FILE:y", "file:/z", " ", "a ", `back\slash`, "tab\t", "\x01", "..a", "...", "-", "~",
		"CON", "a:b", "%41", "é", "e\u0301", "\u202e", strings.Repeat("n", 255), "bad\xff/in dir", "#x?y", "*", "[a]", "'\"", "\ufffd"} {
		path := r.path(name)
		if strings.HasPrefix(name, "file:/") {
			path = r.root + "/" + name
		}
		if os.MkdirAll(filepath.Dir(path), 0o755) != nil || os.WriteFile(path, []byte(strconv.Itoa(i)), 0o644) != nil {
			continue // not every file system has every name
		}
		made++
	}
	for _, roots := range [][]string{{r.root}, {r.root, t.TempDir()}} {
		r.tools = open(t, filetool.Options{Roots: roots, Write: true})
		result, err := r.tools.List(t.Context(), filetool.ListInput{Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		contents := map[string]bool{}
		for _, e := range result.Entries {
			if e.Type == "file" {
				got := r.read(filetool.ReadInput{Path: e.Path})
				if got.Path != e.Path {
					t.Errorf("listed as %q, read as %q", e.Path, got.Path)
				}
				contents[got.Content] = true
				r.write(filetool.WriteInput{Path: e.Path, Content: got.Content, ExpectedSHA256: &got.SHA256})
			} else if e.Type == "directory" {
				r.list(filetool.ListInput{Path: e.Path})
			}
		}
		if len(contents) != made || made < 15 {
			t.Errorf("%d of %d files", len(contents), made)
		}
	}
	r.noTemporaryFiles()
}

// TestHugeFileIsNotReadWhole reads the beginning of files of 10 GB, which have no blocks on the
// disk.
func TestHugeFileIsNotReadWhole(t *testing.T) {
	r := newRig(t, map[string]string{"text": strings.Repeat("line\n", 200_000), "zeros": ""})
	for _, name := range []string{"text", "zeros"} {
		if err := os.Truncate(r.path(name), 10<<30); err != nil {
			t.Skip(err)
		}
	}
	before := bytesRead(t)
	got := r.read(filetool.ReadInput{Path: "text", Offset: 100_000, Limit: 3})
	if got.Content != "line\nline\nline\n" || got.SHA256 != "" || got.TotalLines != nil || !got.Truncated || got.Encoding != "" {
		t.Errorf("got %+v", got)
	}
	got = r.read(filetool.ReadInput{Path: "zeros"})
	if got.Encoding != "base64" || len(got.Content) != 256<<10 || got.SHA256 != "" || !got.Truncated {
		t.Errorf("got %d bytes, %q", len(got.Content), got.SHA256)
	}
	if read := bytesRead(t) - before; read > 16<<20 {
		t.Errorf("%d bytes were read", read)
	}
	r.put("small", "x")
	if err := os.Truncate(r.path("small"), 64<<20); err != nil {
		t.Fatal(err)
	}
	if got := r.read(filetool.ReadInput{Path: "small"}); got.SHA256 == "" {
		t.Error("a file of 64 MiB has no hash")
	}
}

// bytesRead returns how many bytes the process has read so far, or 0 if the system does not say.
func bytesRead(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "rchar: ")
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

func TestPermissionErrorsDoNotEndAListing(t *testing.T) {
	r := newRig(t, map[string]string{"a/f": "", "b/f": "", "c/f": "", "d/f": "", "secret": "", "c/.gitignore": ""})
	perigeetest.Unprivileged(t)
	for path, mode := range map[string]os.FileMode{"b": 0, "secret": 0, "c/.gitignore": 0, "d": 0o400} {
		if err := os.Chmod(r.path(path), mode); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(r.path(path), 0o700)
	}
	result, err := r.tools.List(t.Context(), filetool.ListInput{Recursive: true})
	want := []string{"a", "a/f", "b", "c", "c/.gitignore", "c/f", "d", "secret"}
	if err != nil || !slices.Equal(paths(result), want) || len(result.Errors) != 3 || result.Errors[0].Path != "b" ||
		!strings.Contains(result.Errors[0].Message, "permission denied") {
		t.Errorf("got %+v, %v", result, err)
	}
	_, err = r.tools.Read(t.Context(), filetool.ReadInput{Path: "secret"})
	refused(t, err, perigee.ClassForbidden, "permission denied")
	_, err = r.tools.List(t.Context(), filetool.ListInput{Path: "b"})
	refused(t, err, perigee.ClassForbidden, "permission denied")
	r.refusedWrite(filetool.WriteInput{Path: "b/new", Content: "x"}, perigee.ClassForbidden, "permission denied")
}

func TestDeepTreesAreBounded(t *testing.T) {
	r := newRig(t, nil)
	deep := strings.Repeat("d/", 300)
	if err := os.MkdirAll(r.path(deep), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: deep + "f"})
	refused(t, err, perigee.ClassInvalid, "deep")
	result, err := r.tools.List(t.Context(), filetool.ListInput{Recursive: true})
	if err != nil || len(result.Entries) != 257 || len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Message, "deep") {
		t.Errorf("got %d, %+v, %v", len(result.Entries), result.Errors, err)
	}
}

func TestOwnFilesAreOutOfReach(t *testing.T) {
	r := newRig(t, map[string]string{
		"data/admin.token": "token", "data/sub/key": "key", "config.yaml": "config", "ok": "fine",
		"link -> data/admin.token": "", "dir -> data": "", "deep/link -> ../data/sub": "", "conflink -> config.yaml": "",
		"real.yaml": "linked", "linked.yaml -> real.yaml": "",
	})
	for name, target := range map[string]string{"hard": "data/admin.token", "deep/hard": "data/sub/key", "hardconf": "config.yaml"} {
		if err := os.Link(r.path(target), r.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	r.tools = open(t, filetool.Options{Roots: []string{r.root}, Write: true, Forbidden: []string{
		r.path("data"), r.path("config.yaml"), r.path("linked.yaml"), r.path("later/bridges"), r.path("later.yaml"),
	}})
	check := func(path string) {
		t.Helper()
		_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
		refused(t, err, perigee.ClassForbidden, "perigee itself")
		r.refusedWrite(filetool.WriteInput{Path: path, Content: "x", CreateDirs: true}, perigee.ClassForbidden, "perigee itself")
	}
	for _, path := range []string{"data/admin.token", "data/sub/key", "data/new", "data/a/b", "config.yaml", "CONFIG.yaml", "link", "dir/admin.token", "deep/link/key",
		"conflink", "real.yaml", "linked.yaml", "hard", "deep/hard", "hardconf", "later/bridges/1.json", "later.yaml", r.path("data/admin.token"), "dir/../data/sub/key"} {
		check(path)
	}
	_, err := r.tools.List(t.Context(), filetool.ListInput{Path: "data"})
	refused(t, err, perigee.ClassForbidden)
	_, err = r.tools.List(t.Context(), filetool.ListInput{Path: "dir/sub"})
	refused(t, err, perigee.ClassForbidden)
	want := []string{"conflink", "deep", "deep/link", "dir", "link", "ok"} // links are names only
	if got := r.list(filetool.ListInput{Recursive: true, IncludeIgnored: true}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A file that is replaced has another inode, and is still the same file.
	r.put("new.yaml", "replaced")
	if err := os.Rename(r.path("new.yaml"), r.path("config.yaml")); err != nil {
		t.Fatal(err)
	}
	check("config.yaml")
	narrow := r.tools.Narrow([]string{r.path("data/sub"), r.path("deep")})
	defer narrow.Close()
	if got := narrow.Roots(); !slices.Equal(got, []string{r.path("deep")}) {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(r.path("later")); !os.IsNotExist(err) {
		t.Errorf("a directory was created: %v", err)
	}
	for _, root := range []string{"data", "data/sub", "deep/link"} {
		inside := open(t, filetool.Options{Roots: []string{r.path(root)}, Write: true, Forbidden: []string{r.path("dir")}})
		for _, path := range []string{"admin.token", "key"} {
			_, err = inside.Read(t.Context(), filetool.ReadInput{Path: path})
			refused(t, err, perigee.ClassForbidden, "perigee itself")
		}
	}
}

// If there are more forbidden files than are looked at, every file with several names is refused.
// Traces and the data of language servers do not count, and their credentials do.
func TestHardLinksBeyondTheBound(t *testing.T) {
	files := map[string]string{"data/perigee.db": "secret", "data/langserver/desk/home/.gemini/token": "secret", "one": "fine"}
	for i := range 100 {
		files[fmt.Sprintf("data/langserver/desk/home/.gemini/perigee/conversations/%d", i)] = "x"
		files[fmt.Sprintf("data/traces/2026-11-01/142004.088-%d/meta.json", i)] = "x"
	}
	r := newRig(t, files)
	for name, target := range map[string]string{"db": "data/perigee.db", "token": "data/langserver/desk/home/.gemini/token", "two": "one"} {
		if err := os.Link(r.path(target), r.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string, most int) error {
		tools := open(t, filetool.Options{Roots: []string{r.root}, Forbidden: []string{r.path("data")}})
		tools.SetMaxLinked(most)
		_, err := tools.Read(t.Context(), filetool.ReadInput{Path: path})
		return err
	}
	for _, path := range []string{"db", "token"} {
		for _, most := range []int{3, 50} {
			refused(t, read(path, most), perigee.ClassForbidden, "perigee itself")
		}
	}
	if err := read("two", 50); err != nil {
		t.Error(err)
	}
	refused(t, read("two", 3), perigee.ClassForbidden, "another name")
	r.put("plain", "fine")
	if err := read("plain", 3); err != nil {
		t.Error(err)
	}
}

func TestRunningProgramCanBeReplaced(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Skip(err)
	}
	r := newRig(t, nil)
	if err := os.WriteFile(r.path("program"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, r.path("program"), "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { cancel(); _ = await.Result(t, cmd.Wait, "the end of the program") }()
	r.write(filetool.WriteInput{Path: "program", Content: "#!/bin/sh\n"})
	if info, err := os.Stat(r.path("program")); err != nil || info.Mode() != 0o755 || r.get("program") != "#!/bin/sh\n" {
		t.Errorf("got %v, %v", info, err)
	}
}

const fullDiskDir = "PERIGEE_TEST_FULL_DISK"

// TestFullDiskLeavesTheOldFile runs itself in a process whose files cannot grow beyond 100 kB.
func TestFullDiskLeavesTheOldFile(t *testing.T) {
	if dir := os.Getenv(fullDiskDir); dir != "" {
		limit := syscall.Rlimit{Cur: 100_000, Max: 100_000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		r := &fileRig{T: t, root: dir, tools: open(t, filetool.Options{Roots: []string{dir}, Write: true})}
		for _, path := range []string{"f", "new", "a/b/new"} {
			r.refusedWrite(filetool.WriteInput{Path: path, Content: strings.Repeat("x", 200_000), CreateDirs: true}, perigee.ClassUnavailable, "nothing was changed")
		}
		r.write(filetool.WriteInput{Path: "g", Content: "small"})
		return
	}
	r := newRig(t, map[string]string{"f": "old"})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDiskLeavesTheOldFile$", "-test.v")
	cmd.Env = append(os.Environ(), fullDiskDir+"="+r.root)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v: %s", err, out)
	}
	if got := r.list(filetool.ListInput{Recursive: true, IncludeIgnored: true}); !slices.Equal(got, []string{"f", "g"}) || r.get("f") != "old" {
		t.Errorf("got %q, %q", got, r.get("f"))
	}
}

func TestWriteThroughALinkThatLeavesIsRefused(t *testing.T) {
	r := newRig(t, map[string]string{"../outside/f": "outside", "out -> ../outside": "", "f -> ../outside/f": "", "new -> ../outside/new": "", "chain -> out": ""})
	r.put("abs -> "+filepath.Join(filepath.Dir(r.root), "outside", "f"), "")
	for _, path := range []string{"out/f", "out/new", "f", "new", "chain/f", "chain/a/b", "abs"} {
		r.refusedWrite(filetool.WriteInput{Path: path, Content: "x", CreateDirs: true}, perigee.ClassForbidden, "outside of the roots", r.root)
	}
	entries, err := fs.ReadDir(os.DirFS(filepath.Dir(r.root)), "outside")
	if err != nil || len(entries) != 1 || r.get("../outside/f") != "outside" {
		t.Errorf("got %v, %v", entries, err)
	}
}
