package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"perigee/bench/internal/measure"
)

// buildLimit is long enough for a machine that has never compiled SQLite.
const buildLimit = 15 * time.Minute

// build makes the binary that is measured, the way a release is built, and looks at its size.
func (b *bench) build(ctx context.Context) error {
	if b.binary == "" {
		fmt.Fprintln(os.Stderr, "bench: building perigee; the first time this takes a few minutes")
		ctx, cancel := context.WithTimeout(ctx, buildLimit)
		defer cancel()
		b.binary = filepath.Join(b.dir, "perigee")
		cmd := exec.CommandContext(ctx, "go", "build", "-pgo=auto", "-trimpath", "-ldflags", "-s -w", "-o", b.binary, "perigee/cmd/perigee")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	info, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	b.report.weight.binary = info.Size()
	return nil
}

// A weight is what perigee takes before it does anything.
type weight struct {
	binary     int64
	firstStart start // with an empty data directory
	laterStart start
	idle       int64 // resident after a start
	afterLoad  int64 // resident after the comparison and some quiet
}

// A start is what perigee takes from exec until it listens.
type start struct {
	took time.Duration
	cpu  time.Duration // user and system, of all threads
}

// medianStart returns the medians of starts.
func medianStart(all []start) start {
	took, cpu := make([]time.Duration, len(all)), make([]time.Duration, len(all))
	for i, s := range all {
		took[i], cpu[i] = s.took, s.cpu
	}
	return start{measure.Median(took), measure.Median(cpu)}
}

// startPerigee runs perigee in front of the provider, with its data in a directory of its own or a
// given one.
func (b *bench) startPerigee(ctx context.Context, data string) (*measure.Process, error) {
	return b.startPerigeeAt(ctx, data, "http://"+b.provider.Addr)
}

// startPerigeeAt is the same with a provider at any URL, and with more in perigee's environment.
func (b *bench) startPerigeeAt(ctx context.Context, data, url string, env ...string) (*measure.Process, error) {
	return b.startPerigeeWith(ctx, data, "warn", b.upstreamConfig(url), env...)
}

// upstreamConfig is the configuration of the provider at a URL.
func (b *bench) upstreamConfig(url string) string {
	return fmt.Sprintf("{name: provider, kind: gemini, url: %q, keys: [bench-key-1234]}", url)
}

// noTraces is a log for startPerigeeWith, with which no call is traced.
const noTraces = "warn\ntraces: {keep: 0}"

// startPerigeeWith runs perigee with one upstream. log is the value of that key, and the lines after
// it.
func (b *bench) startPerigeeWith(ctx context.Context, data, log, upstream string, env ...string) (*measure.Process, error) {
	config, err := writeConfig(data, log, upstream)
	if err != nil {
		return nil, err
	}
	return b.spawnWith(ctx, env, "perigee", b.binary, "serve", "--config", config)
}

// writeConfig writes perigee's configuration into a directory, unless there is one already.
func writeConfig(data, log, upstream string) (path string, err error) {
	path = filepath.Join(data, "config.yaml")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata_dir: %q\nlog: %s\nupstreams:\n  - %s\n", filepath.Join(data, "data"), log, upstream)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// startProvider starts the provider that everything else is measured with.
func (b *bench) startProvider(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.provider, err = b.spawn(ctx, "provider", self, roleProvider)
	return err
}

// measureStart starts perigee again and again, in turns with an empty data directory and with the
// one of the start before.
func (b *bench) measureStart(ctx context.Context) error {
	var first, later []start
	for range b.plan.starts {
		data, err := os.MkdirTemp(b.dir, "start-")
		if err != nil {
			return err
		}
		for _, starts := range []*[]start{&first, &later} {
			p, err := b.startPerigee(ctx, data)
			if err != nil {
				return err
			}
			if p.ReadyCPU == 0 {
				return errors.New("the kernel does not count the CPU of a process (no schedstat)")
			}
			*starts = append(*starts, start{p.Ready, p.ReadyCPU})
			if err := firstAnswer(ctx, p, gemini, quickModel); err != nil {
				return err
			}
			p.Stop()
		}
	}
	b.report.weight.firstStart, b.report.weight.laterStart = medianStart(first), medianStart(later)
	return b.measureIdle(ctx)
}

// firstAnswer makes sure that a process that listens also answers a model in a dialect.
func firstAnswer(ctx context.Context, p *measure.Process, d *dialect, model string) error {
	c, err := dial(ctx, p.Addr, newQuestion(d, model, 1000))
	if err != nil {
		return err
	}
	defer c.conn.Close()
	_, err = c.ask()
	return err
}

// measureIdle looks at the memory of a perigee before its first request.
func (b *bench) measureIdle(ctx context.Context) error {
	data, err := os.MkdirTemp(b.dir, "idle-")
	if err != nil {
		return err
	}
	p, err := b.startPerigee(ctx, data)
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := pause(ctx, b.plan.settle); err != nil {
		return err
	}
	b.report.weight.idle, err = p.Memory("VmRSS")
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
