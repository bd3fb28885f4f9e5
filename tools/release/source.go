package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A source is the commit that a release is built from.
type source struct {
	commit string    // empty without git
	time   time.Time // of the commit, or SOURCE_DATE_EPOCH: the time of every file of the release
}

// The expression of https://semver.org.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?` +
	`(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

// inspect checks that the checkout is what the version should have.
func inspect(ctx context.Context, o Options) (source, error) {
	if !semantic.MatchString(o.Version) {
		hint := "say which: make release VERSION=0.1.0"
		if plain, ok := strings.CutPrefix(o.Version, "v"); ok && semantic.MatchString(plain) {
			hint = "write " + plain
		}
		return source{}, fmt.Errorf("%q is not a semantic version: %s", o.Version, hint)
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	var s source
	commit, err := git(ctx, o.Source, "rev-parse", "HEAD")
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
		if epoch, err = git(ctx, o.Source, "show", "-s", "--format=%ct", "HEAD"); err != nil {
			return s, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	const zipStart, signed32 = 315532800, 1<<31 - 1
	if err != nil || seconds < zipStart || seconds > signed32 {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH is %q: set it to seconds since 1970, from 1980 to 2038, or unset it to use the time of the commit", epoch)
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

// export writes the files of the commit into an empty directory. What git does not report as a change is
// left behind: ignored files, which the go command would compile, and edits during the build.
func (s source) export(ctx context.Context, checkout, dir string) error {
	index := filepath.Join(dir, ".index")
	for _, args := range [][]string{
		{"read-tree", s.commit},
		{"-c", "core.autocrlf=false", "checkout-index", "--all", "--prefix=" + filepath.ToSlash(dir) + "/"},
	} {
		if _, err := gitWith(ctx, []string{"GIT_INDEX_FILE=" + index, "GIT_NO_REPLACE_OBJECTS=1"}, checkout, args...); err != nil {
			return err
		}
	}
	return os.Remove(index)
}

// git runs git in a directory and returns its output without the newline at its end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return gitWith(ctx, nil, dir, args...)
}

// gitWith is git with further environment variables.
func gitWith(ctx context.Context, env []string, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
