// Program chaos runs perigee as people do, while everything around it breaks, and checks each
// answer.
//
// Clients of all dialects ask through three upstreams for answers that consist of numbered chunks
// with the tag of the call, so that each one can tell whether it got its own answer, all of it,
// once. Meanwhile the provider resets, stalls, lies and refuses (lies.go), and the configuration,
// the disk, the database, the network and the process itself are disturbed (disturb.go). At the
// end, stored responses, usage rows, limits of keys, descriptors, goroutines and memory are
// checked, too. The exit status is 1 if anything happened that must not.
//
//	go run ./bench/chaos -for 10m
//
// One thing goes wrong at a time. With -soak, process, configuration, store, network and accounts
// are disturbed side by side, and the growth of memory and disk is measured:
//
//	go run ./bench/chaos -soak -for 1h
//
// It needs Linux. As root it has a file system of its own to fill, and PostgreSQL where Debian's
// server is installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"perigee/internal/testing/testenv"
)

type options struct {
	length         time.Duration
	seed           uint64
	binary, memory string
	keep, store    string
	without        string
	quiet, soak    bool
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long to drive traffic")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of everything that is drawn; 0 draws one")
	flag.StringVar(&o.binary, "binary", "", "test this perigee instead of one built from the source")
	flag.StringVar(&o.memory, "memory", "256MiB", "limits.memory, which must hold")
	flag.StringVar(&o.keep, "keep", "", "keep logs and configuration in this directory")
	flag.StringVar(&o.store, "store", "", "sqlite or postgres; empty: one after the other, if there is a PostgreSQL server")
	flag.StringVar(&o.without, "without", "", "leave out the disturbances whose name contains this")
	flag.BoolVar(&o.soak, "soak", false, "disturb all parts of the world side by side, and measure growth")
	flag.BoolVar(&o.quiet, "quiet", false, "print the summary and problems only")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errProblems = errors.New("something happened that must not; see above")

func (o options) run(ctx context.Context) error {
	fmt.Printf("chaos: seed %d, %v\n", o.seed, o.length)
	dir, err := os.MkdirTemp("", "perigee-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "perigee")
		if said, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/perigee").CombinedOutput(); err != nil {
			return fmt.Errorf("build perigee: %w: %s", err, said)
		}
	}
	stores := []string{"sqlite", "postgres"}
	switch {
	case o.store != "":
		stores = []string{o.store}
	case os.Getuid() != 0 || testenv.PostgresTools() == "":
		stores = stores[:1]
		fmt.Println("chaos: without PostgreSQL: no server is installed, or this is not root")
	}
	var tags atomic.Int64
	failed := false
	for _, store := range stores {
		part := o
		part.length = o.length / time.Duration(len(stores))
		r, err := part.phase(ctx, dir, store, &tags)
		if r != nil {
			r.report(os.Stdout, store)
			failed = failed || len(r.problems) > 0
		}
		if err != nil {
			return err
		}
	}
	if failed {
		return fmt.Errorf("%w (seed %d)", errProblems, o.seed)
	}
	return nil
}

// phase drives one perigee on one kind of store.
func (o options) phase(ctx context.Context, dir, store string, tags *atomic.Int64) (*run, error) {
	dir = filepath.Join(dir, store)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, o, dir, store)
	if err != nil {
		return nil, err
	}
	defer func() {
		w.close()
		if o.keep != "" {
			_ = os.CopyFS(filepath.Join(o.keep, store), os.DirFS(dir))
		}
	}()
	r := &run{world: w, client: newClient(w.url()), seed: o.seed, tags: tags}
	if err := r.baseline(ctx); err != nil {
		return r, err
	}
	say := func(what string) {
		if !o.quiet {
			fmt.Printf("chaos: %s %s\n", time.Now().Format(clockForm), what)
		}
	}
	if err := r.drive(ctx, o.length, say); err != nil {
		return r, err
	}
	r.verify(ctx)
	if o.soak {
		r.verifyGrowth()
	}
	return r, r.findLeaks(ctx)
}
