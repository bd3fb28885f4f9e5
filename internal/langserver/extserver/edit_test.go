package extserver_test

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/langserver/extserver"
)

// An editRig is a server with a workspace, and a directory beside it that has a file of its own.
type editRig struct {
	*serverRig
	workspace, outside string
}

func newEditRig(t *testing.T, opts extserver.Options) *editRig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &editRig{workspace: filepath.Join(dir, "work"), outside: filepath.Join(dir, "work-outside")}
	for _, d := range []string{r.workspace, r.outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.put(t, filepath.Join(r.outside, "file"), "before", 0o644)
	opts.Workspace = r.workspace
	r.serverRig = newRig(t, opts)
	return r
}

func (r *editRig) put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func (r *editRig) link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(r.workspace, name)); err != nil {
		t.Skip(err)
	}
}

func uri(path string) string {
	path = filepath.ToSlash(path)
	if path[0] != '/' {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// edit returns the code of a WriteCascadeEdit; 0 means it was written.
func (r *editRig) edit(uri, text string) connect.Code {
	_, err := r.client.WriteCascadeEdit(r.Context(), connect.NewRequest(&pb.WriteCascadeEditRequest{Uri: uri, TargetContent: text}))
	return codeOf(err)
}

func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

func (r *editRig) check(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != mode {
		t.Errorf("%s: mode %v, want %v", filepath.Base(path), info.Mode(), mode)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%s: got %q, %v; want %q", filepath.Base(path), got, err, text)
	}
}

func TestEditsAreWritten(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowEdit: true})
	script := filepath.Join(r.workspace, "a b%.sh")
	r.put(t, script, "old", 0o750)
	if code := r.edit(uri(script), "new\r\ntext"); code != 0 {
		t.Errorf("got %v", code)
	}
	r.check(t, script, "new\r\ntext", 0o750)

	made := filepath.Join(r.workspace, "some", "new", "file")
	if code := r.edit(uri(made), ""); code != 0 {
		t.Errorf("got %v", code)
	}
	r.check(t, made, "", 0o644)
	if entries, err := os.ReadDir(r.workspace); err != nil || len(entries) != 2 {
		t.Errorf("there is %v, %v", entries, err)
	}
	if code := r.edit(uri(r.workspace)+"/some/../other", "x"); code != 0 {
		t.Errorf("got %v", code)
	}
	r.check(t, filepath.Join(r.workspace, "other"), "x", 0o644)
	if code := r.edit("file://localhost"+uri(script)[len("file://"):], "y"); code != 0 {
		t.Errorf("got %v", code)
	}
	r.check(t, script, "y", 0o750)
	if _, err := r.client.SaveDocument(r.Context(), connect.NewRequest(&pb.SaveDocumentRequest{Uri: uri(script)})); err != nil {
		t.Error(err)
	}
}

func TestEditsDoNotLeaveTheWorkspace(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowEdit: true})
	if err := os.Mkdir(filepath.Join(r.workspace, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.put(t, filepath.Join(r.workspace, "inside"), "inside", 0o644)
	r.link(t, r.outside, "dir")
	r.link(t, filepath.Join("..", "work-outside"), "relative-dir")
	r.link(t, filepath.Join(r.outside, "file"), "file")
	r.link(t, filepath.Join("..", "work-outside", "file"), "relative-file")
	r.link(t, filepath.Join("..", "work-outside", "new"), "dangling")
	r.link(t, "loop2", "loop")
	r.link(t, "loop", "loop2")
	base := uri(r.workspace)
	const denied, invalid = connect.CodePermissionDenied, connect.CodeInvalidArgument
	for name, want := range map[string]connect.Code{
		base + "/../work-outside/file":        denied,
		base + "/%2e%2e/work-outside/file":    denied,
		base + "/..%2fwork-outside%2ffile":    denied,
		base + "/sub/../../work-outside/file": denied,
		base + "-outside/file":                denied,
		base + "/dir/file":                    denied,
		base + "/dir/new":                     denied,
		base + "/dir/new/file":                denied,
		base + "/relative-dir/file":           denied,
		base + "/file":                        denied,
		base + "/relative-file":               denied,
		base + "/dangling":                    denied,
		base + "/loop":                        invalid,
		base:                                  invalid,
		base + "/sub":                         invalid,
		base + "/inside/file":                 connect.CodeNotFound,
		base + "/a?b":                         invalid,
		base + "/a#b":                         invalid,
		base + "/a%00b":                       invalid,
		base + "/%zz":                         invalid,
		"":                                    invalid,
		r.outside + "/file":                   invalid,
		"file:" + r.outside + "/file":         denied,
		"file:relative":                       denied,
		"file://example.com" + base[len("file://"):] + "/x": denied,
		"file://user@localhost" + base[len("file://"):]:     denied,
		"http://localhost" + base[len("file://"):] + "/x":   denied,
		"vscode-remote://ssh" + base[len("file://"):]:       denied,
	} {
		if got := r.edit(name, "attack"); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		_, err := r.client.SaveDocument(r.Context(), connect.NewRequest(&pb.SaveDocumentRequest{Uri: name}))
		if got := codeOf(err); want == denied && got != denied && name != base+"/dangling" {
			t.Errorf("save %s: got %v", name, got)
		}
	}
	r.check(t, filepath.Join(r.outside, "file"), "before", 0o644)
	r.check(t, filepath.Join(r.workspace, "inside"), "inside", 0o644)
	if entries, err := os.ReadDir(r.outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
}

func TestEditsNeedPermission(t *testing.T) {
	r := newEditRig(t, extserver.Options{AllowCommand: true})
	name := filepath.Join(r.workspace, "file")
	if code := r.edit(uri(name), "x"); code != connect.CodePermissionDenied {
		t.Errorf("got %v", code)
	}
	if _, err := os.Lstat(name); err == nil {
		t.Error("the file was written")
	}
	_, err := r.client.SaveDocument(r.Context(), connect.NewRequest(&pb.SaveDocumentRequest{Uri: uri(name)}))
	if codeOf(err) != connect.CodePermissionDenied {
		t.Errorf("got %v", err)
	}
}
