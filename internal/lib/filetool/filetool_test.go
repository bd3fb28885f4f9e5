package filetool_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
)

// A fileRig is a root with files in it, and the tools for it.
type fileRig struct {
	*testing.T
	root  string
	tools *filetool.Tools
}

// newRig makes a root with files: paths that end in a slash are directories, "a -> b" is a link.
func newRig(t *testing.T, files map[string]string) *fileRig {
	t.Helper()
	r := &fileRig{T: t, root: filepath.Join(t.TempDir(), "root")}
	r.put("./", "")
	for path, content := range files {
		r.put(path, content)
	}
	r.tools = open(t, filetool.Options{Roots: []string{r.root}, Write: true})
	return r
}

func open(t testing.TB, o filetool.Options) *filetool.Tools {
	t.Helper()
	tools, err := filetool.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tools.Close() })
	return tools
}

func (r *fileRig) path(path string) string { return filepath.Join(r.root, filepath.FromSlash(path)) }

func (r *fileRig) put(path, content string) {
	r.Helper()
	path, target, link := strings.Cut(path, " -> ")
	err := os.MkdirAll(filepath.Dir(r.path(path)), 0o755)
	switch {
	case err != nil:
	case link:
		err = os.Symlink(target, r.path(path))
	case strings.HasSuffix(path, "/"):
		err = os.MkdirAll(r.path(path), 0o755)
	default:
		err = os.WriteFile(r.path(path), []byte(content), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *fileRig) get(path string) string {
	r.Helper()
	content, err := os.ReadFile(r.path(path))
	if err != nil {
		r.Fatal(err)
	}
	return string(content)
}

func (r *fileRig) read(in filetool.ReadInput) *filetool.ReadResult {
	r.Helper()
	result, err := r.tools.Read(context.Background(), in)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

func (r *fileRig) write(in filetool.WriteInput) *filetool.WriteResult {
	r.Helper()
	result, err := r.tools.Write(context.Background(), in)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

// list returns the paths of a listing.
func (r *fileRig) list(in filetool.ListInput) []string {
	r.Helper()
	result, err := r.tools.List(context.Background(), in)
	if err != nil {
		r.Fatal(err)
	}
	return paths(result)
}

func paths(result *filetool.ListResult) []string {
	paths := make([]string, 0, len(result.Entries))
	for _, e := range result.Entries {
		paths = append(paths, e.Path)
	}
	return paths
}

// refused checks the class and the text of an error.
func refused(t *testing.T, err error, class perigee.Class, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there was no error")
	}
	e, ok := err.(*perigee.Error)
	if !ok || e.Class != class || e.Hint == "" {
		t.Fatalf("got %T %#v; want class %s and a hint", err, err, class)
	}
	for _, part := range parts {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("%q does not contain %q", e.Error(), part)
		}
	}
}

func TestFilesAreReadWrittenAndListed(t *testing.T) {
	r := newRig(t, map[string]string{"a.txt": "one\ntwo\n", "dir/b.txt": "b"})
	read := r.read(filetool.ReadInput{Path: "a.txt", Offset: 2})
	if read.Content != "two\n" || read.Lines != 1 || *read.TotalLines != 2 || read.Truncated || read.Path != "a.txt" {
		t.Errorf("got %+v", read)
	}
	written := r.write(filetool.WriteInput{Path: "a.txt", Content: "three\n", ExpectedSHA256: &read.SHA256})
	if written.Created || written.Bytes != 6 || r.get("a.txt") != "three\n" {
		t.Errorf("got %+v", written)
	}
	if again := r.read(filetool.ReadInput{Path: r.path("a.txt")}); again.SHA256 != written.SHA256 {
		t.Errorf("hash %s, written %s", again.SHA256, written.SHA256)
	}
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, []string{"a.txt", "dir", "dir/b.txt"}) {
		t.Errorf("got %q", got)
	}
	if got := r.list(filetool.ListInput{}); !slices.Equal(got, []string{"a.txt", "dir"}) {
		t.Errorf("got %q", got)
	}
}

func TestPathsOutsideOfTheRootsAreRefused(t *testing.T) {
	r := newRig(t, map[string]string{"../secret": "s", "link -> ../secret": "", "out -> ..": "", "abs -> /etc": "", "x/": ""})
	for _, path := range []string{"../secret", "link", "out/secret", "/etc/passwd", "abs/passwd", "x/../../secret", "file:///etc/passwd"} {
		_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: path})
		refused(t, err, perigee.ClassForbidden, r.root)
		_, err = r.tools.Write(t.Context(), filetool.WriteInput{Path: path, Content: "x"})
		refused(t, err, perigee.ClassForbidden, r.root)
	}
}
