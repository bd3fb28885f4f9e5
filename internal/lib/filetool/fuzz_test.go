//go:build unix

package filetool_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/lib/filetool"
)

// FuzzPaths reads, writes and lists at any path. What is inside the root begins with "inside",
// everything else with "secret".
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"f", "dir/f", "../outside/f", "link", "out/f", "abs/f", "up/up/outside/f", "dir/../../outside/f", "file:///etc/passwd", "a\x00b",
		"file://localhost/%2e%2e/outside/f", "dir/own/f", "data/f", "DATA/f", "hard", "loop", ".//f", "..", "/", "", "~", "file:", "file:/", "bad\xff", "dir\\..\\f", "new/a/b"} {
		f.Add(path, path, true)
		f.Add("ROOT/"+path, "**/"+path, false)
		f.Add("file://ROOT/"+path, "*", true)
	}
	f.Fuzz(func(t *testing.T, path, glob string, dirs bool) {
		base := t.TempDir()
		r := &fileRig{T: t, root: filepath.Join(base, "root")}
		for name, content := range map[string]string{
			"f": "inside", "dir/f": "inside", "../outside/f": "secret", "../f": "secret", "data/f": "secret", "data/sub/f": "secret",
			"link -> ../outside/f": "", "out -> ../outside": "", "up -> ..": "", "dir/up -> ../..": "", "dir/own -> ../data": "", "loop -> loop": "",
			"new.txt -> ../outside/new.txt": "", "self -> .": "", "etc -> /etc": "",
		} {
			r.put(name, content)
		}
		r.put("abs -> "+filepath.Join(base, "outside"), "")
		if err := os.Link(r.path("data/f"), r.path("hard")); err != nil {
			t.Skip(err)
		}
		tools, err := filetool.New(filetool.Options{Roots: []string{r.root}, Write: true, Forbidden: []string{r.path("data")}})
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		path = strings.ReplaceAll(path, "ROOT", r.root)
		ctx := context.Background()

		if got, err := tools.Read(ctx, filetool.ReadInput{Path: path}); err == nil && got.Content != "inside" {
			t.Fatalf("%q was read: %q", path, got.Content)
		}
		list := func(in filetool.ListInput) {
			got, err := tools.List(ctx, in)
			if err != nil {
				return
			}
			for _, e := range got.Entries {
				if e.Path == "data" || strings.HasPrefix(e.Path, "data/") || e.Path == "hard" {
					t.Fatalf("%+v: %q is listed", in, e.Path)
				}
				if _, err := json.Marshal(e); err != nil {
					t.Fatal(err)
				}
				if again, err := tools.Read(ctx, filetool.ReadInput{Path: e.Path}); e.Type == "file" && (err != nil || again.Content != "inside") {
					t.Fatalf("%q is listed, but: %v", e.Path, err)
				}
			}
		}
		list(filetool.ListInput{Path: path, Recursive: dirs, IncludeIgnored: dirs})
		list(filetool.ListInput{Glob: glob, Recursive: dirs})
		got, err := tools.Write(ctx, filetool.WriteInput{Path: path, Content: "inside", CreateDirs: dirs})
		if err == nil {
			if again, err := tools.Read(ctx, filetool.ReadInput{Path: got.Path}); err != nil || again.SHA256 != got.SHA256 {
				t.Fatalf("%q was written as %q, but: %v", path, got.Path, err)
			}
		}
		list(filetool.ListInput{Recursive: true})
		// Nothing outside of the root was created or changed.
		_ = filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			inside := strings.HasPrefix(path, r.root+"/") && !strings.HasPrefix(path, r.path("data")+"/") && path != r.path("hard")
			if content, err := os.ReadFile(path); err != nil || inside != (string(content) == "inside") {
				t.Fatalf("%s: %q, %v", path, content, err)
			}
			return nil
		})
	})
}
