package release

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBytesDependOnTheCommitAlone(t *testing.T) {
	source := checkout(t)
	first := read(t, build(t, source))

	// Another directory, umask, locale and time zone, settings of Go, and times of files.
	clone := filepath.Join(t.TempDir(), "a", "clone of perigee")
	umask(t, 0o077)
	runGit(t, filepath.Dir(source), "-c", "core.autocrlf=false", "clone", "--quiet", source, clone)
	for name, value := range map[string]string{"TZ": "Asia/Kolkata", "LC_ALL": "tr_TR.UTF-8", "GOFLAGS": "-tags=other -race", "GOAMD64": "v3",
		"GOARM64": "v8.1,lse", "GOOS": "plan9", "GOARCH": "386", "CGO_ENABLED": "1", "GODEBUG": "madvdontneed=1", "PERIGEE_LISTEN": "nowhere"} {
		t.Setenv(name, value)
	}
	local := time.Local
	time.Local = time.FixedZone("far", 11*3600)
	t.Cleanup(func() { time.Local = local })
	if err := os.Chtimes(filepath.Join(clone, "README.md"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	second := read(t, build(t, clone))

	if names := slices.Sorted(maps.Keys(second)); len(first) < 2 || !slices.Equal(slices.Sorted(maps.Keys(first)), names) {
		t.Fatalf("the releases have %d files and %q", len(first), names)
	}
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs: %d and %d bytes", name, len(first[name]), len(second[name]))
		}
	}

	write(t, clone, map[string]string{"README.md": "# another\n"})
	commit(t, clone)
	if third := read(t, build(t, clone)); third[archiveName()] == first[archiveName()] {
		t.Error("the archive of another commit is the same")
	}
}

func TestArchiveHasItsFilesInOrder(t *testing.T) {
	files := read(t, build(t, checkout(t)))
	headers, contents := unpack(t, archiveName(), files[archiveName()])
	want := []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs/service.md", "docs/dashboard.json", "NOTICE", "man/perigee.1", "man/perigee-serve.1", "completions/perigee.bash", "completions/perigee.fish",
		"completions/perigee.ps1", "completions/_perigee", host.exe("perigee")}
	if host.OS == "linux" {
		want = append(want, "systemd/perigee.service", "systemd/perigee.socket", "systemd/perigee.sysusers", "systemd/user/perigee.service")
	}
	for _, name := range want {
		header := headers[name]
		if header == nil {
			t.Errorf("the archive has no %s", name)
			continue
		}
		mode := int64(0o644)
		if name == host.exe("perigee") {
			mode = 0o755
		}
		if header.Mode&0o777 != mode || header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" {
			t.Errorf("%s has mode %o, owner %d %q, group %d %q", name, header.Mode, header.Uid, header.Uname, header.Gid, header.Gname)
		}
		if !header.ModTime.Equal(time.Unix(1700000001, 0)) {
			t.Errorf("%s has the time %v", name, header.ModTime)
		}
	}
	if got := contents["completions/perigee.fish"]; !strings.HasSuffix(got, "completion\nfish\n0.1.0\n") {
		t.Errorf("the completions for fish come from %q", got)
	}

	if got := contents["man/perigee-serve.1"]; got != "help\n--man\nserve\n0.1.0\n" {
		t.Errorf("the page about serve comes from %q", got)
	}

	checked := 0
	for line := range strings.Lines(files[sums]) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(files[name]))); got != sum {
			t.Errorf("%s has the sum %s, and the list has %s", name, got, sum)
		}
		checked++
	}
	if checked != len(files)-1 {
		t.Errorf("%s has %d of %d files", sums, checked, len(files)-1)
	}
}

func TestEachSystemHasItsUnits(t *testing.T) {
	r := releaseRig(t, nil)
	for system, want := range map[string]string{
		"linux":  "systemd/perigee.service systemd/perigee.socket systemd/perigee.sysusers systemd/user/perigee.service",
		"darwin": "launchd/perigee.plist", "windows": "",
	} {
		files, err := r.units(Platform{system, "arm64"})
		var names []string
		for _, f := range files {
			names = append(names, f.name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s has %q, %v", system, got, err)
		}
	}
}

// TestContainerHasItsFiles looks for each file that dist/Containerfile copies. Images are for Linux.
func TestContainerHasItsFiles(t *testing.T) {
	r := releaseRig(t, nil)
	for _, p := range []Platform{{"linux", "arm64"}, {"darwin", "amd64"}} {
		r.collect(p, []file{{"perigee", []byte(p.OS), true}, {"NOTICE", []byte("notice"), false}, {"README.md", nil, false}})
	}
	if err := r.container(); err != nil {
		t.Fatal(err)
	}
	name := r.dir("container") + ".tar.gz"
	headers, contents := unpack(t, name, read(t, r.out.part)[name])
	copied := 0
	for line := range strings.Lines(contents["Containerfile"]) {
		fields := strings.Fields(strings.ReplaceAll(line, "${TARGETARCH}", "arm64"))
		if len(fields) < 3 || fields[0] != "COPY" {
			continue
		}
		for _, source := range fields[1 : len(fields)-1] {
			if !strings.HasPrefix(source, "--") && headers[source] == nil {
				t.Errorf("the archive has no %s", source)
			}
			copied++
		}
	}
	if copied < 6 || len(headers) != 7 || headers["data/"].Mode != 0o700 || headers["arm64/perigee"].Mode != 0o755 {
		t.Errorf("%d files are copied, the archive has %d", copied, len(headers))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(contents["ca-certificates.crt"])) || strings.Count(contents["ca-certificates.crt"], "BEGIN CERTIFICATE") < 80 {
		t.Error("there are fewer than 80 certificates")
	}
}

func TestZipHasModesAndTimes(t *testing.T) {
	modified := time.Unix(1700000001, 0)
	content, err := zipped("dir", []file{{"perigee.exe", []byte("program"), true}, {"LICENSE", []byte("text"), false}}, modified)
	if err != nil {
		t.Fatal(err)
	}
	headers, contents := unpack(t, "x.zip", string(content))
	if contents["perigee.exe"] != "program" || headers["perigee.exe"].Mode != 0o755 || headers["LICENSE"].Mode != 0o644 {
		t.Errorf("the archive has %q, modes %o and %o", contents, headers["perigee.exe"].Mode, headers["LICENSE"].Mode)
	}
	if got := headers["LICENSE"].ModTime; !got.Equal(modified) {
		t.Errorf("the time is %v", got)
	}
}

func TestWrongSourcesAreRefused(t *testing.T) {
	source := checkout(t)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	refused := func(o Options, want string) {
		t.Helper()
		if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Error("the directory was made")
		}
	}
	o := options(t, source)
	for _, version := range []string{"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3 ", "1.2.3;x", "latest"} {
		o.Version = version
		refused(o, "make release VERSION=0.1.0")
	}
	o.Version = "v0.1.0"
	refused(o, "write 0.1.0")

	o = options(t, source)
	write(t, source, map[string]string{"new.go": "package perigee\n"})
	refused(o, "?? new.go")
	commit(t, source)
	runGit(t, source, "tag", "v0.1.0", "HEAD~0")
	write(t, source, map[string]string{"newer.go": "package perigee\n"})
	commit(t, source)
	refused(o, "git checkout v0.1.0")

	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	o.Version, o.Snapshot = "0.2.0", true
	refused(o, "SOURCE_DATE_EPOCH")
	t.Setenv("SOURCE_DATE_EPOCH", "")
	o.Snapshot = false
	o.Source = t.TempDir()
	refused(o, "SNAPSHOT=1")

	o = options(t, source)
	o.Maintainer = "Ada <ada@example.com>\nDepends: more"
	refused(o, "MAINTAINER")

	o = options(t, source)
	o.Unprofiled = true
	refused(o, "SNAPSHOT=1")

	right := Toolchain
	Toolchain = "go1.2.3"
	t.Cleanup(func() { Toolchain = right })
	refused(options(t, source), "GOTOOLCHAIN=go1.2.3")
}

// What git status does not show is no part of a release.
func TestReleaseIsTheCommit(t *testing.T) {
	source := checkout(t)
	want := read(t, build(t, source))
	runGit(t, source, "update-index", "--assume-unchanged", "README.md")
	runGit(t, source, "config", "status.showUntrackedFiles", "no")
	write(t, source, map[string]string{
		".git/info/exclude": "local.go\n", "cmd/perigee/local.go": "package main\n\nfunc init() { version = \"mine\" }\n",
		"README.md": "mine\n", "dist/perigee.smine": "mine\n",
	})
	if got := read(t, build(t, source)); !maps.Equal(got, want) {
		t.Errorf("the release has files that are not in the commit: %s, want %s", got[sums], want[sums])
	}
}

func TestFailedReleaseLeavesTheEarlierOne(t *testing.T) {
	source := checkout(t)
	o, log := options(t, source), new(bytes.Buffer)
	o.Log = log
	if err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	before := read(t, o.Out)
	if before["SHA256SUMS.sig"] != "" || !strings.HasSuffix(log.String(), "SHA256SUMS is NOT SIGNED: give an SSH key with KEY=FILE\n") {
		t.Errorf("a release without a key has a signature, or does not report that: %q", log)
	}

	write(t, source, map[string]string{"cmd/perigee/main.go": "package main\n\nfunc main() { undefined() }\n"})
	o.Snapshot = true
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "undefined") {
		t.Errorf("the error is %v", err)
	}
	if after := read(t, o.Out); !maps.Equal(before, after) {
		t.Errorf("the release has %d files, before it had %d", len(after), len(before))
	}
	if entries, err := os.ReadDir(filepath.Dir(o.Out)); err != nil || len(entries) != 1 {
		t.Errorf("beside the release are %v, %v", entries, err)
	}

	write(t, o.Out, map[string]string{"thesis.txt": "mine"})
	for _, want := range []string{"thesis.txt, which is not from a release", "not from a release"} { // with a list of checksums, and without
		if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "OUT=DIR") {
			t.Errorf("the error about a directory with other files is %v", err)
		}
		if err := os.RemoveAll(filepath.Join(o.Out, sums)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlatformsAreThoseOfARelease(t *testing.T) {
	got, err := ParsePlatforms("linux/arm, windows/amd64 linux/arm")
	if err != nil || len(got) != 2 || got[0].String() != "linux_armv6" || got[1].String() != "windows_amd64" {
		t.Errorf("the platforms are %v, %v", got, err)
	}
	if _, err := ParsePlatforms("plan9/amd64"); err == nil || !strings.Contains(err.Error(), "linux/arm64") {
		t.Errorf("the error is %v", err)
	}
	if runtime.GOOS != "linux" && !slices.Contains(All, host) {
		t.Errorf("%s is not a platform of a release", host)
	}
}
