package find

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// makeFiles makes empty files.
func makeFiles(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProfiles(t *testing.T) {
	const state = "/User/globalStorage/state.vscdb"
	for _, test := range []struct {
		name   string
		system string
		env    map[string]string // a value that begins with / is below the directory of the test
		files  []string
		want   []string
	}{
		{"Linux", "linux", nil, []string{"/home/.config/Antigravity", "/home/.config/Antigravity IDE", "/home/.config/Code"}, []string{"/home/.config/Antigravity", "/home/.config/Antigravity IDE"}},
		{"Linux, elsewhere", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, []string{"/xdg/Antigravity IDE", "/home/.config/Antigravity"}, []string{"/xdg/Antigravity IDE"}},
		{"macOS", "darwin", nil, []string{"/home/Library/Application Support/Antigravity", "/home/.config/Antigravity"}, []string{"/home/Library/Application Support/Antigravity"}},
		{"Windows", "windows", map[string]string{"APPDATA": "/roaming"}, []string{"/roaming/Antigravity", "/roaming/Antigravity IDE"}, []string{"/roaming/Antigravity", "/roaming/Antigravity IDE"}},
		{"Windows, without a variable", "windows", nil, []string{"/home/AppData/Roaming/Antigravity"}, []string{"/home/AppData/Roaming/Antigravity"}},
		{"portable", "linux", map[string]string{"VSCODE_PORTABLE": "/stick/data"}, []string{"/stick/data/user-data", "/home/.config/Antigravity"}, []string{"/stick/data/user-data", "/home/.config/Antigravity"}},
		{"installed and portable", "windows", nil, []string{"/install/data/user-data"}, []string{"/install/data/user-data"}},
		{"named", "linux", nil, []string{"/named", "/home/.config/Antigravity"}, []string{"/named", "/home/.config/Antigravity"}},
		{"none", "linux", nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := t.TempDir()
			for _, f := range test.files {
				makeFiles(t, base+f+state)
			}
			if err := os.MkdirAll(base+"/home/.config/Antigravity-broken/User/globalStorage/state.vscdb", 0o700); err != nil {
				t.Fatal(err)
			}
			found := Profiles(Places{Home: base + "/home", System: test.system, Installed: []string{base + "/install"}, UserData: []string{base + "/named"},
				Getenv: func(name string) string {
					if value := test.env[name]; value != "" {
						return base + value
					}
					return ""
				}})
			var got []string
			for _, p := range found {
				got = append(got, filepath.ToSlash(p.Dir[len(base):]))
				if p.Name != filepath.Base(p.Dir) || filepath.ToSlash(p.StateDatabase) != filepath.ToSlash(p.Dir)+state {
					t.Errorf("got %+v", p)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAppDataDirs(t *testing.T) {
	home := t.TempDir()
	makeFiles(t, home+"/.gemini/antigravity/conversations/c.pb", home+"/.gemini/antigravity-ide/conversations/c.db", home+"/.gemini/settings.json",
		home+"/.gemini/tmp/x", home+"/.gemini/odd/conversations")
	got := AppDataDirs(Places{Home: home})
	want := []string{filepath.Join(home, ".gemini", "antigravity", "conversations"), filepath.Join(home, ".gemini", "antigravity-ide", "conversations")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := AppDataDirs(Places{Home: filepath.Join(home, "missing")}); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestWorkspacesAreCompared(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "a b"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join(base, "a b"), link); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ours, theirs []string
		want         relation
	}{
		{nil, []string{"/w"}, relationUnknown},
		{[]string{"/w"}, nil, relationUnknown},
		{[]string{"/w"}, []string{"/w/"}, relationSame},
		{[]string{"file:///w"}, []string{"/w"}, relationSame},
		{[]string{"/w"}, []string{"/v"}, relationOther},
		{[]string{"/w"}, []string{"/ww"}, relationOther},
		{[]string{"/w"}, []string{"/v", "/w"}, relationSame},
		{[]string{"/x", "/v"}, []string{"/v", "/w"}, relationSame},
		{[]string{"/w/sub"}, []string{"/w"}, relationUnknown},
		{[]string{"/w"}, []string{"/w/sub"}, relationUnknown},
		{[]string{"/w"}, []string{"vscode-remote://ssh-remote+host/w"}, relationUnknown},
		{[]string{"vscode-remote://a/w"}, []string{"vscode-remote://b/w"}, relationOther},
		{[]string{"vscode-remote://a/w"}, []string{"vscode-remote://a/w/"}, relationSame},
		{[]string{"/w"}, []string{"file://server/w"}, relationUnknown},
		{[]string{link}, []string{"file://" + filepath.ToSlash(base) + "/a%20b"}, relationSame},
	} {
		if got := relate(test.ours, test.theirs); got != test.want {
			t.Errorf("%q and %q: got %d, want %d", test.ours, test.theirs, got, test.want)
		}
	}
	for text, want := range map[string]string{
		"file:///c%3A/Users/a": filepath.FromSlash("c:/Users/a"), "file:///C:/x": filepath.FromSlash("C:/x"), "file:///a%20b/c": filepath.FromSlash("/a b/c"),
		"file://localhost/w": filepath.FromSlash("/w"), "file:///%zz": "file:///%zz", "/w": "/w", "vscode-remote://x/y": "vscode-remote://x/y",
	} {
		if got := directoryOf(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
