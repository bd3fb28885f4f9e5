package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// profileFor is how long the profile for the compiler is recorded.
const profileFor = 40 * time.Second

// profilePath is where the compiler looks for the profile, from this directory.
const profilePath = "../cmd/perigee/default.pgo"

// recordProfile records what perigee spends its time on while agents use all dialects, and writes
// it to where the compiler takes it from.
func (b *bench) recordProfile(ctx context.Context) error {
	source, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(b.dir, "profile-")
	if err != nil {
		return err
	}
	ours, err := b.startPerigeeWith(ctx, data, "warn", b.allUpstreams())
	if err != nil {
		return err
	}
	defer ours.Stop()

	loadCtx, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- askAll(loadCtx, ours.Addr) }()
	doctor := exec.CommandContext(ctx, b.binary, "doctor", "--profile", profileFor.String(), "--config", filepath.Join(data, "config.yaml"))
	doctor.Dir, doctor.Env = data, measure.ChildEnv(b.dir)
	out, err := doctor.CombinedOutput()
	stop()
	if err = errors.Join(err, <-loaded); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(data, "perigee-profile-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("%d archives instead of one: %s", len(archives), out)
	}
	profile, err := fromArchive(archives[0], "cpu.pprof")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(source, profilePath), profile, 0o644)
}

// allUpstreams is the configuration of the provider as an upstream of each kind. Those of the wires
// are named after the path.
func (b *bench) allUpstreams() string {
	all := b.upstreamConfig("http://" + b.provider.Addr)
	for _, wr := range wires {
		all += "\n  - " + strings.Replace(fmt.Sprintf(wr.upstream, b.provider.Addr), "name: provider", "name: "+path.Base(wr.path), 1)
	}
	return all
}

// askAll asks in turns of all dialects, upstreams and sizes until ctx ends.
func askAll(ctx context.Context, addr string) error {
	type asked struct {
		dialect *dialect
		model   string
	}
	all := []asked{{geminiLong, "provider/" + longModel}, {chatLong, "provider/" + longModel}}
	for _, d := range dialects {
		all = append(all, asked{d, "provider/" + quickModel})
		for _, wr := range wires {
			all = append(all, asked{wr.asked(d), path.Base(wr.path) + "/" + wr.model})
		}
	}
	for ctx.Err() == nil {
		for _, size := range []int{1 << 10, 100 << 10, 100 << 10, 1 << 20} {
			for _, q := range all {
				if err := askFor(ctx, 200*time.Millisecond, addr, newQuestion(q.dialect, q.model, size)); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	}
	return nil
}

// askFor asks four at a time.
func askFor(ctx context.Context, d time.Duration, addr string, q question) error {
	clients, err := dialCrowd(ctx, 4, addr, q)
	if err != nil {
		return err
	}
	defer clients.close()
	_, _, err = clients.ask(ctx, d, turnCalls)
	return err
}

// fromArchive returns a file of a .tar.gz archive.
func fromArchive(path, name string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		head, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", name, path, err)
		}
		if head.Name == name {
			return io.ReadAll(files)
		}
	}
}
