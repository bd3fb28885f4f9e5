package connect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/server/connect"
)

// A session is a client that was started with perigee run.
type session struct {
	*rig
	launch connect.Launch
	dir    string // private
}

func (r *rig) start(client string) *session {
	r.t.Helper()
	l, err := r.find(client).Launch(r.machine, target)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &session{rig: r, launch: l, dir: r.t.TempDir()}
	if err := s.launch.Prepare(s.dir); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// end ends the client. The private directory is removed.
func (s *session) end() []string {
	s.t.Helper()
	messages, err := s.launch.Return(s.dir)
	if err == nil {
		err = os.RemoveAll(s.dir)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return messages
}

// replace writes a file as clients do that keep it whole: under another name first.
func (s *session) replace(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	s.write(path+".new", content, 0o600)
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

const googleSignIn = "{\n  \"security\": {\"auth\": {\"selectedType\": \"oauth-personal\"}}, // mine\n  \"ui\": {\"theme\": \"x\"}\n}\n"

// What Gemini CLI saves is the user's, whether its directory was there before or not.
func TestGeminiCLIKeepsWhatItSaves(t *testing.T) {
	for _, there := range []bool{false, true} {
		r := newRig(t)
		home := filepath.Join(r.machine.Home, ".gemini")
		if there {
			r.write(filepath.Join(home, "settings.json"), googleSignIn, 0o644)
			r.write(filepath.Join(home, "projects.json"), `{"projects": {"/a": "a"}}`, 0o600)
			r.write(filepath.Join(home, "tmp", "a", "chats", "old"), "old", 0o600)
		}
		s := r.start("gemini-cli")
		own := filepath.Join(s.dir, ".gemini")
		if data, err := os.ReadFile(filepath.Join(own, "settings.json")); err != nil || !strings.Contains(string(data), "gemini-api-key") {
			t.Errorf("the client gets %s, %v", data, err)
		}
		s.write(filepath.Join(own, "tmp", "b", "chats", "session"), "a chat", 0o600)
		r.check(filepath.Join(home, "tmp", "b", "chats", "session"), "a chat") // at once
		s.write(filepath.Join(own, "history", "b", "log"), "x", 0o600)
		s.replace(".gemini/projects.json", `{"projects": {"/a": "a", "/b": "b"}}`)
		s.write(filepath.Join(own, "trustedFolders.json"), `{"/b": "TRUST_FOLDER"}`, 0o600)
		s.write(filepath.Join(own, "extensions", "e", "gemini-extension.json"), `{}`, 0o640)
		s.edit(filepath.Join(own, "settings.json"), func(text string) string {
			return strings.Replace(text, "{", "{\n  \"mcpServers\": {\"probe\": {\"command\": \"echo\"}},", 1)
		})
		if got := s.end(); len(got) > 0 {
			t.Errorf("it says %q", got)
		}
		for name, want := range map[string]string{
			"tmp/b/chats/session": "a chat", "history/b/log": "x", "trustedFolders.json": `{"/b": "TRUST_FOLDER"}`,
			"extensions/e/gemini-extension.json": "{}", "projects.json": `{"projects": {"/a": "a", "/b": "b"}}`,
		} {
			r.check(filepath.Join(home, filepath.FromSlash(name)), want)
		}
		settings, err := os.ReadFile(filepath.Join(home, "settings.json"))
		if err != nil || !strings.Contains(string(settings), `{"probe": {"command": "echo"}}`) || strings.Contains(string(settings), "gemini-api-key") {
			t.Errorf("the settings are %s, %v", settings, err)
		}
		if there && (!strings.Contains(string(settings), "// mine") || !strings.Contains(string(settings), "oauth-personal")) {
			t.Errorf("the settings are %s", settings)
		}
	}
}

// Settings that select the API key need no private directory.
func TestGeminiCLIWithAnAPIKeyHasTheHomeOfTheUser(t *testing.T) {
	r := newRig(t)
	r.write(filepath.Join(r.machine.Home, ".gemini", "settings.json"), strings.ReplaceAll(googleSignIn, "oauth-personal", "gemini-api-key"), 0o644)
	s := r.start("gemini-cli")
	if len(s.launch.Files) > 0 || strings.Contains(strings.Join(s.launch.Env, "\n"), "GEMINI_CLI_HOME") {
		t.Errorf("got %v", s.launch)
	}
}

// Two clients at the same time, and an edit of the user, lose nothing of each other.
func TestWhatWasChangedMeanwhileStays(t *testing.T) {
	r := newRig(t)
	home := filepath.Join(r.machine.Home, ".gemini")
	r.write(filepath.Join(home, "settings.json"), googleSignIn, 0o644)
	first, second := r.start("gemini-cli"), r.start("gemini-cli")
	for i, s := range []*session{first, second} {
		project := string(rune('a' + i))
		s.write(filepath.Join(s.dir, ".gemini", "projects.json"), `{"projects": {"/`+project+`": "`+project+`"}}`, 0o600)
		s.write(filepath.Join(s.dir, ".gemini", "GEMINI.md"), "note of "+project, 0o600)
		s.edit(filepath.Join(s.dir, ".gemini", "settings.json"), func(text string) string {
			return strings.NewReplacer(`"theme": "x"`, `"theme": "`+project+`", "of`+project+`": true`).Replace(text)
		})
	}
	r.edit(filepath.Join(home, "settings.json"), func(text string) string { return "// edited\n" + text })
	if got := first.end(); len(got) > 0 {
		t.Errorf("the first says %q", got)
	}
	messages := strings.Join(second.end(), "\n")
	r.check(filepath.Join(home, "settings.json"), "// edited\n"+strings.Replace(googleSignIn, `"theme": "x"`, `"theme": "a", "ofa": true, "ofb": true`, 1))
	if !strings.Contains(messages, "settings.json: ui.theme was changed meanwhile, and stays") {
		t.Errorf("it says %q", messages)
	}
	r.check(filepath.Join(home, "projects.json"), `{"projects": {"/a": "a", "/b": "b"}}`)
	r.check(filepath.Join(home, "GEMINI.md"), "note of a")
	_, beside, ok := strings.Cut(messages, "GEMINI.md was changed meanwhile; what the client wrote is in ")
	if !ok {
		t.Fatalf("it says %q", messages)
	}
	r.check(beside, "note of b")
}

// Two sign-ins at the same time do not become a mixture: the user's stays, and the client's is
// beside it.
func TestSignInsAreNotMixed(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".gemini", "oauth_creds.json")
	r.write(path, `{"access_token": "old", "expiry": 1}`, 0o600)
	s := r.start("gemini-cli")
	const ofClient, ofUser = `{"access_token": "c", "refresh_token": "rc", "expiry": 3}`, `{"access_token": "u", "expiry": 2}`
	s.replace(".gemini/oauth_creds.json", ofClient)
	r.write(path, ofUser, 0o600)
	_, beside, ok := strings.Cut(strings.Join(s.end(), "\n"), "oauth_creds.json was changed meanwhile; what the client wrote is in ")
	if !ok {
		t.Fatal("it does not say where the other sign-in is")
	}
	r.check(path, ofUser)
	r.check(beside, ofClient)
}

// What a client has saved in a run that was killed is returned by the next run of it, and by no run
// of another client or home.
func TestTheNextRunReturnsWhatAKilledOneHasSaved(t *testing.T) {
	r := newRig(t)
	home := filepath.Join(r.machine.Home, ".gemini")
	r.write(filepath.Join(home, "settings.json"), googleSignIn, 0o644)
	r.write(filepath.Join(home, "oauth_creds.json"), "{}", 0o600)
	killed := r.start("gemini-cli")
	killed.write(filepath.Join(killed.dir, ".gemini", "trustedFolders.json"), "{}", 0o600)
	killed.edit(filepath.Join(killed.dir, ".gemini", "settings.json"), func(text string) string {
		return strings.Replace(text, `"theme": "x"`, `"theme": "y", "new": 1`, 1)
	})
	if err := os.Remove(filepath.Join(killed.dir, ".gemini", "oauth_creds.json")); err != nil {
		t.Fatal(err)
	}
	r.edit(filepath.Join(home, "settings.json"), func(text string) string { return strings.Replace(text, `"x"`, `"z"`, 1) })
	before := r.files()
	other := newRig(t)
	for _, s := range []*session{r.start("cline"), other.start("gemini-cli")} {
		if messages, ok, err := s.launch.ReturnEarlier(killed.dir); ok || err != nil || len(messages) > 0 {
			t.Errorf("got %q, %v, %v", messages, ok, err)
		}
	}
	if got := r.files(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
	next := r.start("gemini-cli")
	for range 2 { // the second one finds nothing that is new
		messages, ok, err := next.launch.ReturnEarlier(killed.dir)
		want := []string{filepath.Join(home, "settings.json") + ": ui.theme was changed meanwhile, and stays",
			"an earlier run of gemini-cli was killed; what it has changed is in your files now"}
		if !ok || err != nil || !slices.Equal(messages, want) {
			t.Errorf("got %q, %v, %v", messages, ok, err)
		}
		r.check(filepath.Join(home, "trustedFolders.json"), "{}")
		r.check(filepath.Join(home, "settings.json"), strings.Replace(googleSignIn, `"theme": "x"`, `"theme": "z", "new": 1`, 1))
		r.check(filepath.Join(home, "oauth_creds.json"), "{}") // a program that removes old files may have removed its link
	}
	killed.write(filepath.Join(killed.dir, ".gemini", "settings.json"), "{ half", 0o600)
	if _, ok, err := next.launch.ReturnEarlier(killed.dir); !ok || err == nil || !strings.Contains(err.Error(), "settings.json") {
		t.Errorf("got %v, %v", ok, err)
	}
	if err := connect.Discard(killed.dir); err != nil {
		t.Error(err)
	}
	if _, ok, err := next.launch.ReturnEarlier(killed.dir); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// Gemini CLI removes its credentials when the user signs out. They go, unless they were renewed
// meanwhile, are a link, or a program that removes old files may have removed them.
func TestWhatGeminiCLIRemovesIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(s *session, path string)
		stays     bool
		message   string
	}{
		"removed":    {meanwhile: func(*session, string) {}},
		"gone":       {meanwhile: func(_ *session, path string) { _ = os.Remove(path) }},
		"renewed":    {func(s *session, path string) { s.write(path, "new", 0o600) }, true, " was changed meanwhile, and stays; the client has removed it"},
		"cleaned up": {func(s *session, _ string) { _ = os.Remove(filepath.Join(s.dir, "perigee.json")) }, true, ""},
		"a link": {func(s *session, path string) {
			_ = os.Rename(path, path+".real")
			_ = os.Symlink(path+".real", path)
		}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			home := filepath.Join(r.machine.Home, ".gemini")
			r.write(filepath.Join(home, "settings.json"), googleSignIn, 0o644)
			r.write(filepath.Join(home, "GEMINI.md"), "mine", 0o644)
			path := filepath.Join(home, "oauth_creds.json")
			r.write(path, "old", 0o600)
			s := r.start("gemini-cli")
			if err := os.Remove(filepath.Join(s.dir, ".gemini", "oauth_creds.json")); err != nil {
				t.Fatal(err)
			}
			test.meanwhile(s, path)
			if got := strings.Join(s.end(), "\n"); got != "" && got != path+test.message || (got == "") != (test.message == "") {
				t.Errorf("it says %q", got)
			}
			if _, err := os.Stat(path); os.IsNotExist(err) == test.stays {
				t.Errorf("got %v", err)
			}
			r.check(filepath.Join(home, "GEMINI.md"), "mine")
			r.check(filepath.Join(home, "settings.json"), googleSignIn)
		})
	}
}

// A token that Cline renews while it runs is not lost, and the settings of perigee do not get into
// the user's file.
func TestClineKeepsTokensThatItRenews(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".cline", "data", "settings", "providers.json")
	const before = `{"version": 1, "lastUsedProvider": "cline", "providers": {"cline": {"settings": {"auth": {"refreshToken": "old", "expiresAt": 1763391234567}}}, "gone": {"settings": {}}}}`
	r.write(path, before, 0o600)
	s := r.start("cline")
	s.edit(filepath.Join(s.dir, "providers.json"), func(text string) string {
		return strings.NewReplacer(`"old"`, `"new"`, "1763391234567", "1763399999999", `, "gone": {"settings": {}}`, "", "2026-01-01T", "2026-11-17T").Replace(text)
	})
	r.edit(path, func(text string) string {
		return strings.Replace(text, `"lastUsedProvider": "cline"`, `"lastUsedProvider": "gone"`, 1)
	})
	if got := s.end(); len(got) > 0 {
		t.Errorf("it says %q", got)
	}
	r.check(path, `{"version": 1, "lastUsedProvider": "gone", "providers": {"cline": {"settings": {"auth": {"refreshToken": "new", "expiresAt": 1763399999999}}}}}`)
}

// What a client puts into objects that perigee has added is the user's, and what perigee has put
// there is not.
func TestWhatIsBesideSettingsOfPerigeeIsReturned(t *testing.T) {
	for _, test := range []struct {
		client, copied, file, before string
		changes                      []string // of the copy
		want                         string
	}{
		{"cline", "providers.json", ".cline/data/settings/providers.json", "", []string{
			`"openai-compatible":`, `"anthropic": {"settings": {"apiKey": "of the user"}}, "openai-compatible":`, `"settings": {`, `"settings": {"reasoning": "high", `,
		}, `{"providers":{"anthropic":{"settings":{"apiKey":"of the user"}}},"version":1}`},
		{"cline", "providers.json", ".cline/data/settings/providers.json", "", []string{"2026-01-01T", "2026-11-17T"}, ""},
		{"gemini-cli", ".gemini/settings.json", ".gemini/settings.json", `{"ui": {}}`, []string{
			`"security": {`, `"security": {"folderTrust": {"enabled": true},`, `"customAliases": {`, `"customAliases": {"mine": {"extends": "base"},`,
		}, `{"modelConfigs":{"customAliases":{"mine":{"extends":"base"}}},"security":{"folderTrust":{"enabled":true}},"ui":{}}`},
	} {
		r := newRig(t)
		path := filepath.Join(r.machine.Home, filepath.FromSlash(test.file))
		if test.before != "" {
			r.write(path, test.before, 0o600)
		}
		to := target
		to.Answers = func(string) bool { return false }
		l, err := r.find(test.client).Launch(r.machine, to)
		if err != nil {
			t.Fatal(err)
		}
		s := &session{rig: r, launch: l, dir: t.TempDir()}
		if err := s.launch.Prepare(s.dir); err != nil {
			t.Fatal(err)
		}
		s.edit(filepath.Join(s.dir, test.copied), func(text string) string {
			changed := strings.NewReplacer(test.changes...).Replace(text)
			if changed == text {
				t.Errorf("nothing to replace in %s", text)
			}
			return changed
		})
		if got := s.end(); len(got) > 0 {
			t.Errorf("it says %q", got)
		}
		got := ""
		if data, err := os.ReadFile(path); err == nil {
			var tree any
			if err := json.Unmarshal(data, &tree); err != nil {
				t.Fatal(err)
			}
			compact, _ := json.Marshal(tree)
			got = string(compact)
		}
		if got != test.want {
			t.Errorf("%s: the file is %s, want %s", test.client, got, test.want)
		}
	}
}

// What cannot be returned is an error, and the private directory still has it.
func TestWhatCannotBeReturnedIsReported(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".cline", "data", "settings", "providers.json")
	r.write(path, "{}", 0o600)
	s := r.start("cline")
	s.write(filepath.Join(s.dir, "providers.json"), "{ half", 0o600)
	if _, err := s.launch.Return(s.dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	r.check(path, "{}")
}

// Settings of the machine, and their defaults, count for Qwen Code beside those of perigee.
func TestQwenCodeKeepsTheSettingsOfTheMachine(t *testing.T) {
	r := newRig(t)
	system := filepath.Join(t.TempDir(), "settings.json")
	r.write(system, `{"tools": {"sandbox": true}}`, 0o644)
	r.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"] = system
	s := r.start("qwen-code")
	if got := string(s.launch.Files["settings.json"]); !strings.Contains(got, `"sandbox": true`) || !strings.Contains(got, `"gemini"`) {
		t.Errorf("got %s", got)
	}
	if want := "QWEN_CODE_SYSTEM_DEFAULTS_PATH=" + filepath.Join(filepath.Dir(system), "system-defaults.json"); !strings.Contains(strings.Join(s.launch.Env, "\n"), want) {
		t.Errorf("got %q", s.launch.Env)
	}
}

// Gemini CLI asks for summaries of a model that perigee may not have. It then asks its own.
func TestGeminiCLIAsksOnlyForModelsThatAreThere(t *testing.T) {
	r := newRig(t)
	r.write(filepath.Join(r.machine.Home, ".gemini", "settings.json"), strings.ReplaceAll(googleSignIn, "oauth-personal", "gemini-api-key"), 0o644)
	for _, has := range []bool{false, true} {
		to := connect.Target{URL: target.URL, Model: "gemini-2.5-flash", Answers: func(model string) bool { return has || model != "gemini-3.5-flash-lite" }}
		l, err := r.find("gemini-cli").Launch(r.machine, to)
		if err != nil {
			t.Fatal(err)
		}
		content := string(l.Files[".gemini/settings.json"])
		if has == strings.Contains(content, `"summarizer-default": {"extends": "base", "modelConfig": {"model": "gemini-2.5-flash"`) {
			t.Errorf("it is answered: %v; the settings are %s", has, content)
		}
	}
}

// Clients are told the size of the context window, if it is known and the user has not set another.
func TestClientsKnowTheContextWindow(t *testing.T) {
	r := newRig(t)
	known := connect.Target{URL: target.URL, Context: 1048576}
	told := func(client string, to connect.Target) string {
		t.Helper()
		c := r.find(client)
		l, err := c.Launch(r.machine, to)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Print(r.machine, to, "")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(append(l.Env, l.Args...), string(l.Files["settings.json"]), text), "\n")
	}
	for client, wants := range map[string][]string{
		"codex":       {"-c\nmodel_context_window=1048576\n", "\nmodel_context_window = 1048576\n"},
		"claude-code": {"CLAUDE_CODE_MAX_CONTEXT_TOKENS=1048576\n", `"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "1048576"`},
	} {
		for _, want := range wants {
			if got := told(client, known); !strings.Contains(got, want) {
				t.Errorf("%s is not told %q: %s", client, want, got)
			}
		}
		if got := told(client, target); strings.Contains(got, "model_context_window") || strings.Contains(got, "MAX_CONTEXT") {
			t.Errorf("%s is told a context window that is not known: %s", client, got)
		}
	}
	r.env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = "200000"
	r.write(filepath.Join(r.machine.Home, ".claude", "settings.json"), `{"env": {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "200000"}}`, 0o644)
	if got := told("claude-code", known); strings.Contains(got, "TOKENS=1048576") || strings.Contains(got, `"CLAUDE_CODE_MAX_CONTEXT_TOKENS":"1048576"`) {
		t.Errorf("what the user has set is overridden: %s", got)
	}
}
