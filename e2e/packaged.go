package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The scenarios of the Debian package, in the order in which they are played on one machine.
const (
	packageAnswers  = "installed, and an agent answers"
	packageServes   = "started"
	packageUpgraded = "upgraded while it serves"
	packageRemoved  = "removed, and purged"
)

// packages are the packages of a release on an empty machine.
func packages() []client {
	return []client{{
		name: "debian package", version: "bookworm", install: debianInstall, also: "claude", beside: true,
		scenarios: []string{packageAnswers, packageServes, packageUpgraded, packageRemoved},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			p, err := installPackage(limited, s)
			if err != nil {
				r.addAll(c, err)
				return
			}
			defer p.debian.close()
			play := map[string]func(context.Context) error{
				packageAnswers: p.answers, packageServes: p.serves, packageUpgraded: p.upgraded, packageRemoved: p.removed,
			}
			for _, scenario := range []string{packageAnswers, packageServes, packageUpgraded, packageRemoved} {
				err := play[scenario](limited)
				if slices.Contains(c.scenarios, scenario) {
					r.add(c, scenario, err)
				}
			}
		},
	}}
}

// A packaged is a machine with the Debian package of perigee.
type packaged struct {
	debian *debian
	before []string // the files before it was installed
	later  string   // the package of the next version, as a path inside
}

// The versions of the packages.
const earlierVersion, laterVersion = "0.1.0", "0.1.1"

// installPackage boots a machine and installs the earlier version.
func installPackage(ctx context.Context, s *stage) (*packaged, error) {
	made := filepath.Join(s.dir, "packages")
	earlier, err := makePackage(ctx, made, earlierVersion)
	if err != nil {
		return nil, err
	}
	later, err := makePackage(ctx, made, laterVersion)
	if err != nil {
		return nil, err
	}
	d, err := bootDebian(ctx, s, "debian-package", cached("claude", "node_modules", "@anthropic-ai", "claude-code-linux-x64"))
	if err != nil {
		return nil, err
	}
	p := &packaged{debian: d, later: "/tmp/later.deb"}
	if p.before, err = d.files(); err == nil {
		err = errors.Join(d.copyIn(earlier, "/tmp/earlier.deb"), d.copyIn(later, p.later))
	}
	if err == nil {
		_, err = d.run(ctx, "dpkg", "--install", "/tmp/earlier.deb")
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return p, nil
}

// copyIn copies a file into the machine. Its /tmp is not part of the disk that is compared.
func (d *debian) copyIn(source, name string) error {
	return copyFile(source, filepath.Join("/proc", fmt.Sprint(d.pid), "root", name))
}

// answers runs Claude Code with one command of the user, without a key or a configuration.
func (p *packaged) answers(ctx context.Context) error {
	version, err := p.debian.run(ctx, "perigee", "version")
	if err != nil || !strings.HasPrefix(version, "perigee "+earlierVersion+" ") {
		return fmt.Errorf("perigee version prints %q: %w", version, err)
	}
	said, err := p.debian.runAs(ctx, "PATH=$PATH:/opt/clients perigee run claude-code -- -p hello")
	if err == nil && !simulatedHello.MatchString(said) {
		err = fmt.Errorf("perigee run claude-code prints %s", lastBytes(said, 1500))
	}
	for err == nil && p.debian.ask(ctx) == nil { // its daemon ends soon after it
		err = ctx.Err()
	}
	return err
}

// serves starts the system service as docs/service.md describes, with a key.
func (p *packaged) serves(ctx context.Context) error {
	config := filepath.Join(p.debian.root, "etc/perigee/config.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	text = append(text, "\n# edited by the administrator\nlog: debug\n"...)
	if err := os.WriteFile(config, text, 0o644); err != nil {
		return err
	}
	if _, err := p.debian.run(ctx, "systemctl", "enable", "--now", "perigee.socket", "perigee.service"); err != nil {
		return err
	}
	return p.debian.ask(ctx)
}

// recorded returns the number of calls that the service has recorded.
func (p *packaged) recorded(ctx context.Context) (int, error) {
	list, err := p.debian.run(ctx, "perigee", "trace", "list", "--limit", "1000", "--json", "--config", "/etc/perigee/config.yaml")
	var rows []json.RawMessage
	if err == nil {
		err = json.Unmarshal([]byte(list), &rows)
	}
	return len(rows), err
}

// upgraded installs the later version while calls arrive all the time. None may fail, the
// administrator's change of the configuration stays, and so do the calls that were recorded.
func (p *packaged) upgraded(ctx context.Context) error {
	var calls int
	var failed error
	calling, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var over sync.WaitGroup
	over.Go(func() {
		for calling.Err() == nil && failed == nil {
			if failed = p.debian.ask(ctx); failed == nil {
				calls++
			}
		}
	})
	// Without an answer to a question about a changed file, dpkg would stop here.
	_, err := p.debian.run(ctx, "dpkg", "--install", p.later)
	if err == nil {
		err = p.serving(calling, laterVersion)
	}
	stop()
	over.Wait()
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("after %d calls: %w", calls, err)
	}
	text, err := os.ReadFile(filepath.Join(p.debian.root, "etc/perigee/config.yaml"))
	if err != nil || !bytes.Contains(text, []byte("edited by the administrator")) {
		return fmt.Errorf("the configuration is %q: %w", text, err)
	}
	if n, err := p.recorded(ctx); err != nil || n < calls+1 {
		return fmt.Errorf("%d calls are recorded, %d were made: %w", n, calls+1, err)
	}
	return nil
}

// serving waits until the service runs in a version.
func (p *packaged) serving(ctx context.Context, version string) error {
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(p.debian.root, "var/lib/perigee/perigee.sock"))
	}}}
	for {
		var status struct{ Version string }
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/status", nil)
		if err != nil {
			return err
		}
		resp, err := socket.Do(req)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&status)
			resp.Body.Close()
		}
		if err == nil && status.Version == version {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the service runs in version %q, not in %s: %w", status.Version, version, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// removed removes the package and then its configuration. Only the user's data may stay.
func (p *packaged) removed(ctx context.Context) error {
	if _, err := p.debian.run(ctx, "dpkg", "--remove", "perigee"); err != nil {
		return err
	}
	if err := p.debian.ask(ctx); err == nil {
		return errors.New("perigee answers after its removal")
	}
	if err := p.debian.onlyBelow(p.before, "etc/perigee", "var/lib/perigee", "home/"+debianUser); err != nil {
		return err
	}
	if _, err := p.debian.run(ctx, "dpkg", "--purge", "perigee"); err != nil {
		return err
	}
	return p.debian.onlyBelow(p.before, "var/lib/perigee", "home/"+debianUser)
}

// makePackage makes the Debian package of a version from this tree, and returns its path.
func makePackage(ctx context.Context, dir, version string) (string, error) {
	return makeRelease(ctx, filepath.Join(dir, version), version, "*.deb")
}

// makeRelease makes a release for this machine from this tree, and returns the one file of it that a
// pattern matches.
func makeRelease(ctx context.Context, dir, version, pattern string) (string, error) {
	binary := filepath.Join(dir, "perigee")
	build := exec.CommandContext(ctx, "go", "build", "-pgo=off", "-ldflags", "-s -w -X main.version="+version, "-o", binary, "./cmd/perigee")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build perigee %s: %w: %s", version, err, lastBytes(string(output), 500))
	}
	files := filepath.Join(dir, "release")
	release := exec.CommandContext(ctx, "go", "run", "./cmd", "-source", "../..", "-out", files, "-version", version,
		"-platforms", "linux/amd64", "-snapshot", "-program", binary)
	release.Dir = filepath.Join("tools", "release")
	if output, err := release.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make release %s: %w: %s", version, err, lastBytes(string(output), 500))
	}
	found, err := filepath.Glob(filepath.Join(files, pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("the release has %d files %s: %w", len(found), pattern, err)
	}
	return found[0], nil
}
