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

func newRig(ctx context.Context) (*rig, error) {
	dir, err := os.MkdirTemp("", "perigee-bench-trace-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, program: filepath.Join(dir, "perigee")}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", r.program, "./cmd/perigee").CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("go build, in the directory of the module: %w: %s", err, out)
	}
	r.provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if strings.Contains(req.URL.Path, "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+answer+"\r\n\r\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	return r, nil
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

// serve starts a daemon that keeps so many bytes of traces.
func (r *rig) serve(ctx context.Context, name string, keep int64) (*daemon, error) {
	d := &daemon{data: filepath.Join(r.dir, name), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	path := filepath.Join(r.dir, name+".yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %s\nlog: error\ntraces: {keep: %d}\nkeys: [{name: bench, secret: a-key-of-the-benchmark}]\n"+
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

// body is a request of 100 KB.
var body = []byte(`{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"` +
	strings.Repeat(`if err != nil {\n\treturn nil, fmt.Errorf(\"read: %w\", err)\n}\n`, 100<<10/62) + `"}]}`)

// call makes a call, and returns when the first byte came.
func (d *daemon) call(ctx context.Context) (time.Duration, error) {
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
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(rest, []byte("[DONE]"))) {
		err = fmt.Errorf("%s: %s", resp.Status, rest)
	}
	return first, err
}

// firstByte returns the median time to the first byte, in nanoseconds.
func (d *daemon) firstByte(ctx context.Context, calls int) (float64, error) {
	var list []float64
	for range calls {
		first, err := d.call(ctx)
		if err != nil {
			return 0, err
		}
		list = append(list, float64(first))
	}
	return median(list), nil
}

// load returns the calls per second of several workers.
func (d *daemon) load(ctx context.Context, workers int, turn time.Duration) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	began := time.Now()
	for range workers {
		wait.Go(func() {
			for time.Since(began) < turn && failed.Load() == nil {
				if _, err := d.call(ctx); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}
