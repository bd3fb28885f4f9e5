package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWorkspaceOfALanguageServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	load := func(workspace string) (warnings, problems string) {
		t.Helper()
		text := "data_dir: " + filepath.Join(dir, "data") + "\nupstreams:\n  - {name: a, kind: langserver, accept_terms_risk: true, " +
			"oauth: {client_id: me}, workspace: " + workspace + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := Inspect(Sources{Path: file, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			problems = err.Error()
		}
		for _, w := range loaded.Warnings {
			warnings += w.String() + "\n"
		}
		return warnings, problems
	}
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	for workspace, want := range map[string][2]string{
		"work":        {},
		"data":        {"contains data_dir", ""},
		".":           {"contains data_dir", ""},
		"missing":     {"does not exist", ""},
		"config.yaml": {"", "is not a directory; name a directory"},
	} {
		warnings, problems := load(workspace)
		if (want[0] == "") != (warnings == "") || !strings.Contains(warnings, want[0]) ||
			(want[1] == "") != (problems == "") || !strings.Contains(problems, want[1]) {
			t.Errorf("%s: warnings %q, problems %q", workspace, warnings, problems)
		}
	}
}

// The accounts of a language server are selected like those of kind antigravity.
func TestAccountSettingsOfALanguageServer(t *testing.T) {
	t.Parallel()
	src := exampleSources("upstreams:\n"+
		"  - {name: a, kind: antigravity, accept_terms_risk: true, oauth: {client_id: me}}\n"+
		"  - {name: b, kind: langserver, accept_terms_risk: true, oauth: {client_id: me}}\n"+
		"  - {name: c, kind: langserver, accept_terms_risk: true, oauth: {client_id: me}, cloud_url: \"http://127.0.0.1:9\"}\n"+
		"  - {name: d, kind: langserver, accept_terms_risk: true, accounts_from: a}\n"+
		"  - {name: e, kind: langserver, accept_terms_risk: true, attach: true}\n", nil)
	loaded, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	list := loaded.Config.Upstreams
	var own []string
	for _, u := range list {
		if u.HasAccounts() {
			own = append(own, u.Name)
		}
	}
	if !slices.Equal(own, []string{"a", "b", "c"}) {
		t.Errorf("accounts of their own have %q", own)
	}
	got := list[1].ForAccounts()
	if !slices.Equal(got.Pools, []string{"antigravity"}) {
		t.Errorf("the pools are %q", got.Pools)
	}
	got.Name, got.Pools = "a", list[0].Pools
	if changes := Changed(&Config{Upstreams: []Upstream{list[0]}}, &Config{Upstreams: []Upstream{got}}); len(changes) > 0 {
		t.Errorf("the settings differ from those of kind antigravity: %+v", got)
	}
	if got := list[2].ForAccounts().Endpoints; !slices.Equal(got, []string{"http://127.0.0.1:9"}) {
		t.Errorf("the endpoints are %q", got)
	}
}
