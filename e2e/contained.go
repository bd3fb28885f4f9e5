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
	"runtime"
	"strconv"
	"strings"
	"time"
)

// imageInstall is what it takes to build an image and to run a container without a daemon.
const imageInstall = "container tools"

func installContainerTools(ctx context.Context) (fresh bool, err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return false, errors.New("this needs Linux on amd64")
	}
	if os.Getuid() != 0 {
		return false, errors.New("only root can run containers here")
	}
	for _, name := range []string{"buildah", "crun"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if err := installDebian(ctx, name); err != nil {
			return fresh, err
		}
		fresh = true
	}
	return fresh, nil
}

// The scenarios of the container image.
const (
	imageGuarded = "without keys"
	imageServes  = "with a key, a read-only root and a volume"
)

// images are the container image of a release.
func images() []client {
	return []client{{
		name: "container image", version: "buildah, crun", install: imageInstall, beside: true, scenarios: []string{imageGuarded, imageServes},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			i, err := buildImage(limited, s)
			if err != nil {
				r.addAll(c, err)
				return
			}
			defer i.close()
			for _, scenario := range c.scenarios {
				if scenario == imageGuarded {
					r.add(c, scenario, i.guarded(limited))
				} else {
					r.add(c, scenario, i.serves(limited))
				}
			}
		},
	}}
}

// A builtImage is one that buildah has built from dist/Containerfile, with its files mounted.
type builtImage struct {
	dir    string
	root   string // its files
	config imageConfig
}

// An imageConfig is what an image tells those that run it.
type imageConfig struct {
	User        string
	Env         []string
	Entrypoint  []string
	Cmd         []string
	Volumes     map[string]struct{}
	Healthcheck struct{ Test []string }
}

func (i *builtImage) buildah(ctx context.Context, args ...string) (string, error) {
	store := []string{"--storage-driver", "vfs", "--root", filepath.Join(i.dir, "store"), "--runroot", filepath.Join(i.dir, "run")}
	cmd := exec.CommandContext(ctx, "buildah", append(store, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("buildah %s: %w: %s", args[0], err, lastBytes(stderr.String(), 500))
	}
	return strings.TrimSpace(string(output)), err
}

func buildImage(ctx context.Context, s *stage) (_ *builtImage, err error) {
	i := &builtImage{dir: filepath.Join(s.dir, "image")}
	archive, err := makeRelease(ctx, i.dir, "0.1.0", "*_container.tar.gz")
	if err != nil {
		return nil, err
	}
	files := filepath.Join(i.dir, "context")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, err
	}
	if output, err := exec.CommandContext(ctx, "tar", "-C", files, "--strip-components=1", "-xzf", archive).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar: %w: %s", err, output)
	}
	if _, err := i.buildah(ctx, "bud", "--isolation", "chroot", "--format", "docker", "--tag", "perigee", files); err != nil {
		return nil, err
	}
	var described struct{ Docker struct{ Config imageConfig } }
	inspected, err := i.buildah(ctx, "inspect", "--type", "image", "perigee")
	if err == nil {
		err = json.Unmarshal([]byte(inspected), &described)
	}
	if err != nil {
		return nil, err
	}
	i.config = described.Docker.Config
	if _, err = i.buildah(ctx, "from", "--name", "files", "perigee"); err == nil {
		i.root, err = i.buildah(ctx, "mount", "files")
	}
	return i, err
}

func (i *builtImage) close() { _, _ = i.buildah(context.Background(), "umount", "files") }

// A container runs an image.
type container struct {
	name string
	data string // its volume, from outside
	cmd  *exec.Cmd
	said *bytes.Buffer
}

// start runs the image with a configuration as crun does what its description asks for: with its
// user, its variables and its command, a read-only root, no capabilities, and a network of its own.
// The control groups of this machine may be of both versions, which crun refuses: it gets its own
// view of them.
func (i *builtImage) start(ctx context.Context, name, config string) (*container, error) {
	c := &container{name: "perigee-e2e-" + name, data: filepath.Join(i.dir, name, "data"), said: new(bytes.Buffer)}
	uid, gid, _ := strings.Cut(i.config.User, ":")
	user, err := strconv.Atoi(uid)
	if err != nil || uid != gid || user == 0 {
		return nil, fmt.Errorf("the user of the image is %q", i.config.User)
	}
	if _, ok := i.config.Volumes["/data"]; !ok {
		return nil, fmt.Errorf("the volumes of the image are %v", i.config.Volumes)
	}
	if err := os.MkdirAll(c.data, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chown(c.data, user, user); err != nil { // as the directory in the image, which a new volume copies
		return nil, err
	}
	settings := filepath.Join(i.dir, name, "config.yaml")
	if err := os.WriteFile(settings, []byte(config), 0o644); err != nil {
		return nil, err
	}
	type object = map[string]any
	var namespaces []object
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	spec, err := json.Marshal(object{
		"ociVersion": "1.0.0",
		"process": object{"args": append(i.config.Entrypoint, i.config.Cmd...), "env": i.config.Env, "cwd": "/", "noNewPrivileges": true,
			"user": object{"uid": user, "gid": user}},
		"root":  object{"path": i.root, "readonly": true},
		"linux": object{"namespaces": namespaces},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/data", "type": "bind", "source": c.data, "options": []string{"bind", "rw"}},
			{"destination": "/etc/perigee/config.yaml", "type": "bind", "source": settings, "options": []string{"bind", "ro"}},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(i.dir, name, "config.json"), spec, 0o600); err != nil {
		return nil, err
	}
	c.cmd = exec.CommandContext(ctx, "unshare", "--mount", "--", "sh", "-c",
		`mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec crun --cgroup-manager=disabled run "$1"`, "sh", c.name)
	c.cmd.Dir = filepath.Join(i.dir, name)
	c.cmd.Stdout, c.cmd.Stderr = c.said, c.said
	return c, c.cmd.Start()
}

// crun runs another command of crun for the container, and returns what it prints.
func (c *container) crun(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "crun", append([]string{"--cgroup-manager=disabled"}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("crun %s: %w: %s", args[0], err, lastBytes(string(output), 500))
	}
	return string(output), err
}

// guarded starts the image as it is. It listens for other machines, so it must not serve.
func (i *builtImage) guarded(ctx context.Context) error {
	config, err := os.ReadFile(filepath.Join(i.root, "etc/perigee/config.yaml"))
	if err != nil {
		return err
	}
	c, err := i.start(ctx, "guarded", string(config))
	if err != nil {
		return err
	}
	if err := c.cmd.Wait(); err == nil || !strings.Contains(c.said.String(), "keys") {
		return fmt.Errorf("perigee ends with %v and prints %s", err, c.said)
	}
	return nil
}

// serves starts the image with a key, asks it, checks its health, and stops it.
func (i *builtImage) serves(ctx context.Context) error {
	c, err := i.start(ctx, "serves", "keys:\n  - {name: e2e, secret: e2e-key-of-the-container}\n")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	defer func() { _, _ = c.crun(context.WithoutCancel(ctx), "delete", "--force", c.name) }()
	health := i.config.Healthcheck.Test
	if len(health) < 2 || health[0] != "CMD" {
		return fmt.Errorf("the health check of the image is %q", health)
	}
	check := []string{"exec", "--user", i.config.User}
	for _, variable := range i.config.Env {
		check = append(check, "--env", variable)
	}
	check = append(append(check, c.name), health[1:]...)
	patient, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for err = errors.New("not started"); err != nil; {
		select {
		case <-patient.Done():
			return fmt.Errorf("the health check fails: %w; perigee prints %s", err, c.said)
		case err := <-ended:
			return fmt.Errorf("perigee ends with %w and prints %s", err, c.said)
		case <-time.After(200 * time.Millisecond):
			_, err = c.crun(ctx, check...)
		}
	}
	if err := i.asked(ctx, c); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(i.dir, "release", "index.json"), filepath.Join(c.data, "index.json")); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(c.data, "index.json"), 0o644); err != nil {
		return err
	}
	check = append(check[:len(check)-len(health)+1], "/usr/bin/perigee", "upgrade", "--check", "--index", "/data/index.json", "--json")
	if said, err := c.crun(ctx, check...); err != nil || !strings.Contains(said, `"a container image"`) {
		return fmt.Errorf("perigee upgrade prints %s: %w", said, err)
	}
	if stored, err := filepath.Glob(filepath.Join(c.data, "perigee.db")); err != nil || len(stored) != 1 {
		return fmt.Errorf("the volume has no database: %w", err)
	}
	if _, err := c.crun(ctx, "kill", c.name, "TERM"); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("after SIGTERM, perigee ends with %w and prints %s", err, c.said)
	}
	return nil
}

// asked calls the container from its own network, without a key and with it.
func (i *builtImage) asked(ctx context.Context, c *container) error {
	state, err := exec.CommandContext(ctx, "crun", "state", c.name).Output()
	var process struct{ Pid int }
	if err == nil {
		err = json.Unmarshal(state, &process)
	}
	if err != nil {
		return fmt.Errorf("crun state: %w", err)
	}
	network := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialIn(ctx, fmt.Sprintf("/proc/%d/ns/net", process.Pid), address)
		}}}
	for key, want := range map[string]int{"wrong": http.StatusUnauthorized, "e2e-key-of-the-container": http.StatusOK} {
		body := `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hello"}]}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8741/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := network.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			return fmt.Errorf("with the key %s: status %d", key, resp.StatusCode)
		}
	}
	return nil
}
