package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestSignatureBreaksWithEachByte verifies as docs/releasing.md shows it.
func TestSignatureBreaksWithEachByte(t *testing.T) {
	keys := t.TempDir()
	key := filepath.Join(keys, "key")
	keygen := func(input string, args ...string) error {
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", args...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		t.Logf("ssh-keygen %s: %v\n%s", strings.Join(args, " "), err, out)
		return err
	}
	if err := keygen("", "-q", "-t", "ed25519", "-N", "", "-C", "throw-away", "-f", key); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	write(t, keys, map[string]string{"allowed_signers": `perigee namespaces="file" ` + string(public)})

	o, log := options(t, checkout(t)), new(bytes.Buffer)
	o.Key, o.Log = key, log
	if err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(log.String(), "SHA256SUMS is signed: SHA256SUMS.sig\n") {
		t.Errorf("the log ends with %q", log)
	}
	verify := func(content string) error {
		return keygen(content, "-Y", "verify", "-f", filepath.Join(keys, "allowed_signers"), "-I", "perigee", "-n", "file",
			"-s", filepath.Join(o.Out, "SHA256SUMS.sig"))
	}
	content := read(t, o.Out)[sums]
	if err := verify(content); err != nil {
		t.Error("the signature is not valid")
	}
	changed := []byte(content)
	changed[10] ^= 1
	if err := verify(string(changed)); err == nil {
		t.Error("the signature is valid for a list with a changed byte")
	}
	if err := verify(content + "0  other\n"); err == nil {
		t.Error("the signature is valid for a longer list")
	}

	if runtime.GOOS != "windows" {
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("the error about a key that all can read is %v", err)
		}
	}
	o.Key = keys
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("the error about a directory as the key is %v", err)
	}
	for _, address := range []string{"http://example.com", "https://example.com/`id`", "https://example.com/a;b", "https://example.com/a\nb", "https://"} {
		if err := checkURL("NOTES", address); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	o.Key = filepath.Join(keys, "missing")
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "ssh-keygen -t ed25519") {
		t.Errorf("the error about a missing key is %v", err)
	}
}

func TestIndexHasTheNewestReleaseFirst(t *testing.T) {
	source := t.TempDir()
	write(t, source, map[string]string{"CHANGELOG.md": "# Changelog\n\n## 0.9.10\n\n**Security**\n- A fix.\n\n## 0.9.1\n\n**Added**\n- More.\n"})
	var r *release
	earlier, log := "", new(bytes.Buffer)
	for _, version := range []string{"0.9.1", "1.0.0", "0.9.10", "0.9.10"} {
		r = releaseRig(t, []Platform{host})
		r.Source, r.Version, r.Index, r.Log = source, version, earlier, log
		r.BaseURL, r.Notes = "https://example.com/perigee/v0.9.10", "https://example.com/notes"
		if err := errors.Join(r.add("archive", []byte("content")), r.index()); err != nil {
			t.Fatal(err)
		}
		earlier = filepath.Join(r.out.part, "index.json")
	}
	if !strings.Contains(log.String(), "CHANGELOG.md has no section ## 1.0.0") {
		t.Errorf("the log is %q", log)
	}
	files := read(t, r.out.part)
	var got index
	if err := json.Unmarshal([]byte(files["index.json"]), &got); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, e := range got.Releases {
		versions = append(versions, e.Version)
		if e.Security != (e.Version == "0.9.10") {
			t.Errorf("%s has security %v", e.Version, e.Security)
		}
	}
	if got.Schema != 1 || !slices.Equal(versions, []string{"1.0.0", "0.9.10", "0.9.1"}) {
		t.Fatalf("the index has schema %d and %q", got.Schema, versions)
	}
	if e := got.Releases[1]; e.Date != "2023-11-14" || e.URL != r.BaseURL || e.Notes != r.Notes {
		t.Errorf("the release is %+v", e)
	}

	write(t, source, map[string]string{"index.json": `{"schema":2}`})
	r = releaseRig(t, []Platform{host})
	r.Source, r.Index = source, filepath.Join(source, "index.json")
	if err := r.index(); err == nil || !strings.Contains(err.Error(), "schema is 2") {
		t.Errorf("the error about another schema is %v", err)
	}
}

func TestSecurityIsOfTheSection(t *testing.T) {
	source := t.TempDir()
	r := releaseRig(t, nil)
	r.Source = source
	const fix, rest = "\n\n**Security**\n- A fix.\n", "\n\n**Added**\n- More.\n"
	for changelog, want := range map[string]bool{
		"## 0.1.0" + fix + "\n## 0.0.9" + rest:        true,
		"## [0.1.0] - 2026-01-31" + fix:               true,
		"## v0.1.0" + fix:                             true,
		"## 0.1.0-rc.1" + fix + "\n## 0.1.0" + rest:   false,
		"## 0.1.0-rc.1" + fix:                         false,
		"## 0.1.0+build" + fix + "\n## 0.1.0.1" + fix: false,
		"## 0.1.0\n## 0.0.9" + fix:                    false,
		"## 0.1.00" + fix + "\n## 10.1.0" + fix:       false,
	} {
		write(t, source, map[string]string{"CHANGELOG.md": "# Changelog\n\n" + changelog})
		if got, err := r.security(); got != want || err != nil {
			t.Errorf("security is %v, %v, of %q", got, err, changelog)
		}
	}
}

func TestIndexListsTheFiles(t *testing.T) {
	files := read(t, build(t, checkout(t)))
	var got index
	if err := json.Unmarshal([]byte(files["index.json"]), &got); err != nil || len(got.Releases) != 1 {
		t.Fatal(err, files["index.json"])
	}
	list := got.Releases[0].Files
	if len(list) != 1 || list[0].OS != host.OS || list[0].Arch != host.Arch || list[0].Kind != "archive" || list[0].Name != archiveName() {
		t.Errorf("the files are %+v", list)
	}
	for _, f := range list {
		if !strings.Contains(files[sums], f.SHA256+"  "+f.Name+"\n") || f.Size != int64(len(files[f.Name])) {
			t.Errorf("the file is %+v", f)
		}
	}
}

// TestTemplatesAreFilled compares with testdata. brew, scoop and nix have not read these files.
func TestTemplatesAreFilled(t *testing.T) {
	for base, dir := range map[string]string{"https://example.com/ada/perigee/releases/download/v0.1.0": "filled", "": "unfilled"} {
		r := releaseRig(t, All)
		r.BaseURL = base
		if err := r.templates(); err != nil {
			t.Fatal(err)
		}
		got := read(t, r.out.part)
		if len(got) != 3 || !json.Valid([]byte(got["perigee.json"])) {
			t.Errorf("there are %d files, or the manifest of Scoop is not JSON", len(got))
		}
		for name, content := range got {
			if strings.Contains(content, "NOT USABLE") != (base == "") {
				t.Errorf("%s does not say whether it can be used", name)
			}
			golden := filepath.Join("testdata", dir, name)
			if *update {
				write(t, "testdata", map[string]string{dir + "/" + name: content})
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != content {
				t.Errorf("%s is not %s, %v; got\n%s", name, golden, err, content)
			}
		}
	}

	r, log := releaseRig(t, All[:5]), new(bytes.Buffer)
	r.Log = log
	if err := r.templates(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.out.part); len(got) != 2 || !strings.Contains(log.String(), "perigee.json: not written") {
		t.Errorf("a release without Windows has %d files and the log %q", len(got), log)
	}
	for _, address := range []string{"http://example.com", "example.com", "https://", `https://a/"b`, "https://a/#{b}"} {
		if checkURL("BASE_URL", address) == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// releaseRig returns a release with archives that have made-up hashes.
func releaseRig(t *testing.T, platforms []Platform) *release {
	t.Helper()
	out, err := newOutput(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	r := &release{Options: Options{Source: filepath.Join("..", ".."), Version: "0.1.0", Log: io.Discard}, source: source{time: time.Unix(1700000001, 0)}, out: out}
	for i, p := range platforms {
		ending := ".tar.gz"
		if p.OS == "windows" {
			ending = ".zip"
		}
		out.hashes[r.dir(p.String())+ending] = strings.Repeat(string("0123456789abcdef"[i+1]), 64)
	}
	return r
}

// TestWorkflowUsesTheSameGo compares the version in the workflow with the one that releases need.
func TestWorkflowUsesTheSameGo(t *testing.T) {
	workflow, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `go-version: "` + strings.TrimPrefix(strings.TrimSpace(toolchainFile), "go") + `"`; !strings.Contains(string(workflow), want) {
		t.Errorf("release.yml does not have %s", want)
	}
}

// TestRecipesDoNotRunValues gives make values that are commands in a shell, and a program in place of
// go that prints its arguments.
func TestRecipesDoNotRunValues(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the recipes need a shell")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"go": "#!/bin/sh\nprintf '<%s>' \"$@\"\n"})
	if err := os.Chmod(filepath.Join(dir, "go"), 0o700); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(dir, "ran")
	value := "0`touch " + ran + "`'\"; touch " + ran + "; #\ntouch " + ran + "\n"
	args := []string{"-C", filepath.Join("..", ".."), "--no-print-directory", "GO=" + filepath.Join(dir, "go")}
	for _, name := range []string{"VERSION", "OUT", "PLATFORMS", "KEY", "BASE_URL", "NOTES", "INDEX", "MAINTAINER"} {
		args = append(args, name+"="+value)
	}
	run := func(more ...string) string {
		cmd := exec.CommandContext(t.Context(), "make", append(args, more...)...)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := run("release"); strings.Count(out, "<"+value+">") != 8 {
		t.Errorf("the values do not arrive: %s", out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("make release has run a value")
	}
	if out := run("--just-print", "reproduce"); !strings.Contains(out, `reproduce "$VERSION" "$PLATFORMS"`) || strings.Contains(out, ran) {
		t.Errorf("make reproduce runs\n%s", out)
	}
}
