package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A source is the commit that a release is built from.
type source struct {
	commit string    // empty without git
	time   time.Time // of the commit, or SOURCE_DATE_EPOCH of a snapshot: the time of every file of the release
}

// The expression of https://semver.org.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?` +
	`(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

// usable reports whether a version is a semantic one that "perigee upgrade" reads: its numbers have
// at most 9 digits, its pre-release and its build at most 100 characters each.
func usable(version string) bool {
	parts := semantic.FindStringSubmatch(version)
	return parts != nil && max(len(parts[1]), len(parts[2]), len(parts[3])) <= 9 && max(len(parts[4]), len(parts[5])) <= 100
}

// inspect checks that the checkout is what the version should have.
func inspect(ctx context.Context, o Options) (source, error) {
	if !usable(o.Version) {
		hint := "say which: make release VERSION=0.1.0"
		if plain, ok := strings.CutPrefix(o.Version, "v"); ok && usable(plain) {
			hint = "write " + plain
		} else if semantic.MatchString(o.Version) {
			hint = "use at most 9 digits for a number, and 100 characters for a pre-release or a build"
		}
		return source{}, fmt.Errorf("%q is not a version of a release: %s", o.Version, hint)
	}
	epoch := ""
	if o.Snapshot {
		epoch = os.Getenv("SOURCE_DATE_EPOCH")
	}
	var s source
	commit, err := git(ctx, o.Source, "rev-parse", "--verify", "HEAD")
	switch {
	case err != nil && (!o.Snapshot || epoch == ""):
		return s, fmt.Errorf("%w: a release is built from a git checkout; without one, use SNAPSHOT=1 and set SOURCE_DATE_EPOCH", err)
	case err == nil:
		s.commit = commit
		if err := s.check(ctx, o); err != nil {
			return s, err
		}
	}
	if epoch == "" {
		if epoch, err = git(ctx, o.Source, "show", "-s", "--no-show-signature", "--format=%ct", s.commit); err != nil {
			return s, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	const zipStart, signed32 = 315532800, 1<<31 - 1
	if err != nil || seconds < zipStart || seconds > signed32 {
		return s, fmt.Errorf("the time of the commit, or SOURCE_DATE_EPOCH, is %q: archives have seconds since 1970, from 1980 to 2038; "+
			"correct the date of the commit, or set SOURCE_DATE_EPOCH with SNAPSHOT=1", epoch)
	}
	s.time = time.Unix(seconds, 0).UTC()
	return s, nil
}

// check compares the working tree with the commit, and the commit with the tag of the version.
func (s source) check(ctx context.Context, o Options) error {
	if o.Snapshot {
		return nil
	}
	changed, err := git(ctx, o.Source, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("%w: commit or stash them, or try a build with SNAPSHOT=1:\n%s", errNotClean, changed)
	}
	tag := "v" + o.Version
	tagged, err := git(ctx, o.Source, "rev-parse", "--quiet", "--verify", "refs/tags/"+tag+"^{commit}")
	if err == nil && tagged != s.commit {
		return fmt.Errorf("%s is commit %.12s, and this checkout is at %.12s: check out the tag (git checkout %s), or choose the next version",
			tag, tagged, s.commit, tag)
	}
	return nil // without the tag, it is made after the release
}

// export writes the files of the commit into an empty directory, with the bytes that git has stored:
// no attribute, filter or setting of line ends applies. It leaves out what git does not report as a
// change: ignored files, which the go command would compile, and edits during the build. A symbolic
// link or a submodule is an error, because it names something that the commit does not have.
func (s source) export(ctx context.Context, checkout, dir string) error {
	tree, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }()
	list, err := run(ctx, checkout, "", "ls-tree", "-r", "-z", "--full-tree", s.commit)
	if err != nil {
		return err
	}
	var names, blobs []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		attributes, name, _ := strings.Cut(entry, "\t")
		mode, object, _ := strings.Cut(attributes, " ")
		_, blob, ok := strings.Cut(object, " ")
		switch {
		case mode == "120000":
			return fmt.Errorf("%s is a symbolic link, and a release has regular files only: commit a copy of its target", name)
		case mode == "160000":
			return fmt.Errorf("%s is a submodule, and a release has regular files only: commit its files", name)
		case !ok:
			return fmt.Errorf("git ls-tree printed %q", entry)
		}
		names, blobs = append(names, name), append(blobs, blob)
	}
	stored, err := run(ctx, checkout, strings.Join(blobs, "\n")+"\n", "cat-file", "--batch")
	if err != nil {
		return err
	}
	for i, name := range names { // each blob is a line with its name, type and size, the bytes, and a line feed
		header, rest, _ := bytes.Cut(stored, []byte("\n"))
		digits, ok := strings.CutPrefix(string(header), blobs[i]+" blob ")
		size, err := strconv.Atoi(digits)
		if !ok || err != nil || size < 0 || size >= len(rest) {
			return fmt.Errorf("git cat-file printed %q for %s: check the repository with git fsck", header, name)
		}
		if err := errors.Join(tree.MkdirAll(path.Dir(name), 0o755), tree.WriteFile(name, rest[:size], 0o644)); err != nil {
			return err
		}
		stored = rest[size+1:]
	}
	return nil
}

// git runs git in a directory and returns its output without the newline at its end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := run(ctx, dir, "", args...)
	return strings.TrimRight(string(out), "\n"), err
}

// run runs git in a directory with input, and returns its output. The variables of git in the
// environment, which could name another repository, and the replacements of objects have no effect.
func run(ctx context.Context, dir, input string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C")
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return out, nil
}
