//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee"
	"perigee/internal/observe/trace"
)

// A rig is a provider in this process, and a built perigee.
type rig struct {
	dir      string
	program  string
	provider *httptest.Server
	daemons  []*daemon
}

const answer = `{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"finishReason":"STOP","index":0}],` +
	`"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"modelVersion":"gemini-3-flash"}`

// chunk is an answer before its end.
const chunk = `{"candidates":[{"content":{"parts":[{"text":"some words of an answer "}],"role":"model"},"index":0}],"modelVersion":"gemini-3-flash"}`

// answerChunks is how many chunks an answer has.
const answerChunks = 20

// newRig returns a rig for a program, which it builds if the path is empty.
func newRig(ctx context.Context, program string) (*rig, error) {
	dir, err := os.MkdirTemp("", "perigee-bench-trace-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, program: program}
	if program == "" {
		r.program = filepath.Join(dir, "perigee")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", r.program, "./cmd/perigee").CombinedOutput(); err != nil {
			_ = os.RemoveAll(dir)
			return nil, fmt.Errorf("go build, in the directory of the module: %w: %s", err, out)
		}
	}
	r.provider = httptest.NewServer(http.HandlerFunc(provide))
	return r, nil
}

// provide answers with a stream, or with an error if the request has the mark of one that fails.
func provide(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	if bytes.Contains(body[max(0, len(body)-1000):], []byte(failing)) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"code":400,"message":"not like this","status":"INVALID_ARGUMENT"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range answerChunks - 1 {
		_, _ = io.WriteString(w, "data: "+chunk+"\r\n\r\n")
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "data: "+answer+"\r\n\r\n")
}

func (r *rig) close() {
	for _, d := range r.daemons {
		d.stop()
	}
	r.provider.Close()
	_ = os.RemoveAll(r.dir)
}

// A daemon is one that is measured.
type daemon struct {
	command *exec.Cmd
	url     string
	data    string
	client  *http.Client
	once    sync.Once
}

// serve starts a daemon with this traces.keep.
func (r *rig) serve(ctx context.Context, name, keep string) (*daemon, error) {
	d := &daemon{data: filepath.Join(r.dir, name), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	path := filepath.Join(r.dir, name+".yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %s\nlog: error\ntraces: {keep: %s}\nkeys: [{name: bench, secret: a-key-of-the-benchmark}]\n"+
		"upstreams: [{name: stub, kind: gemini, url: %q, keys: [an-api-key-of-the-benchmark]}]\n", d.data, keep, r.provider.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.command = exec.CommandContext(ctx, r.program, "serve", "--config", path)
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stderr, err := d.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.command.Start(); err != nil {
		return nil, err
	}
	r.daemons = append(r.daemons, d)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			d.url = url
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return d, nil
		}
	}
	return nil, errors.New("perigee serve ends without listening")
}

func (d *daemon) stop() {
	d.once.Do(func() {
		_ = d.command.Process.Signal(syscall.SIGTERM)
		_ = d.command.Wait()
	})
}

// failing is in requests that the provider refuses.
const failing = "this request fails"

// request returns a request of about size bytes that ends with a text.
func request(size int, end string) []byte {
	return []byte(`{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"` +
		strings.Repeat(`if err != nil {\n\treturn nil, fmt.Errorf(\"read: %w\", err)\n}\n`, size/62) + end + `"}]}`)
}

var body, smallBody, failingBody = request(100<<10, ""), request(1<<10, ""), request(100<<10, failing)

// call makes a call, and returns when the first byte came.
func (d *daemon) call(ctx context.Context, body []byte) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer a-key-of-the-benchmark")
	began := time.Now()
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		return 0, err
	}
	first := time.Since(began)
	rest, err := io.ReadAll(resp.Body)
	if fails := resp.StatusCode != http.StatusOK || !bytes.Contains(rest, []byte("[DONE]")); err == nil && fails != (&body[0] == &failingBody[0]) {
		err = fmt.Errorf("%s: %s", resp.Status, rest)
	}
	return first, err
}

// firstByte returns the median time to the first byte, in nanoseconds.
func (d *daemon) firstByte(ctx context.Context, calls int) (float64, error) {
	var list []float64
	for range calls {
		first, err := d.call(ctx, body)
		if err != nil {
			return 0, err
		}
		list = append(list, float64(first))
	}
	return median(list), nil
}

// load calls the daemon with several workers. It returns the calls per second, and the processor
// time of each in nanoseconds.
func (d *daemon) load(ctx context.Context, workers int, turn time.Duration) (rate, spent float64, err error) {
	began, used := time.Now(), d.processorTime()
	var calls atomic.Int64
	err = parallel(workers, func() (bool, error) {
		if time.Since(began) >= turn {
			return false, nil
		}
		_, err := d.call(ctx, body)
		calls.Add(1)
		return true, err
	})
	n := float64(calls.Load())
	return n / time.Since(began).Seconds(), float64(d.processorTime()-used) / n, err
}

// many makes so many calls, with several workers.
func (d *daemon) many(ctx context.Context, workers, calls int, body func(i int) []byte) error {
	var begun atomic.Int64
	return parallel(workers, func() (bool, error) {
		i := int(begun.Add(1)) - 1
		if i >= calls {
			return false, nil
		}
		_, err := d.call(ctx, body(i))
		return true, err
	})
}

// parallel runs a function in several goroutines until it returns false or an error.
func parallel(workers int, f func() (more bool, err error)) error {
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for failed.Load() == nil {
				more, err := f()
				if err != nil {
					failed.Store(&err)
				}
				if !more {
					return
				}
			}
		})
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// processorTime is what the daemon has used, in nanoseconds.
func (d *daemon) processorTime() int64 {
	var t unix.Timespec
	clock := ^int32(d.command.Process.Pid)<<3 | 2 // the clock of a process; see clock_getcpuclockid(3)
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return t.Nano()
}

// peak is the largest memory that the daemon has had.
func (d *daemon) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	_, err = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10, err
}

// count returns how many calls have a trace, and how many of them failed.
func (r *rig) count(d *daemon) (traced, failed int) {
	paths, _ := filepath.Glob(filepath.Join(d.data, "traces", "*", "*"))
	for _, path := range paths {
		t, err := trace.Open(filepath.Join(d.data, "traces"), filepath.Base(path)[len("150405.000-"):])
		if err != nil {
			continue
		}
		if traced++; t.Meta.Outcome == perigee.OutcomeFailed {
			failed++
		}
	}
	return traced, failed
}
