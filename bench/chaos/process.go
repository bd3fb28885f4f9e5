package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a program that was started and has to end.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	peak int64 // bytes of memory, at most so far
}

// startLimit is how long a process may take until it listens, on a busy machine.
const startLimit = 60 * time.Second

// start runs a program with its output in a log.
func start(log string, env []string, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(env, "PATH="+os.Getenv("PATH")), out, out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the log says why
	}()
	return p, nil
}

// listening waits until the process answers at a path with status 200.
func (p *process) listening(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s", p.cmd.Args[0], p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %s", p.cmd.Args[0], p.lastLines())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) lastLines() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-1000):])
}

// end sends a signal and waits.
func (p *process) end(signal os.Signal, limit time.Duration) error {
	p.measure()
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the process did not end within %v of %v", limit, signal)
	}
}

func (p *process) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), name)
}

// descriptors is how many files the process has open.
func (p *process) descriptors() int {
	entries, _ := os.ReadDir(p.proc("fd"))
	return len(entries)
}

// measure notes the most memory that the process has had.
func (p *process) measure() int64 {
	p.peak = max(p.peak, p.status("VmHWM:"))
	return p.peak
}

// resident is the memory that the process has now.
func (p *process) resident() int64 { return p.status("VmRSS:") }

// status returns a number of bytes from the status of the process, or 0 if it has ended.
func (p *process) status(name string) int64 {
	text, _ := os.ReadFile(p.proc("status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// goroutines ends the process with SIGQUIT and counts the goroutines in the dump that it leaves.
func (p *process) goroutines() (n int, dump string, err error) {
	before, err := os.Stat(p.log)
	if err != nil {
		return 0, "", err
	}
	if err := p.end(syscall.SIGQUIT, startLimit); err != nil {
		return 0, "", err
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		return 0, "", err
	}
	text = text[before.Size():]
	if !bytes.Contains(text, []byte("SIGQUIT")) {
		return 0, "", errors.New("the process left no dump: " + p.lastLines())
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("goroutine ")) && bytes.Contains(line, []byte("[")) {
			n++
		}
	}
	return n, string(text), nil
}
