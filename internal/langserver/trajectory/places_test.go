package trajectory

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

func TestStateDatabases(t *testing.T) {
	const state = "/User/globalStorage/state.vscdb"
	home := t.TempDir()
	makeFiles(t, home+"/.config/Antigravity"+state, home+"/.config/Antigravity IDE"+state, home+"/.config/Code"+state, home+"/stick/user-data"+state)
	relative := func(paths []string) (got []string) {
		for _, path := range paths {
			got = append(got, filepath.ToSlash(path[len(home):]))
		}
		return got
	}
	want := []string{"/.config/Antigravity" + state, "/.config/Antigravity IDE" + state}
	if got := relative(StateDatabases(home)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := StateDatabases(filepath.Join(home, "missing")); got != nil {
		t.Errorf("got %q", got)
	}
	if runtime.GOOS != "linux" {
		return
	}
	t.Setenv("HOME", filepath.Join(home, "nowhere"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Setenv("VSCODE_PORTABLE", filepath.Join(home, "stick"))
	if got := relative(StateDatabases("")); !slices.Equal(got, append([]string{"/stick/user-data" + state}, want...)) {
		t.Errorf("with an environment: got %q", got)
	}
}

func TestConversationDirs(t *testing.T) {
	home := t.TempDir()
	makeFiles(t, home+"/.gemini/antigravity/conversations/c.pb", home+"/.gemini/antigravity-ide/conversations/c.db", home+"/.gemini/settings.json",
		home+"/.gemini/tmp/x", home+"/.gemini/odd/conversations")
	got := ConversationDirs(home)
	want := []string{filepath.Join(home, ".gemini", "antigravity", "conversations"), filepath.Join(home, ".gemini", "antigravity-ide", "conversations")}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ConversationDirs(filepath.Join(home, "missing")); got != nil {
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
