package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A compiler runs the go command in an environment of its own, so that no setting of the user
// changes the program.
type compiler struct {
	source     string
	dir        string // of the programs, and of the home directory of those that are run
	env        []string
	goroot     string
	unprofiled bool
	built      map[Platform]string
}

// kept are the variables of the user that the go command needs: to find itself and its caches, and
// to download modules. Modules are checked against go.sum, wherever they come from.
var kept = []string{"PATH", "HOME", "USERPROFILE", "SystemRoot", "TMPDIR", "TMP", "TEMP", "LocalAppData", "AppData",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "SSH_AUTH_SOCK", "XDG_CACHE_HOME"}

// settings are those of the go command that say where caches and modules are.
var settings = []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB", "GOAUTH", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE"}

func newCompiler(ctx context.Context, source string) (*compiler, error) {
	dir, err := os.MkdirTemp("", "perigee-release-")
	if err != nil {
		return nil, err
	}
	c := &compiler{source: source, dir: dir, built: make(map[Platform]string)}
	for _, name := range kept {
		if value, ok := os.LookupEnv(name); ok {
			c.env = append(c.env, name+"="+value)
		}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, settings...)...)
	cmd.Dir = source
	out, err := cmd.Output()
	values := make(map[string]string)
	if err == nil {
		err = json.Unmarshal(out, &values)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("go env: %w", err)
	}
	for name, value := range values {
		c.env = append(c.env, name+"="+value)
	}
	slices.Sort(c.env)
	c.env = append(c.env, "GOENV=off", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN="+Toolchain, "CGO_ENABLED=0", "LC_ALL=C")
	root, err := c.run(ctx, Platform{runtime.GOOS, runtime.GOARCH}, "env", "GOROOT")
	c.goroot = strings.TrimSpace(string(root))
	if err != nil {
		c.close()
	}
	return c, err
}

// close removes the programs.
func (c *compiler) close() { _ = os.RemoveAll(c.dir) }

// run runs the go command for a platform and returns its output.
func (c *compiler) run(ctx context.Context, p Platform, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.source
	// ARMv6 programs run on every Raspberry Pi, and on the ARMv7 that Debian's armhf means.
	cmd.Env = append(slices.Clone(c.env), "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM=6", "GOARM64=v8.0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s for %s: %w\n%s", args[0], p, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// build compiles perigee for a platform, once, and returns the path of the program.
func (c *compiler) build(ctx context.Context, p Platform, version string) (string, error) {
	if path, ok := c.built[p]; ok {
		return path, nil
	}
	path := filepath.Join(c.dir, p.String(), p.exe("perigee"))
	profile := "auto"
	if c.unprofiled {
		profile = "off"
	}
	_, err := c.run(ctx, p, "build", "-trimpath", "-buildvcs=false", "-pgo="+profile, "-mod=readonly",
		"-ldflags=-s -w -X main.version="+version, "-o", path, "./cmd/perigee")
	if err != nil {
		return "", err
	}
	c.built[p] = path
	return path, nil
}

// execute runs the program for this machine, without the user's settings, and returns its output.
func (c *compiler) execute(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.dir, "USERPROFILE=" + c.dir, "AppData=" + c.dir, "LocalAppData=" + c.dir,
		"SystemRoot=" + os.Getenv("SystemRoot"), "LC_ALL=C"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("perigee %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("perigee %s printed nothing", strings.Join(args, " "))
	}
	return out, nil
}
