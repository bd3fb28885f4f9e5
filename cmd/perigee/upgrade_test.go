package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Versions are ordered as the example of semver.org.
func TestVersionsAreOrdered(t *testing.T) {
	order := strings.Fields("0.9.9 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 v1.0.0 1.0.1 1.2.0 1.10.0 2.0.0")
	for i, a := range order {
		for j, b := range order {
			v, errA := parseVersion(a)
			w, errB := parseVersion(b)
			if errA != nil || errB != nil || v.less(w) != (i < j) {
				t.Errorf("%s before %s: %v; %v, %v", a, b, v.less(w), errA, errB)
			}
		}
	}
	for _, wrong := range []string{"", "1.2", "1.2.3.4", "devel", "1.2.x", "1.2.3-", "1.2.9999999999"} {
		if _, err := parseVersion(wrong); err == nil {
			t.Errorf("%q was taken for a version", wrong)
		}
	}
}

// Only the releases after a version are newer, and a fix in one that is older does not matter.
func TestNewerReleases(t *testing.T) {
	releases := []release{{Version: "0.3.0"}, {Version: "0.2.1", Security: true}, {Version: "0.2.0"}, {Version: "0.1.0", Security: true}}
	for version, want := range map[string]struct {
		newer                 int
		security, development bool
	}{
		"0.3.0": {}, "0.4.0-rc.1": {}, "v0.2.1": {newer: 1}, "0.2.0": {newer: 2, security: true},
		"devel": {4, true, true}, "v0.0.0-20260101000000-abcdefabcdef": {4, true, true}, "v0.2.1+dirty": {4, true, true},
	} {
		got := compareReleases(version, releases)
		if len(got.Newer) != want.newer || got.Security != want.security || got.Development != want.development || got.Latest != "0.3.0" {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
}

// A pre-release is offered after a pre-release, or if there is nothing else.
func TestPreReleasesAreNotOffered(t *testing.T) {
	releases := []release{{Version: "0.4.0-rc.1"}, {Version: "0.3.0"}, {Version: "0.3.0-rc.2"}}
	for version, want := range map[string]struct {
		latest string
		newer  int
	}{"0.2.0": {"0.3.0", 1}, "0.3.0": {"0.3.0", 0}, "0.3.0-rc.2": {"0.4.0-rc.1", 2}, "devel": {"0.3.0", 1}} {
		if got := compareReleases(version, releases); got.Latest != want.latest || len(got.Newer) != want.newer {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
	if got := compareReleases("0.2.0", releases[:1]); got.Latest != "0.4.0-rc.1" || len(got.Newer) != 1 {
		t.Errorf("only a pre-release: %+v", got)
	}
}

// What a person copies from the output is a file name and an address, and nothing else.
func TestIndexWithOtherTexts(t *testing.T) {
	for text, problem := range map[string]string{
		`"date":"2026-01-31","url":"https://example.org/v1","notes":"https://example.org/v1?a=b#c","files":[{"name":"perigee_1.0.0~rc.1-1_amd64.deb"}]`: "",
		`"date":"\u001b[2J"`:                             "the date",
		`"url":"https://example.org/\n"`:                 "the address",
		`"url":"http://example.org/"`:                    "the address",
		`"url":"https://example.org/&id"`:                "the address",
		`"notes":"https://example.org/ curl|sh"`:         "release notes",
		`"notes":"https://example.org/\u202egpj"`:        "release notes",
		`"files":[{"name":"--eval=%(id)"}]`:              "--eval",
		`"files":[{"name":"https://example.org/x.rpm"}]`: "x.rpm",
		`"files":[{"name":"../perigee.deb"}]`:            "../perigee.deb",
		`"files":[{"name":"a;id"}]`:                      "a;id",
		`"files":[{"name":"a","sha256":"x\ny"}]`:         "SHA-256",
	} {
		_, err := decodeIndex([]byte(`{"schema":1,"releases":[{"version":"1.0.0",` + text + `}]}`))
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v, want %q", text, err, problem)
		}
	}
	if _, err := parseVersion("1.0.0-" + strings.Repeat("a", 101)); err == nil {
		t.Error("a version of 107 characters was used")
	}
}

// An index is read by https, or by http from this machine, also after redirects.
func TestIndexByURL(t *testing.T) {
	const good = `{"schema":1,"releases":[{"version":"1.0.0"}]}`
	mux := http.NewServeMux()
	mux.HandleFunc("/index.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(good)) })
	mux.Handle("/moved", http.RedirectHandler("/index.json", http.StatusFound))
	mux.Handle("/5", http.RedirectHandler("/4", http.StatusFound))
	mux.Handle("/4", http.RedirectHandler("/3", http.StatusFound))
	mux.Handle("/3", http.RedirectHandler("/2", http.StatusFound))
	mux.Handle("/2", http.RedirectHandler("/moved", http.StatusFound))
	mux.Handle("/6", http.RedirectHandler("/5", http.StatusFound))
	mux.Handle("/away", http.RedirectHandler("http://example.org/index.json", http.StatusFound))
	mux.Handle("/file", http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxIndex+1)) })
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, problem := range map[string]string{
		"/index.json": "", "/moved": "", "/5": "", "/6": "more than 5 redirects", "/away": "http://example.org is not used", "/file": "is not used", "/loop": "more than 5 redirects",
		"/large": "larger than 4 MiB", "/missing": "404",
	} {
		releases, err := readIndex(t.Context(), server.URL+path)
		if problem == "" && (err != nil || len(releases) != 1) || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: %v, %v", path, releases, err)
		}
	}
	for address, refused := range map[string][2]bool{ // first, and after an https address
		"https://example.org/": {}, "http://127.0.0.1:1/": {false, true}, "http://example.org/": {true, true}, "file:///etc/passwd": {true, true},
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		for i, secure := range []bool{false, true} {
			if err := refuseAddress(u, secure); (err != nil) != refused[i] {
				t.Errorf("%s, secure %v: %v", address, secure, err)
			}
		}
	}
	unused := strings.Replace(server.URL, "http://", "https://user:password@", 1)
	for _, address := range []string{unused, "https://user:password@127.0.0.1:port/", "https://user:pass%zzword@[/"} {
		if _, err := readIndex(t.Context(), address); err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	if _, err := readIndex(t.Context(), "http://example.org/index.json"); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("http was used: %v", err)
	}
}

// The directories of package managers, and those of people that look like them.
func TestInstalledAt(t *testing.T) {
	for path, want := range map[string]string{
		"/opt/homebrew/Cellar/perigee/0.1.0/bin/perigee":                        "brew",
		"/usr/local/Cellar/perigee/0.1.0_1/bin/perigee":                         "brew",
		"/home/linuxbrew/.linuxbrew/Cellar/perigee/0.1.0/bin/perigee":           "brew",
		`C:\Users\Ada\scoop\apps\perigee\0.1.0\perigee.exe`:                     "scoop",
		`C:\ProgramData\scoop\apps\perigee\current\perigee.exe`:                 "scoop",
		"/nix/store/0123456789abcdfghijklmnpqrsvwxyz-perigee-0.1.0/bin/perigee": "nix",
		"/usr/bin/perigee":             "",
		"/opt/perigee/bin/perigee":     "",
		"/home/ada/go/bin/perigee":     "",
		"/home/ada/scoop/perigee":      "",
		"/home/ada/nix/store/perigee":  "",
		`C:\Users\Ada\bin\perigee.exe`: "",
	} {
		by, known := installedAt(path)
		if known != (want != "") || known && by.manager != want {
			t.Errorf("%s: %+v, %v", path, by, known)
		}
	}
}
