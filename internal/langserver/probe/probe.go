// Package probe finds the binary of a language server and determines which command line it
// accepts: it runs the binary once with a flag that no program has, and reads the list of flags
// that the binary prints. The list determines the profile.
package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"perigee"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/redact"
)

// Profiles of language servers.
const (
	Classic = "classic" // depends on an Extension Server for sign-in and settings
	Hub     = "hub"     // runs without an IDE and reads its token from a file
)

const (
	drain       = 5 * time.Second // for the remaining bytes in the pipe after its end
	outputLimit = 1 << 20
	bogusFlag   = "--perigee_probe_unknown_flag"
)

// timeout is the limit of one run of the binary. Tests lower it.
var timeout = 10 * time.Second

// A Result has the properties of a binary.
type Result struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// version of the product, n.n.n if the build stamp contains it; empty if unknown
	Version string   `json:"version"`
	Profile string   `json:"profile"`
	Flags   []string `json:"flags"` // without dashes, sorted
}

// Supports reports whether the binary has the flags of a profile. If it has the flags of both,
// Profile is the preferred one.
func (r Result) Supports(profile string) bool {
	return r.Accepts(map[string]string{Classic: "extension_server_port", Hub: "standalone"}[profile])
}

// Accepts reports whether the binary has a flag.
func (r Result) Accepts(flag string) bool {
	_, found := slices.BinarySearch(r.Flags, flag)
	return found
}

// Options configure a probe.
type Options struct {
	Command []string          // the binary, or a program and the arguments that make it a language server
	Env     map[string]string // additional environment
	Version string            // for a binary without product.json next to it
	// directory for results, created when needed; if empty, the binary is run each time
	Cache string
}

// Probe returns the cached result of a binary with the same content, or runs the binary. The
// version is looked up each time.
func (o Options) Probe(ctx context.Context) (Result, error) {
	if len(o.Command) == 0 {
		return Result{}, errors.New("no language server to probe; set binary")
	}
	r, err := o.inspect()
	if err != nil {
		return Result{}, err
	}
	known, found := o.cached(r.SHA256)
	if !found {
		if known, err = ask(ctx, append([]string{r.Path}, o.Command[1:]...), o.Env); err == nil {
			err = o.keep(r.SHA256, known)
		}
		if err != nil {
			return Result{}, err
		}
	}
	r.Profile, r.Flags = known.profile(), known.Flags
	if r.Version == "" && versionForm().MatchString(known.Stamp) {
		r.Version = known.Stamp
	}
	return r, nil
}

// inspect returns the properties of a binary that are known without running it.
func (o Options) inspect() (r Result, err error) {
	if r.Path, err = executable(o.Command[0]); err != nil {
		return Result{}, err
	}
	if r.SHA256, err = Hash(r.Path); err != nil {
		return Result{}, fmt.Errorf("read the language server: %w", err)
	}
	r.Version = cmp.Or(productVersion(r.Path), o.Version)
	return r, nil
}

// facts are the properties that only running the binary reveals.
type facts struct {
	Flags []string `json:"flags"`
	Stamp string   `json:"stamp"`
}

// profile returns the profile by the flags, or "" if these are not the flags of a language server.
func (f facts) profile() string {
	switch {
	case slices.Contains(f.Flags, "extension_server_port"):
		return Classic
	case slices.Contains(f.Flags, "standalone"):
		return Hub
	}
	return ""
}

// ask runs the binary with an unknown flag, and with --stamp if it has that flag.
func ask(ctx context.Context, command []string, env map[string]string) (facts, error) {
	out, runErr := run(ctx, append(slices.Clone(command), bogusFlag), env)
	known := facts{Flags: usageFlags(out.text)}
	switch path := command[0]; {
	case known.profile() != "":
	case ctx.Err() != nil:
		return facts{}, ctx.Err()
	case out.timedOut:
		return facts{}, fmt.Errorf("%s is not a language server: it did not end within %v when run with an unknown flag; "+
			"set binary to the language server of an Antigravity installation", path, timeout)
	case bytes.Contains(out.text, []byte("GLIBC_")):
		return facts{}, fmt.Errorf("%s cannot run here: %s; it needs a newer glibc, so use a newer distribution or container image",
			path, glibcLine(out.text))
	case errors.Is(runErr, fs.ErrNotExist):
		return facts{}, fmt.Errorf("%s cannot run here: its dynamic loader or interpreter is missing; a language server needs a "+
			"system with glibc", path)
	case errors.Is(runErr, syscall.ENOEXEC):
		return facts{}, fmt.Errorf("%s is not a language server for this system and processor; set binary to the "+
			"language server of an Antigravity installation", path)
	case runErr != nil && !errors.As(runErr, new(*exec.ExitError)):
		return facts{}, fmt.Errorf("run %s: %w", path, runErr)
	default:
		return facts{}, fmt.Errorf("%s is not a language server: it has neither the flag extension_server_port nor standalone (%s%s); "+
			"set binary to the language server of an Antigravity installation", path, exitText(runErr), firstLine(out.text))
	}
	if slices.Contains(known.Flags, "stamp") {
		if out, err := run(ctx, append(slices.Clone(command), "--stamp"), env); err == nil {
			known.Stamp = stamp(out.text)
		}
	}
	return known, ctx.Err()
}

type output struct {
	text     []byte
	timedOut bool
}

// run executes a command to its end, in a process group of its own, with closed input, a new
// environment and a temporary HOME.
func run(ctx context.Context, command []string, env map[string]string) (output, error) {
	home, err := os.MkdirTemp("", "perigee-probe-*")
	if err != nil {
		return output{}, fmt.Errorf("no temporary directory for the probe: %v", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	// Wait must return at the end of the program, before its remaining output in the pipe is read:
	// its children, which may keep the pipe open, are killed then.
	read, write, err := os.Pipe()
	if err != nil {
		return output{}, err
	}
	defer func() { _ = read.Close() }()
	cmd := exec.CommandContext(limited, command[0], command[1:]...)
	cmd.Dir = home
	cmd.Env = environment(home, env)
	cmd.Stdout, cmd.Stderr = write, write
	procgroup.Own(cmd)
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return output{}, err
	}
	var out limitedBuffer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&out, read)
	}()
	err = cmd.Wait()
	_ = procgroup.Kill(cmd.Process)
	select {
	case <-copied:
	case <-time.After(drain): // a child has left the group
	}
	return output{text: out.bytes(), timedOut: limited.Err() != nil}, err
}

func environment(home string, more map[string]string) []string {
	env := []string{"HOME=" + home, "USERPROFILE=" + home, "TMPDIR=" + home, "PWD=" + home}
	for _, name := range []string{"PATH", "LANG"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}

// A limitedBuffer keeps the first outputLimit bytes and discards further ones.
type limitedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p[:min(len(p), outputLimit-len(l.b))]...)
	return len(p), nil
}

func (l *limitedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.b)
}

// usageLine matches a flag in the list that Go's flag package prints, and in the list of programs
// with long and short names.
var usageLine = lazyregexp.New(`(?m)^ {1,8}(?:-[A-Za-z0-9], )?--?([A-Za-z0-9][A-Za-z0-9_.-]*)`)

func usageFlags(text []byte) []string {
	flags := []string{}
	for _, found := range usageLine().FindAllSubmatch(text, -1) {
		flags = append(flags, string(found[1]))
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// versionForm matches a stamp that counts as a version. Most builds print the number of their
// changelist, and the provider refuses a version of another form.
var versionForm = lazyregexp.New(`^\d+\.\d+\.\d+$`)

var plainStamp = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9 ._+:/-]{0,63}$`)

// stamp returns the first line of the output of --stamp, if that looks like the name of a build.
func stamp(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line = strings.TrimSpace(line); plainStamp().MatchString(line) {
		return line
	}
	return ""
}

func glibcLine(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "GLIBC_") {
			return redacted(line)
		}
	}
	return ""
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return ", without output"
	}
	return ": " + redacted(line)
}

func redacted(line string) string {
	return redact.Credentials(perigee.Clip(strings.ToValidUTF8(strings.TrimSpace(line), "?"), 200))
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// Hash returns the SHA-256 of a file in hexadecimal.
func Hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// executable returns the absolute path of a file that can be executed.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no language server at %s; set binary to its path, or install Antigravity", path)
	case err != nil:
		return "", fmt.Errorf("look for the language server: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file; set binary to the file of the language server", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable; set binary to the language server of an Antigravity installation, or run chmod +x if this is it", path)
	}
	return path, nil
}
