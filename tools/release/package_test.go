package release

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestPackagesHaveTheFilesOfTheArchive looks at what is given to a packager.
func TestPackagesHaveTheFilesOfTheArchive(t *testing.T) {
	r := releaseRig(t, nil)
	unit := func(name string) file {
		return file{name: name, content: []byte("[Service]\nExecStart=%h/.local/bin/perigee serve\n")}
	}
	archive := []file{
		{"perigee", []byte("program"), true}, {"LICENSE", []byte("license"), false}, {"NOTICE", []byte("notice"), false},
		{"README.md", []byte("readme"), false}, {"CHANGELOG.md", []byte("log"), false}, {"docs/service.md", []byte("service"), false}, {"completions/perigee.bash", []byte("bash"), false},
		{"completions/perigee.fish", []byte("fish"), false}, {"completions/perigee.ps1", []byte("ps1"), false},
		{"completions/_perigee", []byte("zsh"), false}, {"man/perigee-serve.1", []byte("page"), false},
		unit("systemd/perigee.service"), {"systemd/perigee.socket", []byte("socket"), false},
		{"systemd/perigee.sysusers", []byte("user"), false}, unit("systemd/user/perigee.service"),
	}
	common := map[string]string{
		"/etc/perigee/config.yaml": "", "/usr/bin/perigee": "program", "/usr/lib/sysusers.d/perigee.conf": "user",
		"/usr/lib/systemd/system/perigee.service": "[Service]\nExecStart=/usr/bin/perigee serve\n", "/usr/lib/systemd/system/perigee.socket": "socket",
		"/usr/lib/systemd/user/perigee.service":             "[Service]\nExecStart=/usr/bin/perigee serve\n",
		"/usr/share/bash-completion/completions/perigee":    "bash",
		"/usr/share/fish/vendor_completions.d/perigee.fish": "fish", "/usr/share/man/man1/perigee-serve.1.gz": "page",
		"/usr/share/doc/perigee/README.md": "readme", "/usr/share/doc/perigee/changelog.gz": "log",
		"/usr/share/doc/perigee/docs/service.md": "service",
	}
	own := map[string]map[string]string{
		"deb": {"/usr/share/zsh/vendor-completions/_perigee": "zsh", "/usr/share/doc/perigee/NOTICE": "notice",
			"/usr/share/doc/perigee/copyright": "", "/usr/share/doc/perigee/changelog.Debian.gz": "", "/usr/share/lintian/overrides/perigee": ""},
		"rpm": {"/usr/share/zsh/site-functions/_perigee": "zsh", "/usr/share/licenses/perigee/NOTICE": "notice", "/usr/share/licenses/perigee/LICENSE": "license"},
	}
	var got []Package
	r.Pack = func(p Package) (string, []byte, error) {
		got = append(got, p)
		return p.Format, nil, nil
	}
	if err := r.packages(Platform{"darwin", "arm64"}, archive); err != nil || len(got) != 0 {
		t.Errorf("there are %d packages for macOS, %v", len(got), err)
	}
	if err := r.packages(Platform{"linux", "arm"}, archive); err != nil || len(got) != 2 || len(r.files) != 2 || r.files[1].Kind != "rpm" {
		t.Fatal(err, len(got), r.files)
	}
	for _, p := range got {
		want := maps.Clone(common)
		maps.Copy(want, own[p.Format])
		var paths []string
		for _, f := range p.Files {
			paths = append(paths, f.Path)
			content := f.Content
			if strings.HasSuffix(f.Path, ".gz") {
				from, err := gzip.NewReader(bytes.NewReader(content))
				if err != nil {
					t.Fatal(err)
				}
				content, _ = io.ReadAll(from)
			}
			if w := want[f.Path]; w != "" && w != string(content) || len(content) == 0 {
				t.Errorf("%s: %s is %q", p.Format, f.Path, content)
			}
			if f.Config != (f.Path == "/etc/perigee/config.yaml") || f.Mode != map[bool]fs.FileMode{true: 0o755, false: 0o644}[f.Path == "/usr/bin/perigee"] {
				t.Errorf("%s: %s has mode %o, configuration %v", p.Format, f.Path, f.Mode, f.Config)
			}
		}
		slices.Sort(paths)
		if !slices.Equal(paths, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s has %q", p.Format, paths)
		}
		if len(p.Scripts) != 3 || p.Maintainer != noMaintainer || p.Arch != "arm" {
			t.Errorf("%s has %d scripts, the maintainer %q and the architecture %q", p.Format, len(p.Scripts), p.Maintainer, p.Arch)
		}
	}
	for name, f := range map[string]file{"does not start perigee": {"systemd/perigee.service", []byte("ExecStart=/bin/true\n"), false},
		"no place is known": {"extra/file", []byte("x"), false}} {
		if err := r.packages(Platform{"linux", "amd64"}, []file{f}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error is %v, want %q", err, name)
		}
	}
}
