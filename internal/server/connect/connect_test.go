package connect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/lib/edit"
	"perigee/internal/server/connect"
	"perigee/internal/testing/perigeetest/await"
)

// A rig is a home directory with a store.
type rig struct {
	t       *testing.T
	machine connect.Machine
	store   connect.Store
	env     map[string]string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	home := t.TempDir()
	r := &rig{t: t, env: map[string]string{}, store: connect.Store{Dir: filepath.Join(t.TempDir(), "data", "connect")}}
	r.machine = connect.Machine{Home: home, System: "linux", Dir: home, Getenv: func(name string) string { return r.env[name] }}
	return r
}

var target = connect.Target{URL: "http://127.0.0.1:8741"}

func (r *rig) find(name string) *connect.Client {
	r.t.Helper()
	c, err := connect.Find(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// connect plans and writes.
func (r *rig) connect(name string, t connect.Target) {
	r.t.Helper()
	plan, err := r.store.NewPlan(r.find(name), r.machine, t)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := plan.Run(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) undo(name string) []string {
	r.t.Helper()
	outcomes, err := r.store.Undo(name)
	if err != nil {
		r.t.Fatal(err)
	}
	var results []string
	for _, o := range outcomes {
		results = append(results, o.Result)
	}
	return results
}

func (r *rig) write(path, content string, mode fs.FileMode) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		r.t.Fatal(err)
	}
}

// files lists what is below the home directory, with modes and contents.
func (r *rig) files() string {
	r.t.Helper()
	var lines []string
	err := filepath.WalkDir(r.machine.Home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", info.Mode(), strings.TrimPrefix(path, r.machine.Home))
		if entry.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", data)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// foreign are settings files with comments, odd formatting and keys of the user. Where a client has
// one of the keys that connect sets, connect replaces it.
var foreign = map[edit.Format]string{
	edit.JSON: "\uFEFF// Ada's settings\r\n{\r\n\t\"theme\" :   \"dark\",   // not light\r\n\t\"env\": { /* mine */ \"HTTPS_PROXY\":\"http://proxy\", \"ANTHROPIC_BASE_URL\": \"https://api.example.com\" },\r\n" +
		"\t\"security\": {\"auth\": {\"selectedType\":\"oauth-personal\",},},\r\n\t\"provider\":{},\r\n\t\"n\": 1.50, \"list\": [ 1,2 , ],\r\n\r\n}\r\n/* the end */",
	edit.TOML:   "# Ada's settings\nmodel=\"gpt-5\"   # the old one\nnotify = [ \"a\", # one\n]\n\n[mcp_servers.\"my docs\"]\n  command = 'docs'\n\n[model_providers.other]\nname=\"Other\" # theirs",
	edit.YAML:   "# Ada's settings\nname:   Ada\nmodel: 'gpt-4o'   # the old one\ndark-mode: true\nmodels:\n    # the first is the default\n    -   name: GPT\n        roles: [chat, \"edit\"]\nrules: |\n    be kind\n\n",
	edit.Dotenv: "# Ada's keys\n\nexport GEMINI_API_KEY = 'old' # mine\nCERT=\"-----\nGOOGLE_GEMINI_BASE_URL=no\n-----\"\nOTHER=\r\n",
}

// The settings of every client survive connect and undo: bytes, modes, and directories that did not
// exist.
func TestUndoRestoresWhatWasThere(t *testing.T) {
	tried := 0
	for _, c := range connect.Clients() {
		other := connect.Target{URL: "http://127.0.0.1:9999", Key: perigee.NewSecret("secret-of-ada"), Model: "gemini-2.5-pro"}
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s there %v", c.Name, there), func(t *testing.T) {
				r := newRig(t)
				files := c.Files(r.machine, other)
				if len(files) == 0 {
					t.Skip("it has no settings file")
				}
				tried++
				for i, f := range files {
					if there {
						r.write(f.Path, foreign[f.Format], []fs.FileMode{0o644, 0o640}[i%2])
					}
				}
				before := r.files()
				if c.Name != "vscode" { // it needs no setting for this address
					r.connect(c.Name, target)
				}
				r.connect(c.Name, other) // again, for another address
				for _, f := range c.Files(r.machine, other) {
					checkSet(t, f, there)
				}
				if there && r.files() == before {
					t.Error("nothing was written")
				}
				r.undo(c.Name)
				if after := r.files(); after != before {
					t.Errorf("after undo:\n%s\nbefore:\n%s", after, before)
				}
				if _, err := r.store.Undo(c.Name); err == nil {
					t.Error("a second undo does something")
				}
			})
		}
	}
	if tried < 20 {
		t.Errorf("tried %d settings", tried)
	}
}

// checkSet checks that a file has its settings, the content of the user, and a mode that keeps the
// key from everybody else.
func checkSet(t *testing.T, f connect.File, there bool) {
	t.Helper()
	data, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := edit.Parse(f.Format, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Set {
		if _, raw := s.Value.(edit.Raw); raw {
			continue
		}
		if value, _ := edit.Get(tree, s.Path); value != s.Value {
			t.Errorf("%s: %s is %v, not %v", f.Path, s.Path, value, s.Value)
		}
	}
	if there && !bytes.Contains(data, []byte("Ada's")) {
		t.Errorf("%s has lost what was there: %s", f.Path, data)
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && f.Secret && info.Mode().Perm() != 0o600 {
		t.Errorf("%s, which has the key, has mode %s", f.Path, info.Mode())
	}
}

func TestUndoKeepsWhatWasChangedSince(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	r.write(path, "{\n  \"env\": {\"ANTHROPIC_MODEL\": \"opus\"},\n  \"theme\": \"dark\"\n}\n", 0o644)
	r.connect("claude-code", target)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.write(path, strings.Replace(string(data), `"theme": "dark"`, `"theme": "light", // changed`+"\n"+`  "verbose": true`, 1), 0o644)
	if got := r.undo("claude-code"); !slices.Equal(got, []string{connect.TakenOut}) {
		t.Errorf("got %q", got)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"env\": {\"ANTHROPIC_MODEL\": \"opus\"},\n  \"theme\": \"light\", // changed\n  \"verbose\": true\n}\n"
	if string(after) != want {
		t.Errorf("got %s\nwant %s", after, want)
	}
}

func TestUndoOfANewFileThatWasChangedKeepsIt(t *testing.T) {
	r := newRig(t)
	r.connect("aider", target)
	path := filepath.Join(r.machine.Home, ".aider.conf.yml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.write(path, "# mine\ndark-mode: true\n"+string(data), 0o644)
	r.undo("aider")
	if after, err := os.ReadFile(path); err != nil || string(after) != "# mine\ndark-mode: true\n" {
		t.Errorf("got %q, %v", after, err)
	}
}

// Files that cannot be changed stay as they are, and nothing is stored.
func TestRefusals(t *testing.T) {
	outside := t.TempDir()
	path := filepath.Join(".claude", "settings.json")
	tests := map[string]struct {
		make func(r *rig, path string)
		want string
	}{
		"a link that leads out of the home directory": {func(r *rig, path string) {
			link(r, filepath.Join(outside, "settings.json"), path, "{}")
		}, "is a link that leads out of"},
		"a directory that is a link out of the home directory": {func(r *rig, path string) {
			link(r, outside, filepath.Dir(path), "")
		}, "is a link that leads out of"},
		"a link to nothing": {func(r *rig, path string) {
			link(r, filepath.Join(r.machine.Home, "nothing"), path, "")
		}, "is a link to a file that does not exist"},
		"a directory":    {func(r *rig, path string) { r.write(filepath.Join(path, "x"), "", 0o600) }, "is not a plain file"},
		"read-only":      {func(r *rig, path string) { r.write(path, "{}", 0o444) }, "is read-only"},
		"too large":      {func(r *rig, path string) { r.write(path, strings.Repeat(" ", edit.MaxSize+1), 0o644) }, "at most"},
		"invalid UTF-8":  {func(r *rig, path string) { r.write(path, "{\"a\": \"\xff\"}", 0o644) }, "not valid UTF-8"},
		"invalid":        {func(r *rig, path string) { r.write(path, "{", 0o644) }, "cannot be parsed"},
		"duplicate keys": {func(r *rig, path string) { r.write(path, `{"a":1,"a":2}`, 0o644) }, "twice"},
		"another type":   {func(r *rig, path string) { r.write(path, `{"env":[]}`, 0o644) }, "nothing was changed"},
		"no directory":   {func(r *rig, path string) { r.write(filepath.Dir(path), "", 0o644) }, "not a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (strings.Contains(name, "link") || name == "read-only" || name == "no directory") {
				t.Skip("modes and links are different there")
			}
			r := newRig(t)
			test.make(r, filepath.Join(r.machine.Home, path))
			before := r.files()
			_, err := r.store.NewPlan(r.find("claude-code"), r.machine, target)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "--print") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if r.files() != before {
				t.Errorf("something was changed:\n%s", r.files())
			}
			if _, err := os.Stat(r.store.Dir); !os.IsNotExist(err) {
				t.Errorf("something was stored: %v", err)
			}
		})
	}
}

// A file without permissions is not read-only: it cannot be read.
func TestAFileThatCannotBeRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are different there")
	}
	r := newRig(t)
	r.write(filepath.Join(r.machine.Home, ".claude", "settings.json"), "{}", 0)
	_, err := r.store.NewPlan(r.find("claude-code"), r.machine, target)
	if err == nil || !strings.Contains(err.Error(), "settings.json cannot be read: its mode is 0000; nothing was changed") {
		t.Errorf("got %v", err)
	}
}

// The nearest name is suggested. Names of programs count as well, and less than those of clients.
func TestTheNearestClientIsSuggested(t *testing.T) {
	for typed, meant := range map[string]string{"codx": "codex", "cdoe": "vscode", "clade": "claude-code", "claud-code": "claude-code", "gemni": "gemini-cli", "qwe": "qwen-code"} {
		_, err := connect.Find(typed)
		if want := fmt.Sprintf("no client %q; did you mean %s?", typed, meant); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// link makes a link, and the file that it leads to if there is a content.
func link(r *rig, to, path, content string) {
	r.t.Helper()
	if content != "" {
		r.write(to, content, 0o644)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		r.t.Fatal(err)
	}
}

func TestALinkInsideTheHomeDirectoryStays(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	dotfiles := filepath.Join(r.machine.Home, "dotfiles", "claude.json")
	link(r, dotfiles, path, "{} // mine\n")
	before := r.files()
	r.connect("claude-code", target)
	if to, err := os.Readlink(path); err != nil || to != dotfiles {
		t.Errorf("the link is %q, %v", to, err)
	}
	if data, err := os.ReadFile(dotfiles); err != nil || !bytes.Contains(data, []byte("ANTHROPIC_BASE_URL")) {
		t.Errorf("got %s, %v", data, err)
	}
	r.undo("claude-code")
	if r.files() != before {
		t.Errorf("after undo:\n%s\nbefore:\n%s", r.files(), before)
	}
}

// A run that was killed after it stored the backup, or after the first of two files, can be undone,
// and repeated.
func TestAKilledRunCanBeUndone(t *testing.T) {
	for _, written := range []int{0, 1, 2} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d files written, again %v", written, again), func(t *testing.T) {
				r := newRig(t)
				c := r.find("gemini-cli")
				files := c.Files(r.machine, target)
				for _, f := range files {
					r.write(f.Path, foreign[f.Format], 0o644)
				}
				before := r.files()
				originals := map[string][]byte{}
				for _, f := range files {
					data, err := os.ReadFile(f.Path)
					if err != nil {
						t.Fatal(err)
					}
					originals[f.Path] = data
				}
				r.connect("gemini-cli", target)
				for _, f := range files[written:] { // as if they had not been written
					r.write(f.Path, string(originals[f.Path]), 0o644)
				}
				if again {
					r.connect("gemini-cli", connect.Target{URL: target.URL, Model: "gemini-3-flash"})
				}
				r.undo("gemini-cli")
				if after := r.files(); after != before {
					t.Errorf("after undo:\n%s\nbefore:\n%s", after, before)
				}
			})
		}
	}
}

func TestRunsAtTheSameTimeTakeTurns(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	r.write(path, "{ \"theme\": \"dark\" } // mine\n", 0o644)
	before := r.files()
	var together sync.WaitGroup
	for i := range 16 {
		together.Go(func() {
			release, err := r.store.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			plan, err := r.store.NewPlan(r.find("claude-code"), r.machine, connect.Target{URL: fmt.Sprintf("http://127.0.0.1:%d", 1000+i)})
			if err == nil {
				err = plan.Run()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	await.Return(t, together.Wait, "all runs")
	r.undo("claude-code")
	if r.files() != before {
		t.Errorf("after undo:\n%s\nbefore:\n%s", r.files(), before)
	}
}

func TestTheKeyIsNotShown(t *testing.T) {
	const secret = "canary-of-the-key"
	r := newRig(t)
	keyed := connect.Target{URL: target.URL, Key: perigee.NewSecret(secret)}
	shown := 0
	for _, c := range connect.Clients() {
		plan, err := r.store.NewPlan(&c, r.machine, keyed)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Print(r.machine, keyed, "<secret of key laptop>")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(plan.Diff()+text, secret) {
			t.Errorf("%s shows the key", c.Name)
		}
		if plan.Secret() {
			shown++
			if !strings.Contains(plan.Diff(), "[redacted]") || !strings.Contains(text, "<secret of key laptop>") {
				t.Errorf("%s does not say where the key goes:\n%s", c.Name, text)
			}
		}
	}
	if shown < 6 {
		t.Errorf("%d clients have a key", shown)
	}
}

// Clients that can read a variable get its name in place of the key.
// Formats escape some characters of a key.
func TestAKeyThatIsEscapedIsNotShown(t *testing.T) {
	r := newRig(t)
	keyed := connect.Target{URL: target.URL, Key: perigee.NewSecret(`canary"of\the'key`)}
	redacted := 0
	for _, c := range connect.Clients() {
		plan, err := r.store.NewPlan(&c, r.machine, keyed)
		if err != nil { // files of variables do not take every character
			continue
		}
		text := plan.Diff()
		if strings.Contains(text, "canary") {
			t.Errorf("%s shows the key:\n%s", c.Name, text)
		}
		redacted += strings.Count(text, "[redacted]")
	}
	if redacted < 3 {
		t.Errorf("the key was found %d times", redacted)
	}
}

// A backup that was damaged changes nothing, and removes no directories that connect has not made.
func TestADamagedBackupIsRefused(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.store.Dir, "claude-code.json")
	foreign := t.TempDir()
	for name, damage := range map[string]func(file map[string]any){
		"no undo":            func(file map[string]any) { delete(file, "undo"); delete(file, "written") },
		"no path":            func(file map[string]any) { delete(file, "path") },
		"no root":            func(file map[string]any) { delete(file, "root") },
		"another directory":  func(file map[string]any) { file["made"] = []string{foreign} },
		"no target, no undo": func(file map[string]any) { delete(file, "target"); delete(file, "undo") },
	} {
		r.connect("claude-code", target)
		before := r.files()
		whole, err := os.ReadFile(path)
		var backup map[string]any
		if err == nil {
			err = json.Unmarshal(whole, &backup)
		}
		if err != nil {
			t.Fatal(err)
		}
		damage(backup["files"].([]any)[0].(map[string]any))
		damaged, err := json.Marshal(backup)
		if err != nil {
			t.Fatal(err)
		}
		r.write(path, string(damaged), 0o600)
		if _, err := r.store.Undo("claude-code"); err == nil {
			t.Errorf("%s: undone", name)
		}
		if _, err := r.store.NewPlan(r.find("claude-code"), r.machine, target); err == nil {
			t.Errorf("%s: connected again", name)
		}
		if r.files() != before {
			t.Errorf("%s: files were changed:\n%s\nbefore:\n%s", name, r.files(), before)
		}
		r.write(path, string(whole), 0o600)
		r.undo("claude-code")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

func TestAVariableReplacesTheKey(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"codex", "opencode"} {
		plan, err := r.store.NewPlan(r.find(name), r.machine, connect.Target{URL: target.URL, Key: perigee.NewSecret("x"), Variable: "PERIGEE_KEY"})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Secret() || !strings.Contains(plan.Diff(), "PERIGEE_KEY") {
			t.Errorf("%s: %s", name, plan.Diff())
		}
	}
}

// A second run takes out what only the first one has set.
func TestSettingsOfAnEarlierRunGo(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".codex", "config.toml")
	r.write(path, "# mine\n", 0o644)
	before := r.files()
	r.connect("codex", connect.Target{URL: target.URL, Key: perigee.NewSecret("x"), Variable: "PERIGEE_KEY"})
	r.connect("codex", target)
	data, err := os.ReadFile(path)
	if err != nil || bytes.Contains(data, []byte("PERIGEE_KEY")) || !bytes.Contains(data, []byte("base_url")) {
		t.Errorf("got %s, %v", data, err)
	}
	r.undo("codex")
	if r.files() != before {
		t.Errorf("after undo:\n%s\nbefore:\n%s", r.files(), before)
	}
	r.connect("opencode", connect.Target{URL: target.URL, Model: "gemini-2.5-pro"})
	r.connect("opencode", target)
	tree, err := os.ReadFile(r.find("opencode").Files(r.machine, target)[0].Path)
	if err != nil || bytes.Contains(tree, []byte("gemini-2.5-pro")) {
		t.Errorf("got %s, %v", tree, err)
	}
}

// A file that changes between the diff and the answer is left alone.
func TestAFileThatChangesMeanwhileIsNotWritten(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	r.write(path, "{}", 0o644)
	plan, err := r.store.NewPlan(r.find("claude-code"), r.machine, target)
	if err != nil {
		t.Fatal(err)
	}
	r.write(path, `{"theme": "dark"}`, 0o644)
	before := r.files()
	if err := plan.Run(); err == nil || !strings.Contains(err.Error(), "was changed meanwhile; nothing was written") {
		t.Errorf("got %v", err)
	}
	if r.files() != before {
		t.Errorf("something was written:\n%s", r.files())
	}
}

func TestStates(t *testing.T) {
	r := newRig(t)
	state := func(name string, installed bool) connect.State {
		t.Helper()
		status, err := r.store.Status(r.find(name), r.machine, target, installed)
		if err != nil {
			t.Fatal(err)
		}
		return status.State
	}
	check := func(got, want connect.State) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	check(state("claude-code", false), connect.NotInstalled)
	check(state("claude-code", true), connect.NotConnected)
	r.write(path, `{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8741"}}`, 0o644)
	check(state("claude-code", true), connect.Connected) // by hand
	r.connect("claude-code", target)
	check(state("claude-code", false), connect.Connected)
	r.write(path, `{"env": {"ANTHROPIC_BASE_URL": "https://api.example.com"}}`, 0o644)
	check(state("claude-code", true), connect.Changed)
	if got := r.find("claude-code").Address(r.machine); got != "https://api.example.com" {
		t.Errorf("the address is %q", got)
	}
	r.undo("claude-code")
	r.connect("zed", target)
	check(state("zed", true), connect.Connected)
}

func TestOverrides(t *testing.T) {
	r := newRig(t)
	r.machine.Dir = filepath.Join(r.machine.Home, "project", "src")
	project := filepath.Join(r.machine.Home, "project", ".claude", "settings.json")
	r.write(project, `{"permissions": {}}`, 0o644)
	if got := r.find("claude-code").Overrides(r.machine, target); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	r.write(project, `{"env": {"ANTHROPIC_MODEL": "opus"}}`, 0o644)
	own := filepath.Join(r.machine.Home, ".claude", "settings.json")
	r.write(own, `{"model": "opus"}`, 0o644)
	r.env["ANTHROPIC_API_KEY"] = "sk-1"
	want := []string{"the environment variable ANTHROPIC_API_KEY", project, "model in " + own}
	if got := r.find("claude-code").Overrides(r.machine, target); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r.env["GEMINI_MODEL"] = "gemini-2.5-pro" // the value that is written
	r.write(filepath.Join(r.machine.Home, "project", ".env"), "A=b\n", 0o644)
	want = []string{filepath.Join(r.machine.Home, "project", ".env")}
	if got := r.find("gemini-cli").Overrides(r.machine, target); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The files of each system, below a home directory.
func TestPaths(t *testing.T) {
	home := filepath.FromSlash("/home/ada")
	common := map[string]string{
		"claude-code": ".claude/settings.json", "codex": ".codex/config.toml", "gemini-cli": ".gemini/.env .gemini/settings.json",
		"opencode": ".config/opencode/opencode.json", "qwen-code": ".qwen/settings.json .qwen/.env",
		"cline": ".cline/data/settings/providers.json", "continue": ".continue/config.yaml", "aider": ".aider.conf.yml", "copilot-cli": "", "cursor": "",
	}
	special := map[string]map[string]string{
		"linux":   {"zed": ".config/zed/settings.json", "vscode": ".config/Code/User/settings.json"},
		"darwin":  {"zed": ".config/zed/settings.json", "vscode": "Library/Application Support/Code/User/settings.json"},
		"windows": {"zed": "AppData/Roaming/Zed/settings.json", "vscode": "AppData/Roaming/Code/User/settings.json"},
	}
	other := connect.Target{URL: "http://127.0.0.1:1"}
	for system, differs := range special {
		m := connect.Machine{Home: home, System: system, Getenv: func(string) string { return "" }}
		for _, c := range connect.Clients() {
			want, ok := differs[c.Name]
			if !ok {
				if want, ok = common[c.Name]; !ok {
					t.Fatalf("no path for %s", c.Name)
				}
			}
			var got []string
			for _, f := range c.Files(m, other) {
				path, err := filepath.Rel(home, f.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, filepath.ToSlash(path))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s on %s: %q, want %q", c.Name, system, got, want)
			}
		}
	}
}

func TestVariablesThatMoveSettings(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	for name, variable := range map[string]string{
		"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini-cli": "GEMINI_CLI_HOME", "opencode": "XDG_CONFIG_HOME",
		"qwen-code": "QWEN_HOME", "cline": "CLINE_DATA_DIR", "continue": "CONTINUE_GLOBAL_DIR",
	} {
		clear(r.env)
		r.env[variable] = dir
		plan, err := r.store.NewPlan(r.find(name), r.machine, target)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range plan.Files {
			if !strings.HasPrefix(f.Path, dir) {
				t.Errorf("%s with %s: %s", name, variable, f.Path)
			}
		}
	}
	jsonc := filepath.Join(r.machine.Home, ".config", "opencode", "opencode.jsonc")
	r.write(jsonc, "{}", 0o644)
	clear(r.env)
	if got := r.find("opencode").Files(r.machine, target)[0].Path; got != jsonc {
		t.Errorf("got %s", got)
	}
}

// No snippet touches what a client may do.
func TestPermissionsAreNotTouched(t *testing.T) {
	r := newRig(t)
	checked := 0
	for _, c := range connect.Clients() {
		for _, f := range c.Files(r.machine, connect.Target{URL: "http://127.0.0.1:1"}) {
			for _, s := range append(f.Set, f.IfMissing...) {
				checked++
				path := strings.ToLower(s.Path.String())
				for _, word := range []string{"permission", "approv", "sandbox", "allow", "trust", "yolo", "danger"} {
					if strings.Contains(path, word) {
						t.Errorf("%s sets %s", c.Name, s.Path)
					}
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("checked %d settings", checked)
	}
}

func TestLaunches(t *testing.T) {
	r := newRig(t)
	r.write(filepath.Join(r.machine.Home, ".gemini", "history.json"), "[]", 0o600)
	for _, c := range connect.Clients() {
		if c.Program == "" {
			continue
		}
		keyed := connect.Target{URL: "http://127.0.0.1:4321", Key: perigee.NewSecret("secret-of-ada")}
		before := r.files()
		l, err := c.Launch(r.machine, keyed)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		all := strings.Join(append(l.Env, l.Args...), "\n")
		for _, data := range l.Files {
			all += string(data)
		}
		if l.Warning == "" && (!strings.Contains(all, "http://127.0.0.1:4321") || !strings.Contains(all, "secret-of-ada") || !strings.Contains(all, c.Model)) {
			t.Errorf("%s is not told everything: %s", c.Name, all)
		}
		if strings.Contains(strings.Join(l.Args, " "), "secret-of-ada") {
			t.Errorf("%s: every user of the machine sees the key in its arguments", c.Name)
		}
		if r.files() != before {
			t.Errorf("%s: something was written", c.Name)
		}
	}
}
