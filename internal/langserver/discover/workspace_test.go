package discover

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee"
)

func TestWorkspaceIDs(t *testing.T) {
	for path, want := range map[string][]string{
		"/home/u/my-proj":              {"file_home_u_my_proj"},
		"/home/u/my-proj/":             {"file_home_u_my_proj"},
		"file:///home/u/my-proj":       {"file_home_u_my_proj"},
		"/home/u/my proj (2)":          {"file_home_u_my_proj_2_", "file_home_u_my_20proj_20_282_29"},
		"/home/u/a.code-workspace":     {"file_home_u_a_code_workspace"},
		"/home/u/größe":                {"file_home_u_größe", "file_home_u_gr_C3_B6_C3_9Fe"},
		"C:/Users/u":                   {"file_c_Users_u", "file_c_3A_Users_u"},
		"/":                            {"file_"},
		"/home/u/my_proj":              {"file_home_u_my_proj"},
		"file:///home/u/my%20proj%202": {"file_home_u_my_20proj_202"},
	} {
		ids := workspaceIDs(path)
		for _, id := range want {
			if !slices.Contains(ids, id) {
				t.Errorf("%s: %q, want %s among them", path, ids, id)
			}
		}
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Mkdir(filepath.Join(dir, "target"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Skip(err)
	}
	if ids := strings.Join(workspaceIDs(link), " "); !strings.Contains(ids, "_link") || !strings.Contains(ids, "_target") {
		t.Errorf("a link: %s", ids)
	}
}

func TestWorkspaceID(t *testing.T) {
	for dir, want := range map[string]string{
		"/home/u/my-proj":       "file_home_u_my_proj",
		"/home/u/my proj (2)":   "file_home_u_my_20proj_20_282_29",
		"/":                     "file_",
		`C:\Users\u\proj`:       "file_c_3A_Users_u_proj",
		"c:/Users/u/proj":       "file_c_3A_Users_u_proj",
		"/srv/a.b/..c":          "file_srv_a_b_c",
		"/home/u/pr\u00f6jekt":  "file_home_u_pr_C3_B6jekt",
		"/home/u/under_score__": "file_home_u_under_score_",
	} {
		if got := WorkspaceID(dir); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	a := Candidate{PID: 1, Workspace: "file_home_u_a"}
	ab := Candidate{PID: 2, Workspace: "file_home_u_a_b"}
	global := Candidate{PID: 3}
	hashed := Candidate{PID: 4, hash: hashOf("file_home_u_c")}
	twin := Candidate{PID: 5, Workspace: "file_home_u_a"}
	for _, c := range []struct {
		name       string
		candidates []Candidate
		workspace  string
		pid        int // 0 means none
		says       string
	}{
		{"the only one", []Candidate{a}, "", 1, ""},
		{"the workspace", []Candidate{a, ab, global}, "/home/u/a", 1, ""},
		{"a longer one", []Candidate{a, ab, global}, "/home/u/a/b", 2, ""},
		{"only the beginning", []Candidate{ab, global}, "/home/u/a", 0, "no language server has the workspace open: file_home_u_a_b (process 2), no workspace (process 3)"},
		{"only a part", []Candidate{a}, "/home/u", 0, "no language server has the workspace open"},
		{"the hash", []Candidate{a, hashed}, "/home/u/c", 4, ""},
		{"another hash", []Candidate{hashed}, "/home/u/d", 0, "hash"},
		{"the global one", []Candidate{a, global}, "", 3, ""},
		{"no global one", []Candidate{a, ab}, "", 0, "set workspace:"},
		{"two windows", []Candidate{a, twin}, "/home/u/a", 0, "close all but one"},
		{"none", nil, "", 0, "start the IDE"},
		{"none for the workspace", nil, "/home/u/a", 0, "start the IDE"},
	} {
		got, err := Choose(c.candidates, c.workspace)
		if got.PID != c.pid || (err == nil) != (c.pid != 0) {
			t.Errorf("%s: process %d, %v", c.name, got.PID, err)
			continue
		}
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassUnavailable || !strings.Contains(e.Error(), c.says) || strings.Contains(e.Public, "file_") || e.Public != "" && !strings.Contains(e.Public, e.Hint) {
				t.Errorf("%s: %v, %q", c.name, e, e.Public)
			}
		}
	}
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		line string
		is   bool
	}{
		{"/opt/antigravity/bin/language_server_linux_x64 --enable_lsp --csrf_token t", true},
		{"language_server -csrf_token=t", true},
		{`C:\Programs\Antigravity\bin\language_server_windows_x64.exe --csrf_token t`, true},
		{"language_server.exe --csrf_token t", true},
		{"/usr/bin/perigee simulate langserver --csrf_token t", true},
		{"/opt/bin/language_server_linux_x64 --enable_lsp", false},
		{"/opt/bin/language_server_linux_x64 --csrf_token=", false},
		{"/opt/bin/language_server_linux_x64 --csrf_token", false},
		{"/opt/bin/language_server_linux_x64 csrf_token t", false},
		{"/opt/bin/my_language_server --csrf_token t", false},
		{"/opt/bin/language_serverless --csrf_token t", false},
		{"grep language_server_linux_x64 --csrf_token t", false},
		{"/usr/bin/perigee langserver run --csrf_token t", false},
		{"", false},
	} {
		if got := isLanguageServer(strings.Fields(c.line)); got != c.is {
			t.Errorf("%q: %t", c.line, got)
		}
	}
	args := strings.Fields("language_server --csrf_token=abc=d -workspace_id file_w --app_data_dir antigravity-ide --override_ide_version 2.0.1")
	p := fromCommand(7, args)
	if p.PID != 7 || p.Endpoint.CSRF.Reveal() != "abc=d" || p.Workspace != "file_w" || p.Version != "2.0.1" {
		t.Errorf("%+v", p)
	}
}

func FuzzAnnouncement(f *testing.F) {
	f.Add([]byte(`{"pid":7,"httpsPort":1,"httpPort":2,"lsVersion":"1","csrfToken":"t"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, ok := parseAnnouncement(data)
		if ok && a.PID <= 0 {
			t.Errorf("%q: %+v", data, a)
		}
		p, ok := a.prospect()
		if ok != (len(p.ports) > 0) {
			t.Errorf("%q: %+v", data, p)
		}
		for _, port := range p.ports {
			if port <= 0 || port > 65535 {
				t.Errorf("%q: port %d", data, port)
			}
		}
	})
}
