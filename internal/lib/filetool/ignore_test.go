package filetool_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestListingsLeaveOutWhatIgnoreFilesName(t *testing.T) {
	r := newRig(t, map[string]string{
		".git/HEAD":         "",
		".git/info/exclude": "excluded\n",
		".gitignore":        "*.log\n/build/\n!keep.log\ntmp/*\n!tmp/kept\n",
		".ignore":           "own\n!shown.log\n",
		".env":              "",
		"a.log":             "",
		"keep.log":          "",
		"shown.log":         "",
		"own":               "",
		"excluded":          "",
		"build/x":           "",
		"src/build/x":       "",
		"src/.gitignore":    "!a.log\n*.tmp\n",
		"src/a.log":         "",
		"src/b.log":         "",
		"src/c.tmp":         "",
		"tmp/gone":          "",
		"tmp/kept":          "",
	})
	want := []string{".env", ".gitignore", ".ignore", "keep.log", "shown.log", "src", "src/.gitignore", "src/a.log", "src/build",
		"src/build/x", "tmp", "tmp/kept"}
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want = []string{"src/.gitignore", "src/a.log", "src/build"}
	if got := r.list(filetool.ListInput{Path: "src"}); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := r.list(filetool.ListInput{Recursive: true, IncludeIgnored: true}); len(got) != 24 || !slices.Contains(got, ".git/HEAD") {
		t.Errorf("got %d: %q", len(got), got)
	}
	result, err := r.tools.List(t.Context(), filetool.ListInput{Path: "tmp"})
	if err != nil || result.Ignored != 1 {
		t.Errorf("got %+v, %v; want 1 ignored", result, err)
	}
}

func TestIgnoredDirectoryCanBeListedByName(t *testing.T) {
	r := newRig(t, map[string]string{".gitignore": "node_modules/\n", "node_modules/x/index.js": ""})
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, []string{".gitignore"}) {
		t.Errorf("got %q", got)
	}
	want := []string{"node_modules/x", "node_modules/x/index.js"}
	if got := r.list(filetool.ListInput{Path: "node_modules", Recursive: true}); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestInnerRepositoryHasItsOwnRules(t *testing.T) {
	r := newRig(t, map[string]string{".git/HEAD": "", ".gitignore": "*.o\n", "sub/.git": "gitdir: elsewhere\n", "sub/x.o": "", "y.o": ""})
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, []string{".gitignore", "sub", "sub/x.o"}) {
		t.Errorf("got %q", got)
	}
}

func TestIgnoreFileThatIsNoFileIsNotRead(t *testing.T) {
	r := newRig(t, map[string]string{"rules": "*.o\n", ".gitignore -> rules": "", "x.o": "", "dir/.gitignore/x": "", "dir/x.o": ""})
	want := []string{".gitignore", "dir", "dir/.gitignore", "dir/.gitignore/x", "dir/x.o", "rules", "x.o"}
	if got := r.list(filetool.ListInput{Recursive: true}); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestHostilePatternsTakePolynomialTime(t *testing.T) {
	name := strings.Repeat("a", 200)
	r := newRig(t, map[string]string{
		".gitignore":                            strings.Repeat("*a", 100) + "b\n" + strings.Repeat("**/*a", 50) + "/b\n",
		name:                                    "",
		filepath.Join("d", "d", "d", "d", name): "",
	})
	for _, in := range []filetool.ListInput{{Recursive: true}, {Glob: strings.Repeat("**/*a", 50) + "/b"}} {
		done := make(chan error, 1)
		go func() {
			result, err := r.tools.List(t.Context(), in)
			if in.Recursive && len(paths(result)) != 7 {
				t.Errorf("got %q", paths(result))
			}
			done <- err
		}()
		if err := await.Receive(t, done, "the list"); err != nil { // without a memory it would not end
			t.Error(err)
		}
	}
}

// gitRig is a directory that git takes for the top of a repository.
func gitRig(t *rapid.T, base string) (dir string) {
	dir, err := os.MkdirTemp(base, "repository")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".git/objects", ".git/refs", ".git/info"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkIgnore asks git which paths it ignores.
func checkIgnore(t *rapid.T, git, dir string, paths []string) map[string]bool {
	cmd := exec.CommandContext(t.Context(), git, "-C", dir, "check-ignore", "--no-index", "--stdin", "-z")
	cmd.Env = []string{"HOME=" + dir + "/.git", "XDG_CONFIG_HOME=" + dir + "/.git", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: none is ignored
		t.Fatalf("git: %v: %s", err, problems.String())
	}
	ignored := map[string]bool{}
	for path := range strings.SplitSeq(out.String(), "\x00") {
		ignored[path] = true
	}
	return ignored
}

// TestIgnoreRulesAreThoseOfGit compares listings of random trees with git check-ignore.
func TestIgnoreRulesAreThoseOfGit(t *testing.T) {
	perigeetest.Slow(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip(err)
	}
	base := t.TempDir()
	names := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "a.b", "a-b", "A", "b.c", ".a", "#a", "!a", "a ", "[a]", `a\b`, "é", "a*"})
	pieces := rapid.SampledFrom([]string{"a", "b", "c", ".", "-", "*", "*", "**", "**/", "/**", "/", "/", "?", "[ab]", "[!a]", "[^b]", "[a-c]",
		"[]a]", "[[:alpha:]]", "[[:upper:]x]", "[[:nope:]]", "[a", `\`, `\*`, `\a`, "!", "#", " ", `\ `, "é", "[a-", "[b-a]", `[\]]`, "[[:alpha:]-z]", "A", "\r"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"", "", "", "!", "/", `\!`, "#"}).Draw(t, "prefix")
		return prefix + strings.Join(rapid.SliceOfN(pieces, 1, 5).Draw(t, "pieces"), "") + rapid.SampledFrom([]string{"", "", "/", " ", "\r"}).Draw(t, "end")
	})
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		dir := gitRig(t, base)
		defer os.RemoveAll(dir)
		dirs := []string{""}
		put := func(path, content string) {
			if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
				return
			}
			if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "entries") {
			in := rapid.SampledFrom(dirs).Draw(t, "directory")
			path := in + names.Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0, 1:
				if os.Mkdir(filepath.Join(dir, path), 0o755) == nil {
					dirs = append(dirs, path+"/")
				}
			case 2:
				put(path, "")
			case 3:
				_ = os.Symlink("a", filepath.Join(dir, path))
			}
		}
		for _, in := range dirs {
			if in == "" || rapid.IntRange(0, 2).Draw(t, "ignore file") == 0 {
				put(in+".gitignore", strings.Join(rapid.SliceOfN(pattern, 0, 5).Draw(t, "patterns"), "\n"))
			}
		}
		put(".git/info/exclude", strings.Join(rapid.SliceOfN(pattern, 0, 3).Draw(t, "excluded"), "\n")+"\n")

		tools, err := filetool.New(filetool.Options{Roots: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		list := func(all bool) []string {
			result, err := tools.List(context.Background(), filetool.ListInput{Recursive: true, IncludeIgnored: all})
			if err != nil || len(result.Errors) > 0 {
				t.Fatal(result, err)
			}
			return paths(result)
		}
		all := slices.DeleteFunc(list(true), func(path string) bool { return path == ".git" || strings.HasPrefix(path, ".git/") })
		ignored := checkIgnore(t, git, dir, all)
		want := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return ignored[path] })
		if got := list(false); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		compared += len(all)
	})
	if compared == 0 {
		t.Error("nothing was compared")
	}
	t.Logf("%d paths compared", compared)
}
