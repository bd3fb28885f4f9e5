package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	publishedModule  = "example.com/published/perigee"
	publishedInstall = "published module"
)

// publishedVersion is another one in each run: the go command remembers which files a version has,
// also after it was removed from the module cache.
var publishedVersion = "v0.1." + strconv.FormatInt(time.Now().Unix(), 10)

// published is the module as its users will have it: under a path of the web, installed with go
// install, with a lower priority than programs beside it.
func published() []client {
	return []client{{
		name: "go install", version: strings.TrimPrefix(runtime.Version(), "go"), install: publishedInstall,
		scenarios: []string{"the published module"},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
			defer cancel()
			r.addAll(c, installPublished(ctx))
		},
	}}
}

// installPublished renames a copy of this tree as CONTRIBUTING says, serves it as a module proxy
// would, and has the go command install it from there.
func installPublished(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "perigee-published-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree, bin := filepath.Join(dir, "tree"), filepath.Join(dir, "bin")
	if err := copyTracked(ctx, tree); err != nil {
		return err
	}
	if _, err := output(ctx, tree, nil, "make", "module", "MODULE="+publishedModule); err != nil {
		return err
	}
	if _, err := output(ctx, tree, nil, "nice", "go", "vet", ".", "./cmd/..."); err != nil {
		return err
	}
	proxy := filepath.Join(dir, "proxy")
	if err := serveModule(proxy, tree); err != nil {
		return err
	}
	// Its dependencies are in the module cache already, where their sums were checked when perigee
	// was built.
	cache, err := output(ctx, dir, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Join(strings.TrimSpace(cache), "example.com", "published"))
	defer os.RemoveAll(filepath.Join(strings.TrimSpace(cache), "cache", "download", "example.com", "published"))
	env := []string{"GOBIN=" + bin, "GOPROXY=file://" + proxy, "GOFLAGS=-modcacherw", "GOSUMDB=off"}
	if _, err := output(ctx, dir, env, "nice", "go", "install", publishedModule+"/cmd/perigee@"+publishedVersion); err != nil {
		return err
	}
	said, err := output(ctx, dir, nil, filepath.Join(bin, "perigee"), "version")
	if err != nil {
		return err
	}
	if !strings.Contains(said, publishedVersion) {
		return fmt.Errorf("the installed program says %q, want the version %s", said, publishedVersion)
	}
	return nil
}

// copyTracked copies what a checkout of this tree would have.
func copyTracked(ctx context.Context, to string) error {
	list, err := output(ctx, ".", nil, "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed and not committed yet
		} else if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// serveModule lays tree out below dir as the module proxy protocol has it.
func serveModule(dir, tree string) error {
	versions := filepath.Join(dir, filepath.FromSlash(publishedModule), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":                     publishedVersion + "\n",
		publishedVersion + ".mod":  string(mod),
		publishedVersion + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-31T00:00:00Z"}`, publishedVersion),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(versions, publishedVersion+".zip"))
	if err != nil {
		return err
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(tree, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != tree {
				return filepath.SkipDir // a module of its own, as e2e/gosdk is
			}
			return nil
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := archive.Create(publishedModule + "@" + publishedVersion + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// output runs a command and returns what it printed; the error has the end of what it said instead.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastBytes(stderr.String()+string(stdout), 400))
	}
	return string(stdout), nil
}
