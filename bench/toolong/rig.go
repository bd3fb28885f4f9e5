package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const key = "a-key-of-the-benchmark"

// A rig is a perigee with a simulated Ollama as its only upstream, each a process of its own.
type rig struct {
	dir       string
	simulator string // its address
	url       string // of perigee
	processes []*exec.Cmd
}

func (r *rig) close() {
	for _, p := range r.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}
	_ = os.RemoveAll(r.dir)
}

// start starts both from a program, which it builds if the path is empty.
func start(ctx context.Context, program string) (r *rig, err error) {
	r = &rig{}
	if r.dir, err = os.MkdirTemp("", "perigee-bench-toolong-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if program == "" {
		program = filepath.Join(r.dir, "perigee")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/perigee").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build, in the directory of the module: %w: %s", err, out)
		}
	}
	if r.simulator, err = r.run(ctx, program, "simulate", "--listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	config := filepath.Join(r.dir, "config.yaml")
	text := fmt.Sprintf("data_dir: %s\nkeys: [{name: bench, secret: %s}]\nupstreams: [{name: local, kind: ollama, url: %q}]\n", filepath.Join(r.dir, "data"), key, r.simulator)
	if err = os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r.url, err = r.run(ctx, program, "serve", "--config", config, "--listen", "127.0.0.1:0")
	return r, err
}

// run starts a process, and returns the address at which it listens.
func (r *rig) run(ctx context.Context, program string, args ...string) (url string, err error) {
	p := exec.CommandContext(ctx, program, args...)
	p.Env = append(os.Environ(), "HOME="+r.dir, "PERIGEE_KEYRING=off")
	stderr, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return "", err
	}
	r.processes = append(r.processes, p)
	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); said.WriteString(lines.Text() + "\n") {
		if _, at, ok := strings.Cut(lines.Text(), " on http://"); ok {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return "http://" + strings.Fields(at)[0], nil
		}
	}
	return "", fmt.Errorf("perigee %s ends without listening: %s", args[0], said.String())
}

// asked counts the requests to Ollama: for answers, and those that look at a model.
func (r *rig) asked(ctx context.Context) (answers, looks int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.simulator+"/simulator/calls", http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Calls []struct{ Path string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return 0, 0, err
	}
	for _, c := range list.Calls {
		switch c.Path {
		case "/api/chat", "/api/generate":
			answers++
		case "/api/show", "/api/ps":
			looks++
		}
	}
	if looks == 0 {
		return 0, 0, fmt.Errorf("the simulator was not asked for the model: %+v", list)
	}
	return answers, looks, nil
}
