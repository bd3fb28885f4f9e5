package release

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// exported returns the time of the commit of a checkout, and its files as export writes them.
func exported(t *testing.T, checkout string) (time.Time, map[string]string) {
	t.Helper()
	s, err := inspect(t.Context(), Options{Source: checkout, Version: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	dir, files := t.TempDir(), make(map[string]string)
	if err := s.export(t.Context(), checkout, dir); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var content []byte
			content, err = fs.ReadFile(os.DirFS(dir), path)
			files[path] = string(content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.time, files
}

// TestSettingsOfGitDoNotChangeTheCommit exports a commit with settings of git that change the files
// of a checkout, its date, or which repository it is.
func TestSettingsOfGitDoNotChangeTheCommit(t *testing.T) {
	source, other := checkout(t), checkout(t)
	if err := os.Remove(filepath.Join(source, ".gitattributes")); err != nil {
		t.Fatal(err)
	}
	write(t, source, map[string]string{"docs/empty.md": "", "docs/ident.md": "a\n$Id$\n", "docs/a name.md": "no line feed at its end"})
	commit(t, source)
	write(t, other, map[string]string{"README.md": "# other\n"})
	commit(t, other)
	date, want := exported(t, source)
	if date.Unix() != 1700000001 || want["docs/ident.md"] != "a\n$Id$\n" || want["docs/a name.md"] != "no line feed at its end" || len(want) < 15 {
		t.Fatalf("the commit is of %v, with %d files: %q", date, len(want), want)
	}
	check := func(name string) {
		t.Helper()
		if at, got := exported(t, source); !at.Equal(date) || !maps.Equal(got, want) {
			t.Errorf("%s: the commit is of %v, with %q", name, at, got)
		}
	}

	dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	attributes := filepath.ToSlash(filepath.Join(dir, "attributes"))
	for name, c := range map[string]struct{ attributes, config string }{
		"ends of lines":  {"* text eol=crlf\n", ""},
		"system's ends":  {"* text=auto\n", "[core]\n\teol=crlf\n"},
		"automatic ends": {"", "[core]\n\tautocrlf=true\n"},
		"filter":         {"*.md filter=x\n", "[filter \"x\"]\n\tclean=cat\n\tsmudge=touch " + filepath.ToSlash(ran) + " && cat\n"},
		"encoding":       {"*.md working-tree-encoding=UTF-16\n", ""},
		"ident":          {"*.md ident\n", ""},
		"no links":       {"", "[core]\n\tsymlinks=false\n"},
		"output":         {"", "[log]\n\tshowSignature=true\n[color]\n\tui=always\n[core]\n\tabbrev=4\n"},
	} {
		// A home directory, because variables of git have no effect.
		t.Setenv("HOME", dir)
		t.Setenv("USERPROFILE", dir)
		write(t, dir, map[string]string{"attributes": c.attributes, ".gitconfig": "[core]\n\tattributesFile=" + attributes + "\n" + c.config})
		// The files of the checkout are as git writes them with these settings, so that git reports no change.
		if err := os.Remove(filepath.Join(source, ".git", "index")); err != nil {
			t.Fatal(err)
		}
		if _, err := git(t.Context(), source, "reset", "--hard", "--quiet"); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(ran)
		check(name)
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: the command of a filter ran", name)
		}
	}
	write(t, dir, map[string]string{".gitconfig": ""})
	runGit(t, source, "reset", "--hard", "--quiet")

	write(t, source, map[string]string{".git/info/attributes": "*.md text eol=crlf\n"})
	check("attributes of the repository")
	runGit(t, source, "sparse-checkout", "set", "docs")
	check("sparse checkout")
	runGit(t, source, "sparse-checkout", "disable")

	head, err := git(t.Context(), source, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	object, err := git(t.Context(), source, "cat-file", "commit", head)
	if err != nil {
		t.Fatal(err)
	}
	replacement, err := run(t.Context(), source, strings.ReplaceAll(object, "1700000001", "1500000000")+"\n", "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, source, "replace", head, strings.TrimSpace(string(replacement)))
	check("replacement of the commit")

	t.Setenv("SOURCE_DATE_EPOCH", "1600000000")
	check("SOURCE_DATE_EPOCH")
	for name, value := range map[string]string{"GIT_DIR": filepath.Join(other, ".git"), "GIT_WORK_TREE": other,
		"GIT_OBJECT_DIRECTORY": filepath.Join(other, ".git", "objects"), "GIT_INDEX_FILE": filepath.Join(other, ".git", "index")} {
		t.Setenv(name, value)
	}
	check("another repository")
	if s, err := inspect(t.Context(), Options{Source: source, Version: "0.1.0", Snapshot: true}); err != nil || s.time.Unix() != 1600000000 {
		t.Errorf("a snapshot with SOURCE_DATE_EPOCH is of %v, %v", s.time, err)
	}
}

// TestLinksAndSubmodulesAreRefused makes their entries without files, which Windows could not have.
func TestLinksAndSubmodulesAreRefused(t *testing.T) {
	checkout := checkout(t)
	blob, err := run(t.Context(), checkout, "/etc/hostname", "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	head, err := git(t.Context(), checkout, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]string{
		"120000," + strings.TrimSpace(string(blob)) + ",docs/link.md": "docs/link.md is a symbolic link, and a release has regular files only: commit",
		"160000," + head + ",docs/part":                               "docs/part is a submodule, and a release has regular files only: commit",
	} {
		runGit(t, checkout, "update-index", "--add", "--cacheinfo", entry)
		runGit(t, checkout, "commit", "--quiet", "--message", "entry")
		s, err := inspect(t.Context(), Options{Source: checkout, Version: "0.1.0", Snapshot: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.export(t.Context(), checkout, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		runGit(t, checkout, "reset", "--quiet", "--hard", head)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(checkout, "docs", "link.md")); err != nil {
		t.Fatal(err)
	}
	commit(t, checkout)
	o := options(t, checkout)
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "docs/link.md is a symbolic link") {
		t.Errorf("the error is %v", err)
	}
}

// TestVersionsAreThoseThatUpgradeReads compares with the expression of "perigee upgrade", which
// refuses an index with any other version.
func TestVersionsAreThoseThatUpgradeReads(t *testing.T) {
	code, err := os.ReadFile(filepath.Join("..", "..", "cmd", "perigee", "upgrade_index.go"))
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile("semantic = lazyregexp.New\\(`(.*)`\\)").FindSubmatch(code)
	if literal == nil {
		t.Fatal("upgrade_index.go has no expression for versions")
	}
	reads := regexp.MustCompile(string(literal[1]))
	nine, hundred := strings.Repeat("9", 9), strings.Repeat("a", 100)
	usual := []string{"0.1.0", "0.1.0-rc.1", "1.2.3-rc.1+build.5", nine + "." + nine + "." + nine, "0.1.0-" + hundred, "0.1.0+" + hundred, "0.1.0-" + hundred + "+" + hundred}
	long := []string{nine + "0.1.0", "0." + nine + "0.0", "0.1." + nine + "0", "0.1.0-" + hundred + "a", "0.1.0+" + hundred + "a"}
	for _, version := range slices.Concat(usual, long) {
		if want := slices.Contains(usual, version); usable(version) != want || reads.MatchString(version) != want {
			t.Errorf("%s can be released: %v, and upgrade reads it: %v; want %v", version, usable(version), reads.MatchString(version), want)
		}
	}
	o := options(t, t.TempDir())
	o.Version = long[0]
	if err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 9 digits") {
		t.Errorf("the error is %v", err)
	}
}
