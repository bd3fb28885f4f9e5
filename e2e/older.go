package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// olderVersions are the versions that upgrades start from and go back to: the last commit before
// schema version 16, and one of the first that write schema version 15 with the lowest version that
// may use it. A release takes the place of the first with its commit.
var olderVersions = []string{
	"9a425f9565",
	"62312f7901",
}

// olderInstall precedes the commit in the name of what a client needs; see installOne.
const olderInstall = "older "

func olderBinary(commit string) string { return cached("older", "perigee-"+commit) }

// buildOlder builds the perigee of a commit from the history of this checkout, unless the cache has
// it.
func buildOlder(ctx context.Context, commit string) (fresh bool, err error) {
	binary := olderBinary(commit)
	if _, err := os.Stat(binary); err == nil {
		return false, nil
	}
	if err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return false, fmt.Errorf("this checkout does not have commit %s (git fetch --unshallow gets the whole history): %w", commit, err)
	}
	tree, err := os.MkdirTemp("", "perigee-older-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tree)
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return false, err
	}
	archive := filepath.Join(tree, "tree.tar")
	if _, err := output(ctx, ".", nil, "git", "archive", "--output", archive, commit); err != nil {
		return false, err
	}
	if _, err := output(ctx, tree, nil, "tar", "-xf", archive); err != nil {
		return false, err
	}
	temporary := binary + fmt.Sprint(".", os.Getpid())
	if _, err := output(ctx, tree, []string{"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -buildvcs=false -pgo=off")},
		"go", "build", "-ldflags", "-w -X main.version=older", "-o", temporary, "./cmd/perigee"); err != nil {
		return false, err
	}
	return true, os.Rename(temporary, binary)
}
