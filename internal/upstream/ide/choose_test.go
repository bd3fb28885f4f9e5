//go:build linux

package ide

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/mcp/ask"
)

// tree makes directories and returns their root, without links.
func tree(t *testing.T, dirs ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestChooseAWindow(t *testing.T) {
	root := tree(t, "a/sub/deep", "ab", "b", "c")
	if err := os.Symlink(filepath.Join(root, "b"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) (list []string) {
		for _, name := range names {
			list = append(list, filepath.Join(root, name))
		}
		return list
	}
	a := &window{pid: 1, name: "Antigravity", folders: in("a")}
	sub := &window{pid: 2, name: "Antigravity", folders: in("c", "a/sub")}
	b := &window{pid: 3, name: "Antigravity", folders: in("link")}
	empty := &window{pid: 4, name: "Antigravity", folders: []string{}}
	twin := &window{pid: 5, name: "Antigravity", folders: in("b")}

	for _, test := range []struct {
		name      string
		open      []*window
		workspace string
		roots     []string
		want      *window
		class     perigee.Class // of the error
		declined  bool
		named     []string // in the error
	}{
		{name: "none", class: perigee.ClassUnavailable, declined: true},
		{name: "none with a workspace", workspace: in("a")[0], class: perigee.ClassUnavailable, declined: true},
		{name: "only one", open: []*window{a}, want: a},
		{name: "only one, other roots", open: []*window{a}, roots: in("b"), want: a},
		{name: "only one, another workspace", open: []*window{a}, workspace: in("b")[0], class: perigee.ClassNotFound, named: in("a", "b")},
		{name: "equal", open: []*window{a, b, empty}, workspace: in("a")[0], want: a},
		{name: "contains", open: []*window{a, b, empty}, workspace: in("a/other/file")[0], want: a},
		{name: "longest", open: []*window{a, sub, b}, workspace: in("a/sub/deep")[0], want: sub},
		{name: "not the longest", open: []*window{a, sub, b}, workspace: in("a/su")[0], want: a},
		{name: "same beginning", open: []*window{a, b}, workspace: in("ab")[0], class: perigee.ClassNotFound, named: in("a", "link")},
		{name: "window is a link", open: []*window{a, b}, workspace: in("b")[0], want: b},
		{name: "workspace is a link", open: []*window{a, twin}, workspace: in("link/new")[0], want: twin},
		{name: "above", open: []*window{a, sub}, workspace: root, class: perigee.ClassNotFound, named: in("a", "a/sub")},
		{name: "URI", open: []*window{a, b}, workspace: "file://" + in("a")[0], want: a},
		{name: "dots", open: []*window{a, b}, workspace: in("a")[0] + "/../b/.", want: b},
		{name: "relative", open: []*window{a}, workspace: "a", class: perigee.ClassInvalid},
		{name: "twins", open: []*window{a, b, twin}, workspace: in("b")[0], class: perigee.ClassInvalid, named: in("link", "b")},
		{name: "several", open: []*window{a, b}, class: perigee.ClassInvalid, named: in("a", "link")},
		{name: "several, one root", open: []*window{a, b}, roots: in("b"), want: b},
		{name: "several, roots of one", open: []*window{a, sub}, roots: in("c", "a/sub"), want: sub},
		{name: "several, roots of two", open: []*window{a, b}, roots: in("b", "a"), class: perigee.ClassInvalid, named: in("a", "link")},
		{name: "several, one root of none", open: []*window{a, b}, roots: in("c", "a"), want: a},
		{name: "several, bad root", open: []*window{a, b}, roots: []string{"relative", "file://host/x"}, class: perigee.ClassInvalid},
		{name: "workspace before roots", open: []*window{a, b}, workspace: in("a")[0], roots: in("b"), want: a},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, err := (&windows{list: test.open}).choose(test.workspace, test.roots)
			if w != test.want || (err == nil) != (test.class == "") {
				t.Fatalf("%v, %v", w, err)
			}
			if err == nil {
				return
			}
			if class := perigee.AsError(err).Class; class != test.class || errors.Is(err, ask.ErrDeclined) != test.declined {
				t.Errorf("class %s, %v", class, err)
			}
			for _, name := range test.named {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%s is not named: %v", name, err)
				}
			}
		})
	}
}
