package filetool_test

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
)

func TestFormsOfPaths(t *testing.T) {
	r := newRig(t, map[string]string{"dir/a b%20#?.txt": "content", "dir/~/x": "tilde"})
	name := "dir/a b%20#?.txt"
	absolute := filepath.ToSlash(r.path(name))
	if !strings.HasPrefix(absolute, "/") {
		absolute = "/" + absolute
	}
	escaped := (&url.URL{Path: absolute}).EscapedPath()
	for _, path := range []string{
		name, "./" + name, "dir/../" + name, "missing/../" + name, "dir//./a b%20#?.txt", r.path(name), r.path("x/../" + name), name + "/",
		"file://" + escaped, "file://localhost" + escaped, "FILE://LocalHost" + escaped, "file:" + escaped, "../root/" + name,
	} {
		if runtime.GOOS == "windows" && strings.ContainsAny(path, "?") {
			continue
		}
		if got := r.read(filetool.ReadInput{Path: path}); got.Content != "content" || got.Path != name {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	for path, part := range map[string]string{
		"a\x00b":                         "NUL",
		"file:///a%00b":                  "NUL",
		"file://host/x":                  "host",
		"file:///x%zz":                   "parsed",
		"file:///x?y":                    "query",
		"file:///x#":                     "fragment",
		"file://user@localhost/x":        "user",
		"dir":                            "directory",
		strings.Repeat("long", 100):      "long",
		strings.Repeat("d/", 2000) + "f": "cannot",
	} {
		_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid && e.Class != perigee.ClassNotFound ||
			!strings.Contains(e.Error(), part) {
			t.Errorf("%.50q: got %v; want %q", path, err, part)
		}
	}
	_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: "missing"})
	refused(t, err, perigee.ClassNotFound, "missing", "list_files")
	_, err = r.tools.Read(t.Context(), filetool.ReadInput{Path: name + "/below"})
	refused(t, err, perigee.ClassNotFound, "not a directory")
	_, err = r.tools.List(t.Context(), filetool.ListInput{Path: name})
	refused(t, err, perigee.ClassInvalid, "read_file")
	_, err = r.tools.List(t.Context(), filetool.ListInput{Path: "missing"})
	refused(t, err, perigee.ClassNotFound, "missing")
}

func TestSeveralRootsHaveAbsolutePaths(t *testing.T) {
	a, b := newRig(t, map[string]string{"f": "a", "to b -> ../elsewhere": ""}), newRig(t, map[string]string{"f": "b"})
	inner := a.path("inner")
	a.put("inner/f", "inner")
	a.put("to b.txt -> "+b.path("f"), "")
	a.tools = open(t, filetool.Options{Roots: []string{a.root, b.root, inner, a.root}, Write: true})
	if got := a.tools.Roots(); !slices.Equal(got, []string{a.root, b.root, inner}) {
		t.Fatalf("got %q", got)
	}
	for path, want := range map[string][2]string{
		"f": {"a", a.path("f")}, b.path("f"): {"b", b.path("f")}, "inner/f": {"inner", filepath.Join(inner, "f")},
		"to b.txt": {"b", a.path("to b.txt")},
	} {
		if got := a.read(filetool.ReadInput{Path: path}); got.Content != want[0] || got.Path != want[1] {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	if got := a.list(filetool.ListInput{Path: b.root}); !slices.Equal(got, []string{b.path("f")}) {
		t.Errorf("got %q", got)
	}
	_, err := a.tools.Read(t.Context(), filetool.ReadInput{Path: "/elsewhere"})
	refused(t, err, perigee.ClassForbidden, a.root, b.root)
}

func TestRootBehindALinkHasBothNames(t *testing.T) {
	r := newRig(t, map[string]string{"dir/f": "content"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(r.root, link); err != nil {
		t.Skip(err)
	}
	sub := filepath.Join(t.TempDir(), "sub")
	if err := os.Symlink(r.path("dir"), sub); err != nil {
		t.Skip(err)
	}
	r.tools = open(t, filetool.Options{Roots: []string{link}})
	for _, path := range []string{"dir/f", filepath.Join(link, "dir/f"), r.path("dir/f"), filepath.Join(sub, "f")} {
		if got := r.read(filetool.ReadInput{Path: path}); got.Content != "content" || got.Path != "dir/f" {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	r.tools = open(t, filetool.Options{Roots: []string{r.root}, Write: true})
	for _, path := range []string{filepath.Join(link, "dir/f"), filepath.Join(sub, "f")} {
		if got := r.read(filetool.ReadInput{Path: path}); got.Content != "content" || got.Path != "dir/f" {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	if got := r.write(filetool.WriteInput{Path: filepath.Join(link, "new/f"), Content: "x", CreateDirs: true}); got.Path != "new/f" {
		t.Errorf("got %+v", got)
	}
}

func TestRootThatIsSwappedStaysWhatItWas(t *testing.T) {
	r := newRig(t, map[string]string{"f": "inside", "../outside/f": "outside"})
	if err := os.Rename(r.root, r.root+".moved"); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("outside", r.root); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"f", r.path("f")} {
		if got := r.read(filetool.ReadInput{Path: path}); got.Content != "inside" {
			t.Errorf("%s: got %+v", path, got)
		}
		r.write(filetool.WriteInput{Path: path, Content: "inside"})
	}
	if got := r.get("f"); got != "outside" {
		t.Errorf("got %q", got)
	}
}

func TestNarrowingNeverWidens(t *testing.T) {
	r := newRig(t, map[string]string{"a/f": "a", "b/f": "b", "a/up -> ../b/f": "", "../outside/f": "outside", "out -> ../outside": "", "file": ""})
	for _, test := range []struct {
		name string
		dirs []string
		want []string
	}{
		{"none", nil, []string{r.root}},
		{"part", []string{r.path("a")}, []string{r.path("a")}},
		{"URI", []string{"file://" + filepath.ToSlash(r.path("a"))}, []string{r.path("a")}},
		{"two parts and outside", []string{r.path("b"), "/etc", r.path("a")}, []string{r.path("b"), r.path("a")}},
		{"wider", []string{filepath.Dir(r.root)}, []string{r.root}},
		{"only outside", []string{filepath.Join(filepath.Dir(r.root), "outside")}, []string{r.root}},
		{"a link that leaves", []string{r.path("out")}, []string{r.root}},
		{"unusable", []string{"relative", "http://x", r.path("missing"), r.path("file"), "file://%zz"}, []string{r.root}},
	} {
		t.Run(test.name, func(t *testing.T) {
			narrow := r.tools.Narrow(test.dirs)
			defer narrow.Close()
			if got := narrow.Roots(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	narrow := r.tools.Narrow([]string{r.path("a")})
	if got, err := narrow.Read(t.Context(), filetool.ReadInput{Path: "f"}); err != nil || got.Content != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, path := range []string{"up", "../b/f", r.path("b/f")} {
		_, err := narrow.Read(t.Context(), filetool.ReadInput{Path: path})
		refused(t, err, perigee.ClassForbidden, r.path("a"))
	}
	if err := narrow.Close(); err != nil {
		t.Error(err)
	}
	r.read(filetool.ReadInput{Path: "b/f"}) // the wider tools are still open
}

func TestRootMustBeADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + ".missing"} {
		_, err := filetool.New(filetool.Options{Roots: []string{t.TempDir(), path}})
		refused(t, err, perigee.ClassInvalid, path)
	}
	if _, err := filetool.New(filetool.Options{}); err == nil {
		t.Error("tools without a root")
	}
}

func TestNamesThatWindowsReserves(t *testing.T) {
	for name, want := range map[string]bool{
		"CON": true, "nul": true, "Nul.txt": true, "COM1": true, "lpt9.log": true, "com¹": true, "CONOUT$": true, "a:stream": true, "a.": true, "a ": true,
		"aux .c": true, "console": false, "COM": false, "COM10": false, "LPT": false, "null": false, ".con": false, "a.nul": false,
	} {
		if got := filetool.ReservedOnWindows(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

// A path that is too long is refused before it is looked at, and not repeated.
func TestLongPathsAreRefused(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{strings.Repeat("a/", 2049), "file:///" + strings.Repeat("%41", 2000), "/" + strings.Repeat("x", 1<<20), strings.Repeat("\x00", 5000)} {
		_, read := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
		_, write := r.tools.Write(t.Context(), filetool.WriteInput{Path: path})
		_, list := r.tools.List(t.Context(), filetool.ListInput{Path: path})
		for _, err := range []error{read, write, list} {
			refused(t, err, perigee.ClassInvalid, "at most 4096")
			if len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		}
	}
	_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: strings.Repeat("a/", 2048)})
	refused(t, err, perigee.ClassNotFound, "a/a")
}
