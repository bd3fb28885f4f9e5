package release

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOnlyAReleaseIsReplaced commits outputs to directories that are not from a release, some of them
// almost.
func TestOnlyAReleaseIsReplaced(t *testing.T) {
	const listed = "00  file\n00  index.json\n00  dir\n00  link\n"
	index := `{"schema":1,"releases":[{"version":"0.1.0"}]}`
	for name, c := range map[string]struct {
		files map[string]string
		link  string // empty for none
		want  string // empty if the directory is replaced
	}{
		"release":        {map[string]string{"file": "x", "index.json": index, sums: listed, sums + ".sig": "x"}, "", ""},
		"other list":     {map[string]string{"file": "x", sums: listed}, "", "index.json"},
		"other index":    {map[string]string{"file": "x", "index.json": "{}", sums: listed}, "", "schema"},
		"directory":      {map[string]string{"dir/file": "x", "index.json": index, sums: listed}, "", "has dir, which is not from a release"},
		"link":           {map[string]string{"index.json": index, sums: listed}, "link", "has link, which is not from a release"},
		"part of a name": {map[string]string{"index.json": index, "b": "x", sums: listed + "00  a  b\n"}, "", "has b, which is not from a release"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		write(t, out, c.files)
		write(t, out+".part", map[string]string{"file": "mine"})
		if c.link != "" {
			if runtime.GOOS == "windows" {
				continue
			}
			if err := os.Symlink("elsewhere", filepath.Join(out, c.link)); err != nil {
				t.Fatal(err)
			}
		}
		o, err := newOutput(out)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "OUT=DIR") {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
			for file := range c.files {
				if _, err := os.Stat(filepath.Join(out, file)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := o.write("new", []byte("new")); err != nil {
			t.Fatal(err)
		}
		if err := o.commit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		o.close()
		if got := read(t, out); !maps.Equal(got, map[string]string{"new": "new"}) {
			t.Errorf("%s: the directory has %q", name, got)
		}
		if info, err := os.Stat(out); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o755 {
			t.Errorf("%s: the mode is %v, %v", name, info.Mode(), err)
		}
		entries, err := os.ReadDir(filepath.Dir(out))
		if err != nil || len(entries) != 2 || read(t, out+".part")["file"] != "mine" {
			t.Errorf("%s: beside the release are %v, %v", name, entries, err)
		}
	}
}
