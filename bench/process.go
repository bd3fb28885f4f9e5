package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startLimit is how long a process may take until it listens.
const startLimit = 10 * time.Second

// A process is a child that serves HTTP on loopback.
type process struct {
	name   string
	cmd    *exec.Cmd
	addr   string        // host:port
	ready  time.Duration // from exec to the line that says that it listens
	cancel context.CancelFunc
	done   chan struct{}
}

// spawn starts a program and waits for the line on stderr that says where it listens. The process ends when ctx
// does, or by stop.
func (b *bench) spawn(ctx context.Context, name, program string, args ...string) (*process, error) {
	return b.spawnWith(ctx, nil, name, program, args...)
}

// spawnWith is spawn with more in the environment.
func (b *bench) spawnWith(ctx context.Context, env []string, name, program string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(childEnv(b.dir), env...)
	dieWithParent(cmd)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	p := &process{name: name, cmd: cmd, cancel: cancel, done: make(chan struct{})}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	b.children = append(b.children, p)

	listening := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stderr)
		for told := false; lines.Scan(); {
			if _, url, ok := strings.Cut(lines.Text(), " on http"); ok && !told {
				told = true
				p.ready = time.Since(began)
				addr, _, _ := strings.Cut(url[strings.Index(url, "//")+2:], " ")
				listening <- addr
				continue
			}
			if strings.Contains(lines.Text(), "level=INFO") {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: %s says: %s\n", name, lines.Text())
		}
		_ = cmd.Wait() // it was told to end, or has said why it did
	}()
	select {
	case p.addr = <-listening:
		return p, nil
	case <-p.done:
		err = fmt.Errorf("%s ended before it listened", name)
	case <-time.After(startLimit):
		err = fmt.Errorf("%s does not listen after %v", name, startLimit)
	}
	p.stop()
	return nil, err
}

// childEnv is a small environment of our own, so that no setting of the user's (GOGC, GOMAXPROCS, proxies,
// PERIGEE_*) counts for one process and not for another.
func childEnv(home string) []string {
	return []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
}

// stop ends the process and waits until it has.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

func (b *bench) stopAll() {
	for _, p := range b.children {
		p.stop()
	}
}

// cpu is the processor time that the process has used so far, in user and kernel mode. The scheduler counts it in
// nanoseconds for each thread; /proc/PID/stat would round to 10 ms.
func (p *process) cpu() (time.Duration, error) {
	threads, err := filepath.Glob(p.proc("task/*/schedstat"))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this thread has just ended
		}
		if err != nil {
			return 0, err
		}
		running, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		total += ns
	}
	if total == 0 {
		return 0, fmt.Errorf("%s: the kernel does not say what it used (no schedstat)", p.name)
	}
	return time.Duration(total), nil
}

// memory reads a size, VmRSS (resident now) or VmHWM (at most so far), in bytes.
func (p *process) memory(field string) (int64, error) {
	text, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, err
	}
	return sizeField(string(text), field)
}

func (p *process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// sizeField finds a line such as "VmRSS:     10240 kB".
func sizeField(text, field string) (int64, error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if name != field {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		return kb << 10, err
	}
	return 0, fmt.Errorf("no %s", field)
}
