package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// host is the platform of the test.
var host = Platform{runtime.GOOS, runtime.GOARCH}

func TestMain(m *testing.M) {
	Toolchain = runtime.Version() // tests need no Go version but the one that runs them
	os.Exit(m.Run())
}

// program stands in for perigee: it prints its arguments and its version.
const program = `package main

import (
	"os"

	_ "github.com/bmatcuk/doublestar/v4"
)

var version = "devel"

func main() {
	for _, argument := range os.Args[1:] {
		os.Stdout.WriteString(argument + "\n")
	}
	os.Stdout.WriteString(version + "\n")
}
`

// checkout makes a git repository with a program in place of perigee, and the files of dist.
func checkout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	mod, sum := requirement(t, "github.com/bmatcuk/doublestar/v4")
	files := map[string]string{
		"go.mod": "module perigee\n\ngo 1.26.0\n\nrequire " + mod + "\n", "go.sum": sum, "cmd/perigee/main.go": program,
		"LICENSE": "the license\n", "README.md": "# perigee\n", "SECURITY.md": "# Security\n", "docs/service.md": "# Service\n", "docs/dashboard.json": "{}\n", "docs/images/a.png": "png", "cmd/perigee/help/perigee.txt": "usage\n", "cmd/perigee/help/serve.txt": "usage\n", "CHANGELOG.md": "# Changelog\n", ".gitattributes": "* -text\n",
	}
	dist, err := filepath.Abs("../../dist")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, files)
	if err := os.CopyFS(filepath.Join(dir, "dist"), os.DirFS(dist)); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "init", "--quiet")
	commit(t, dir)
	return dir
}

// requirement returns the lines about a module in go.mod and go.sum of perigee.
func requirement(t *testing.T, path string) (mod, sum string) {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, path+" ") && name == "go.mod" {
				mod = line
			} else if strings.HasPrefix(line, path+" ") {
				sum += line + "\n"
			}
		}
	}
	if mod == "" || sum == "" {
		t.Fatalf("go.mod has no %s", path)
	}
	return mod, sum
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	runGit(t, dir, "add", "--all")
	runGit(t, dir, "commit", "--quiet", "--message", "state")
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_AUTHOR_DATE=1700000001 +0000", "GIT_COMMITTER_DATE=1700000001 +0000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
}

// build builds version 0.1.0 for the platform of the test into a new directory.
func build(t *testing.T, source string) string {
	t.Helper()
	o := options(t, source)
	if err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out
}

func options(t *testing.T, source string) Options {
	return Options{Source: source, Out: filepath.Join(t.TempDir(), "out"), Version: "0.1.0", Platforms: []Platform{host}, Log: io.Discard}
}

// read returns the contents of the files in a directory, by name.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(content)
	}
	return files
}

// unpack returns the headers and the contents of an archive, by name without its directory.
func unpack(t *testing.T, name, content string) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	headers, contents := make(map[string]*tar.Header), make(map[string]string)
	add := func(header *tar.Header, from io.Reader) {
		body, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		_, inside, _ := strings.Cut(header.Name, "/")
		headers[inside], contents[inside] = header, string(body)
	}
	if strings.HasSuffix(name, ".zip") {
		r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			body, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(&tar.Header{Name: f.Name, Mode: int64(f.Mode()), ModTime: f.Modified}, body)
		}
		return headers, contents
	}
	r, err := gzip.NewReader(bytes.NewReader([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "" || !r.ModTime.IsZero() {
		t.Errorf("the header of gzip has the name %q and the time %v", r.Name, r.ModTime)
	}
	for files := tar.NewReader(r); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header, files)
	}
}

// archiveName is the name of the archive that build writes.
func archiveName() string {
	if host.OS == "windows" {
		return "perigee_0.1.0_" + host.String() + ".zip"
	}
	return "perigee_0.1.0_" + host.String() + ".tar.gz"
}
