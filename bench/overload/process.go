//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A rig is what a case is run with.
type rig struct {
	dir, binary string
	memory      int64
	provider    string // host:port
	share       float64

	addr     string // of perigee, host:port
	statuses *counter
}

// times is the share of a case's load that is run.
func (r *rig) times(n int) int { return max(1, int(float64(n)*r.share)) }

// measure runs a case against a process of its own.
func measure(ctx context.Context, c loadCase, r rig) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	home, err := os.MkdirTemp(r.dir, "home-")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %s\nlog: error\nupstreams:\n  - {name: up, kind: gemini, url: \"http://%s\", keys: [any]}\n", home, r.provider)
	file := filepath.Join(home, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.binary, "serve", "--config", file)
	// As a variable, because binaries from before it was there refuse unknown keys in a file.
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), fmt.Sprintf("PERIGEE_LIMITS_MEMORY=%d", r.memory)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	if r.addr, err = listensOn(stderr); err != nil {
		return nil, err
	}
	r.statuses = &counter{n: map[string]int{}}
	small := newSmallCalls(r.addr)
	if err := small.ask(ctx); err != nil { // brings the program's own code into memory
		return nil, fmt.Errorf("the first call: %w", err)
	}
	began := time.Now()
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() { small.every(ctx, done) })
	err = c.run(ctx, &r)
	took := time.Since(began)
	close(done)
	group.Wait()
	if err != nil {
		return nil, err
	}
	peak, err := peakOf(cmd.Process.Pid)
	return &result{peak: peak, statuses: r.statuses.n, small: *small, took: took}, err
}

// maxLines is how much of the process's log is shown.
const maxLines = 3

// listensOn waits for the line that says where perigee listens; what else it says goes to stderr.
func listensOn(stderr io.Reader) (string, error) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
			go func() {
				for n := 0; lines.Scan(); n++ {
					if n < maxLines {
						fmt.Fprintln(os.Stderr, lines.Text())
					}
				}
			}()
			return strings.TrimSpace(addr), nil
		}
	}
	return "", fmt.Errorf("perigee ended before it listened")
}

// peakOf reads VmHWM, the most memory that was resident so far.
func peakOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("the process is gone: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM")
}

// A counter counts how requests ended.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[status]++
}

// smallCalls are what an ordinary client notices of an overload.
type smallCalls struct {
	client   *http.Client
	url      string
	answered int
	failed   int
	slowest  time.Duration
	reasons  []string // of the first failures
}

func newSmallCalls(addr string) *smallCalls {
	return &smallCalls{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}, url: "http://" + addr + "/v1/chat/completions"}
}

// smallTime is how long a small call may take.
const smallTime = time.Minute

func (s *smallCalls) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, smallTime)
	defer cancel()
	body := strings.NewReader(`{"model":"plain","messages":[{"role":"user","content":"hello"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, body)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, text)
	}
	return err
}

// every sends a small call every 100 ms until done is closed. One that is slow does not hold up the
// next.
func (s *smallCalls) every(ctx context.Context, done <-chan struct{}) {
	var mu sync.Mutex
	var group sync.WaitGroup
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			group.Wait()
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		group.Go(func() {
			began := time.Now()
			err := s.ask(ctx)
			mu.Lock()
			defer mu.Unlock()
			s.slowest = max(s.slowest, time.Since(began))
			if err == nil {
				s.answered++
				return
			}
			if s.failed++; len(s.reasons) < 3 {
				s.reasons = append(s.reasons, err.Error())
			}
		})
	}
}
