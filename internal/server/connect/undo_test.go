package connect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee/internal/lib/edit"
	"perigee/internal/server/connect"
)

// tree returns the content of a file; that of a file that does not exist is empty.
func (r *rig) tree(f connect.File) map[string]any {
	r.t.Helper()
	data, err := os.ReadFile(f.Path)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	tree, err := edit.Parse(f.Format, data)
	if err != nil {
		r.t.Fatalf("%v in\n%s", err, data)
	}
	return tree
}

// set changes values of a file as its user would.
func (r *rig) set(f connect.File, settings []edit.Setting) {
	r.t.Helper()
	data, err := os.ReadFile(f.Path)
	if err == nil {
		data, _, err = edit.Apply(f.Format, data, settings)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(f.Path, string(data), 0o600)
}

// selects reports whether a path leads to the name by which connect finds an item of a list.
func selects(path edit.Path) bool {
	return len(path) > 1 && strings.HasPrefix(path[len(path)-2], path[len(path)-1]+"=")
}

// mine are settings of the user at the paths of every nth setting of connect.
func mine(settings []edit.Setting, nth int) []edit.Setting {
	var own []edit.Setting
	for i, s := range settings {
		if i%nth != nth-1 || selects(s.Path) {
			continue
		}
		value := any(fmt.Sprintf("mine-%d", i))
		if _, list := s.Value.(edit.Raw); list {
			value = edit.Raw(`[{"name": "mine"}]`)
		}
		own = append(own, edit.Setting{Path: s.Path, Value: value})
	}
	return own
}

// Undo leaves every value that the user has set since, in the file of every client, and names it.
// It takes out everything else, and can be repeated when the user has changed values back.
func TestUndoLeavesWhatTheUserHasSet(t *testing.T) {
	formats := map[edit.Format]int{}
	for _, c := range connect.Clients() {
		to := connect.Target{URL: "http://127.0.0.1:9999", Model: "gemini-2.5-pro"}
		for _, there := range []bool{false, true} {
			for _, nth := range []int{1, 2, 3} {
				t.Run(fmt.Sprintf("%s there %v every %d", c.Name, there, nth), func(t *testing.T) {
					r := newRig(t)
					files := c.Files(r.machine, to)
					var before []map[string]any
					for _, f := range files {
						if there {
							r.write(f.Path, foreign[f.Format], 0o644)
						}
						before = append(before, r.tree(f))
					}
					if len(files) == 0 {
						t.Skip("it has no settings file")
					}
					r.connect(c.Name, to)
					var kept []string
					own := make([][]edit.Setting, len(files))
					for i, f := range files {
						own[i] = mine(f.Set, nth)
						r.set(f, own[i])
						for _, entry := range c.Entries {
							if slices.ContainsFunc(own[i], func(s edit.Setting) bool { return under(s.Path, entry) }) {
								kept = append(kept, entry.String())
							}
						}
						for _, s := range own[i] {
							kept = append(kept, s.Path.String())
							formats[f.Format]++
						}
					}
					if got := r.kept(c.Name); !slices.Equal(got, kept) {
						t.Fatalf("undo names %q, want %q", got, kept)
					}
					for i, f := range files {
						r.checkUndone(f, before[i], own[i], c.Entries)
					}
					if len(kept) == 0 {
						return
					}
					if got := r.kept(c.Name); !slices.Equal(got, kept) {
						t.Errorf("a second undo names %q, want %q", got, kept)
					}
					for i, f := range files { // the user goes back to the values of connect
						var back []edit.Setting
						for _, s := range f.Set {
							if slices.ContainsFunc(own[i], func(o edit.Setting) bool { return slices.Equal(o.Path, s.Path) }) {
								back = append(back, s)
							}
						}
						if len(back) > 0 {
							r.set(f, back)
						}
					}
					if got := r.kept(c.Name); len(got) > 0 {
						t.Errorf("undo names %q", got)
					}
					for i, f := range files {
						r.checkUndone(f, before[i], nil, c.Entries)
					}
					if _, err := r.store.Undo(c.Name); err == nil || !strings.Contains(err.Error(), "was not connected") {
						t.Errorf("got %v", err)
					}
				})
			}
		}
	}
	for _, format := range []edit.Format{edit.JSON, edit.TOML, edit.YAML, edit.Dotenv} {
		if formats[format] < 6 {
			t.Errorf("changed %d values of %s files", formats[format], format)
		}
	}
}

// kept undoes, and returns the values that undo names.
func (r *rig) kept(client string) []string {
	r.t.Helper()
	outcomes, err := r.store.Undo(client)
	if err != nil {
		r.t.Fatal(err)
	}
	var kept []string
	for _, o := range outcomes {
		for _, path := range o.Kept {
			kept = append(kept, path.String())
		}
		for _, path := range o.Gone {
			kept = append(kept, path.String()+" gone")
		}
	}
	return kept
}

// undoOne undoes a client with one file.
func (r *rig) undoOne(client string) connect.Outcome {
	r.t.Helper()
	outcomes, err := r.store.Undo(client)
	if err != nil || len(outcomes) != 1 {
		r.t.Fatalf("got %v, %v", outcomes, err)
	}
	return outcomes[0]
}

func under(path, container edit.Path) bool {
	return len(path) >= len(container) && slices.Equal(path[:len(container)], container)
}

// checkUndone checks that a file has the values of the user, the entries that these are in as a
// whole, and what was there before in place of every other value.
func (r *rig) checkUndone(f connect.File, before map[string]any, own []edit.Setting, entries []edit.Path) {
	r.t.Helper()
	now := r.tree(f)
	for _, s := range append(slices.Clone(f.Set), f.IfMissing...) {
		got, there := edit.Get(now, s.Path)
		at := slices.IndexFunc(own, func(o edit.Setting) bool { return slices.Equal(o.Path, s.Path) })
		was, existed := edit.Get(before, s.Path)
		stays := slices.ContainsFunc(entries, func(entry edit.Path) bool {
			return under(s.Path, entry) && slices.ContainsFunc(own, func(o edit.Setting) bool { return under(o.Path, entry) })
		})
		switch {
		case at >= 0:
			if list, ok := got.([]any); got != own[at].Value && (!ok || len(list) != 1) {
				r.t.Errorf("%s of the user is %v, and was %v", s.Path, got, own[at].Value)
			}
		case stays:
			if !there {
				r.t.Errorf("%s is missing in an entry that stays", s.Path)
			}
		case there == existed && reflect.DeepEqual(got, was):
		case s.Part == edit.Independent && !selects(s.Path) || len(own) == 0:
			r.t.Errorf("%s is %v, and was %v", s.Path, got, was)
		}
	}
}

func (r *rig) edit(path string, change func(string) string) {
	r.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(path, change(string(data)), 0o600)
}

func (r *rig) check(path, want string) {
	r.t.Helper()
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		r.t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
}

// The user has pointed Codex at another provider, which is in the table that connect has made.
func TestUndoLeavesAnotherProviderOfCodex(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".codex", "config.toml")
	r.write(path, "model = \"gpt-5\"\n", 0o644)
	r.connect("codex", target)
	r.edit(path, func(text string) string {
		text = strings.NewReplacer(`model = "gemini-3-flash"`, `model = "o5" # mine`, `model_provider = "perigee"`, `model_provider = "azure"`).Replace(text)
		return text + "\n[model_providers.azure]\nname = \"Azure\"\nbase_url = \"https://llm.example.com\"\n"
	})
	if got, want := r.kept("codex"), []string{"model", "model_provider"}; !slices.Equal(got, want) {
		t.Errorf("undo names %q, want %q", got, want)
	}
	r.check(path, "model = \"o5\" # mine\nmodel_provider = \"azure\"\n\n[model_providers.azure]\nname = \"Azure\"\nbase_url = \"https://llm.example.com\"\n")
	status, err := r.store.Status(r.find("codex"), r.machine, target, true)
	if err != nil || status.State != connect.NotConnected {
		t.Errorf("it is %q, %v", status.State, err)
	}
}

// The user has put the address and the token of another gateway beside variables of his own.
func TestUndoLeavesAnotherGatewayOfClaudeCode(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".claude", "settings.json")
	r.write(path, "{\"theme\": \"dark\"}\n", 0o644)
	r.connect("claude-code", target)
	files := r.find("claude-code").Files(r.machine, target)
	r.set(files[0], []edit.Setting{
		{Path: edit.Path{"env", "ANTHROPIC_BASE_URL"}, Value: "https://llm.example.com"},
		{Path: edit.Path{"env", "ANTHROPIC_AUTH_TOKEN"}, Value: "own-token"}, {Path: edit.Path{"env", "HTTPS_PROXY"}, Value: "http://proxy"},
	})
	if got, want := r.kept("claude-code"), []string{"env.ANTHROPIC_BASE_URL", "env.ANTHROPIC_AUTH_TOKEN"}; !slices.Equal(got, want) {
		t.Errorf("undo names %q, want %q", got, want)
	}
	tree := r.tree(files[0])
	want := map[string]any{"theme": "dark", "env": map[string]any{
		"ANTHROPIC_BASE_URL": "https://llm.example.com", "ANTHROPIC_AUTH_TOKEN": "own-token", "HTTPS_PROXY": "http://proxy"}}
	if !reflect.DeepEqual(tree, want) {
		t.Errorf("got %v", tree)
	}
	// Connected once more, undo goes back to these values, not to those before the first connect,
	// and names them again.
	r.connect("claude-code", target)
	if got, want := r.kept("claude-code"), []string{"env.ANTHROPIC_BASE_URL", "env.ANTHROPIC_AUTH_TOKEN"}; !slices.Equal(got, want) {
		t.Errorf("undo names %q, want %q", got, want)
	}
	if tree := r.tree(files[0]); !reflect.DeepEqual(tree, want) {
		t.Errorf("got %v", tree)
	}
}

// A value that the user has removed stays away and is named, and one that connect has added is not
// missed.
func TestUndoDoesNotBringBackWhatTheUserHasRemoved(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".codex", "config.toml")
	r.write(path, "model = \"gpt-5\"\n", 0o644)
	r.connect("codex", target)
	r.write(path, "# all mine\n", 0o600)
	for range 2 {
		if got, want := r.kept("codex"), []string{"model gone"}; !slices.Equal(got, want) {
			t.Errorf("undo names %q, want %q", got, want)
		}
		r.check(path, "# all mine\n")
	}
	r.write(path, "model = \"gpt-5\"\n", 0o644) // what was there
	if got := r.kept("codex"); len(got) > 0 {
		t.Errorf("undo names %q", got)
	}
}

// The user has deleted the settings file. Undo says so, and where the previous one is. Whatever
// comes next is restored to the byte.
func TestUndoOfAFileThatIsGone(t *testing.T) {
	for client, name := range map[string]string{"codex": ".codex/config.toml", "claude-code": ".claude/settings.json"} {
		for _, before := range []string{"", foreign[edit.TOML], "# nothing of connect\n"} {
			r := newRig(t)
			path := filepath.Join(r.machine.Home, filepath.FromSlash(name))
			if client == "claude-code" && before != "" {
				before = foreign[edit.JSON]
			}
			if before != "" {
				r.write(path, before, 0o644)
			}
			remove := func() {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			check := func(o connect.Outcome, result string) {
				t.Helper()
				if o.Result != result || (o.Copy != "") != (before != "") {
					t.Errorf("%s: got %+v, want %q", client, o, result)
				}
				if o.Copy != "" {
					r.check(o.Copy, before)
				}
				if _, err := os.Lstat(path); !os.IsNotExist(err) {
					t.Errorf("%s: %s is there: %v", client, path, err)
				}
			}
			r.connect(client, target)
			remove()
			if o := r.undoOne(client); len(o.Kept)+len(o.Gone) > 0 {
				t.Errorf("it names %v", o)
			} else {
				check(o, connect.Missing)
			}
			r.connect(client, target)
			check(r.undoOne(client), connect.Removed)
			r.connect(client, target)
			remove()
			r.connect(client, target) // without undo in between
			check(r.undoOne(client), connect.Removed)
			r.write(path, "{}", 0o644) // a new file of the user
			if client == "codex" {
				r.write(path, "approval = \"never\" # mine", 0o640)
			}
			files := r.files()
			r.connect(client, target)
			r.undo(client)
			if got := r.files(); got != files {
				t.Errorf("after undo:\n%s\nbefore:\n%s", got, files)
			}
			if !strings.Contains(before, "Ada") {
				continue // no setting is left to restore
			}
			r.write(path, before, 0o644) // from the copy
			if o := r.undoOne(client); o.Copy != "" {
				t.Errorf("got %+v", o)
			}
			if left, err := filepath.Glob(filepath.Join(r.store.Dir, client+"*")); err != nil || len(left) > 0 {
				t.Errorf("the store has %q, %v", left, err)
			}
		}
	}
}

// A value that any run of connect has written is not one of the user.
func TestUndoTakesOutWhatAnEarlierRunHasWritten(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.machine.Home, ".codex", "config.toml")
	r.write(path, "model = \"gpt-5\"\n", 0o644)
	r.connect("codex", connect.Target{URL: target.URL, Model: "gemini-2.5-pro"})
	r.connect("codex", target)
	r.edit(path, func(text string) string {
		return "# mine\n" + strings.ReplaceAll(text, "gemini-3-flash", "gemini-2.5-pro")
	})
	if got := r.kept("codex"); len(got) > 0 {
		t.Errorf("undo names %q", got)
	}
	r.check(path, "# mine\nmodel = \"gpt-5\"\n")
}

// What the user has set between two runs is what undo restores. It is named, and a copy has what
// was there before the first run.
func TestUndoRestoresWhatTheUserHasSetBetweenTwoRuns(t *testing.T) {
	const before = "model = \"gpt-5\"\napproval = \"never\"\n"
	for own, names := range map[string][]string{"model = \"o5\"\n": {"model"}, "": {"model gone"}} {
		r := newRig(t)
		path := filepath.Join(r.machine.Home, ".codex", "config.toml")
		r.write(path, before, 0o644)
		r.connect("codex", target)
		r.edit(path, func(text string) string { return strings.Replace(text, "model = \"gemini-3-flash\"\n", own, 1) })
		r.connect("codex", target)
		want := own + "approval = \"never\"\n"
		for i, result := range []string{connect.Between, connect.Unchanged, connect.Restored} {
			if i == 2 {
				r.connect("codex", target) // and once more
			}
			o := r.undoOne("codex")
			var got []string
			for _, path := range o.Kept {
				got = append(got, path.String())
			}
			for _, path := range o.Gone {
				got = append(got, path.String()+" gone")
			}
			if !slices.Equal(got, names) || o.Result != result {
				t.Errorf("undo says %q, names %q, want %q, %q", o.Result, got, result, names)
			}
			r.check(o.Copy, before)
			now, err := os.ReadFile(path)
			if tree, parsed := edit.Parse(edit.TOML, now); err != nil || parsed != nil || len(tree) != strings.Count(want, "\n") || !strings.Contains(string(now), own) {
				t.Errorf("got %s, want %s", now, want)
			}
		}
		r.edit(path, func(text string) string { // the user restores it
			return strings.Replace(text, strings.TrimSpace(own), "", 1) + "model = \"gpt-5\"\n"
		})
		if o := r.undoOne("codex"); len(o.Kept)+len(o.Gone) > 0 || o.Copy != "" {
			t.Errorf("got %+v", o)
		}
		if _, err := r.store.Undo("codex"); err == nil || !strings.Contains(err.Error(), "was not connected") {
			t.Errorf("got %v", err)
		}
	}
}

// Cline accepts a file only with the labels of its entries, and changes them itself: they go with
// the last value of connect, and stay with values of the user.
func TestUndoLeavesFilesThatClineAccepts(t *testing.T) {
	r := newRig(t)
	f := r.find("cline").Files(r.machine, target)[0]
	r.connect("cline", target)
	touch := edit.Setting{Path: edit.Path{"providers", "openai-compatible", "updatedAt"}, Value: "2026-11-17T00:00:00.000Z"}
	other := edit.Setting{Path: edit.Path{"providers", "anthropic", "settings", "provider"}, Value: "anthropic"}
	r.set(f, []edit.Setting{touch, other})
	if got := r.kept("cline"); len(got) > 0 {
		t.Errorf("undo names %q", got)
	}
	want := map[string]any{"version": r.number(f, 1), "providers": map[string]any{"anthropic": map[string]any{"settings": map[string]any{"provider": "anthropic"}}}}
	if tree := r.tree(f); !reflect.DeepEqual(tree, want) {
		t.Errorf("got %v\nwant %v", tree, want)
	}
	own := edit.Setting{Path: edit.Path{"providers", "openai-compatible", "settings", "baseUrl"}, Value: "https://llm.example.com"}
	r.connect("cline", target)
	r.set(f, []edit.Setting{touch, own})
	if got, want := r.kept("cline"), []string{"providers.openai-compatible", own.Path.String()}; !slices.Equal(got, want) {
		t.Errorf("undo names %q, want %q", got, want)
	}
	entry, _ := edit.Get(r.tree(f), edit.Path{"providers", "openai-compatible"})
	if want := map[string]any{"updatedAt": touch.Value, "tokenSource": "manual",
		"settings": map[string]any{"provider": "openai-compatible", "baseUrl": own.Value, "apiKey": "perigee", "model": "gemini-3-flash"}}; !reflect.DeepEqual(entry, want) {
		t.Errorf("got %v\nwant %v", entry, want)
	}
}

// An entry that connect has added goes as a whole, or stays as a whole and is named. It stays with
// a value that the user has added to it, and with one that the user has set in it, now or between
// two runs, and goes when nothing in it is the user's.
func TestUndoTakesEntriesOutAsAWhole(t *testing.T) {
	at := func(path ...string) edit.Path { return path }
	tries := map[string]struct{ entry, added, set edit.Path }{
		"codex":    {at("model_providers", "perigee"), at("request_max_retries"), at("base_url")},
		"opencode": {at("provider", "perigee"), at("models", "other", "name"), at("npm")},
		"cline":    {at("providers", "openai-compatible"), at("settings", "headers"), at("settings", "model")},
		"continue": {at("models", "name=perigee"), at("title"), at("model")},
		"zed":      {at("language_models", "openai_compatible", "perigee"), at("title"), at("available_models")},
	}
	for _, c := range connect.Clients() {
		try, ok := tries[c.Name]
		if ok != (len(c.Entries) > 0) {
			t.Errorf("%s has the entries %v", c.Name, c.Entries)
		}
		if !ok {
			continue
		}
		added := slices.Concat(try.entry, try.added)
		value := any("mine")
		if c.Name == "zed" {
			value = edit.Raw(`[{"name": "mine"}]`)
		}
		set := edit.Setting{Path: slices.Concat(try.entry, try.set), Value: value}
		for name, between := range map[string]bool{"since": false, "between": true} {
			for _, own := range []edit.Setting{{Path: added, Value: "mine"}, set} {
				t.Run(c.Name+" "+name+" "+own.Path.String(), func(t *testing.T) {
					r := newRig(t)
					f := c.Files(r.machine, target)[0]
					r.connect(c.Name, target)
					r.set(f, []edit.Setting{own})
					whole, _ := edit.Get(r.tree(f), try.entry)
					if between {
						r.connect(c.Name, target)
					}
					names := []string{try.entry.String()}
					if !slices.Equal(own.Path, added) {
						names = append(names, own.Path.String())
					}
					for range 2 { // undo can be repeated
						if got := r.kept(c.Name); !slices.Equal(got, names) {
							t.Fatalf("undo names %q, want %q", got, names)
						}
						if entry, _ := edit.Get(r.tree(f), try.entry); !reflect.DeepEqual(entry, whole) {
							t.Errorf("the entry is %v, and was %v", entry, whole)
						}
						status, err := r.store.Status(&c, r.machine, target, true)
						used := c.Name == "continue" // which uses its first entry
						if err != nil || (status.State == connect.Connected) != used {
							t.Errorf("it is %q, %v", status.State, err)
						}
					}
					r.connect(c.Name, target) // and with another round
					if got := r.kept(c.Name); !slices.Equal(got, names) {
						t.Fatalf("undo names %q, want %q", got, names)
					}
					if slices.Equal(own.Path, added) { // the user takes it out
						r.edit(f.Path, func(text string) string {
							reverted, err := edit.Revert(f.Format, []byte(text), &edit.Undo{Was: []edit.Change{{Path: added, Value: edit.Value{Absent: true}, Wrote: []string{`"mine"`}}}})
							if err != nil {
								t.Fatal(err)
							}
							return string(reverted.Data)
						})
						if got := r.kept(c.Name); len(got) > 0 {
							t.Errorf("undo names %q", got)
						}
						if entry, there := edit.Get(r.tree(f), try.entry); there {
							t.Errorf("the entry is %v", entry)
						}
					}
				})
			}
		}
	}
}

// number is a number as files of the format of f have it.
func (r *rig) number(f connect.File, n int) any {
	r.t.Helper()
	tree, err := edit.Parse(f.Format, fmt.Appendf(nil, `{"n": %d}`, n))
	if err != nil {
		r.t.Fatal(err)
	}
	return tree["n"]
}
