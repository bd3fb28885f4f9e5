package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// buildPeer builds a peer in a module that requires nothing but it, so that neither our go.mod nor the tree knows of it. The
// go command verifies what it downloads as always.
func (b *bench) buildPeer(ctx context.Context, p *peer) (binary string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	dir := filepath.Join(b.dir, "build-"+p.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	module := fmt.Sprintf("module peer\n\ngo 1.26.0\n\nrequire %s %s\n", p.module, p.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", binary, p.module+p.command)
	cgo := "CGO_ENABLED=0"
	if p.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %s", cmp.Or(buildReason(string(out)), err.Error()))
	}
	return binary, nil
}

// buildReason finds what matters in the words of a go command that has failed: the first line that is not about its
// progress, and what a server said, if one did.
func buildReason(out string) string {
	var reason []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "go: downloading ") || strings.HasPrefix(line, "go: finding ") || strings.HasPrefix(line, "# "):
		case len(reason) == 0, strings.HasPrefix(line, "server response:"):
			reason = append(reason, withoutURL(strings.TrimPrefix(line, "go: ")))
		}
	}
	return strings.Join(reason, " ")
}

// withoutURL drops the address that the go command has read from; which version of which module it was stands before it.
func withoutURL(line string) string {
	before, rest, ok := strings.Cut(line, "reading https://")
	if !ok {
		return line
	}
	_, after, ok := strings.Cut(rest, ": ")
	if !ok {
		return line
	}
	return before + after
}

// startPeer runs a peer in front of the provider and waits until it accepts connections.
func (b *bench) startPeer(ctx context.Context, p *peer, binary string) (*process, error) {
	dir, err := os.MkdirTemp(b.dir, "peer-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args, err := p.configure(dir, port, "http://"+b.provider.addr)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, binary, args...)
	// Some ask their makers for news when they start. What is measured here leaves the machine for nobody.
	cmd.Dir, cmd.Env = dir, append(childEnv(dir), "HTTPS_PROXY=http://127.0.0.1:9")
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	child := &process{name: p.name, cmd: cmd, addr: addr, cancel: cancel, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	b.children = append(b.children, child)
	go func() {
		defer close(child.done)
		_ = cmd.Wait() // its log says why
	}()
	if err := child.accepts(ctx); err != nil {
		child.stop()
		return nil, errors.Join(err, errors.New(lastWords(log.Name())))
	}
	return child, nil
}

// peerStartLimit is longer than ours: some peers set up a lot.
const peerStartLimit = time.Minute

// accepts waits until the process accepts connections.
func (p *process) accepts(ctx context.Context) error {
	limit := time.After(peerStartLimit)
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-p.done:
			return errors.New("it ended before it listened")
		case <-limit:
			return fmt.Errorf("it does not listen after %v", peerStartLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// freeAddress is one on loopback that nobody listens on now, for programs that cannot choose one themselves.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), nil
}

// lastWords is the last line of a log, which most often says why a program has ended.
func lastWords(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-4096), io.SeekStart) // the end is enough
	}
	text, _ := io.ReadAll(file)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}
