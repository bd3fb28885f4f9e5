//go:build linux

// Command trace measures what traces cost: two daemons, one with traces and one without, are called
// in turns with bodies of 100 KB, and the medians of the pairs are compared. It also looks at the
// size of the ring under load, and at calls while the disk is full, for which it mounts a small
// tmpfs if it may. Linux only.
//
//	go run ./bench/trace              # a table
//	go run ./bench/trace -check       # the exit code is 1 if a limit is exceeded
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"perigee/internal/observe/trace"
)

// What is promised.
const (
	minThroughput = 0.90                   // of the calls per second without traces
	maxFirstByte  = 100 * time.Microsecond // that traces add at p50
	keep          = 20 << 20
)

func main() {
	check := flag.Bool("check", false, "exit with 1 if a limit is exceeded")
	pairs := flag.Int("pairs", 9, "pairs of measurements")
	turn := flag.Duration("turn", time.Second, "how long one daemon is called in one turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kept, err := measure(ctx, max(*pairs, 1), *turn)
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
	}
	if err != nil || *check && !kept {
		stop()
		os.Exit(1)
	}
}

// measure prints what was measured, and reports whether the limits were kept.
func measure(ctx context.Context, pairs int, turn time.Duration) (kept bool, err error) {
	r, err := newRig(ctx)
	if err != nil {
		return false, err
	}
	defer r.close()
	on, err := r.serve(ctx, "on", keep)
	if err != nil {
		return false, err
	}
	off, err := r.serve(ctx, "off", 0)
	if err != nil {
		return false, err
	}
	var ratios, added []float64
	for i := range pairs + 1 {
		var rate, first [2]float64
		for _, n := range []int{i % 2, 1 - i%2} { // each of them is first in half of the pairs
			d := []*daemon{off, on}[n]
			if first[n], err = d.firstByte(ctx, 100); err != nil {
				return false, err
			}
			if rate[n], err = d.load(ctx, 8, turn); err != nil {
				return false, err
			}
		}
		if i == 0 {
			continue // connections, and the burst that traces may use at once
		}
		ratios, added = append(ratios, rate[1]/rate[0]), append(added, first[1]-first[0])
	}
	throughput, late := median(ratios), time.Duration(median(added))
	calls, size := trace.Size(filepath.Join(on.data, "traces"))
	fmt.Printf("calls per second with traces over without, bodies of 100 KB, 8 at once, median of %d pairs: %.3f (at least %.2f)\n",
		pairs, throughput, minThroughput)
	fmt.Printf("added to the first byte at p50, one after the other, median of pairs: %s (at most %s)\n", late.Round(time.Microsecond), maxFirstByte)
	fmt.Printf("traces after the load: %d calls, %.1f MiB (at most %d MiB and what is open)\n", calls, float64(size)/(1<<20), keep>>20)
	kept = throughput >= minThroughput && late <= maxFirstByte && calls > 0 && size <= keep*11/10
	full, err := r.fullDisk(ctx)
	return kept && full, err
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// fullDisk makes calls while there is 1 MiB of room for traces besides what they leave to the
// database. It is true if all of them succeed, or if nothing can be mounted.
func (r *rig) fullDisk(ctx context.Context) (kept bool, err error) {
	traces := filepath.Join(r.dir, "full", "traces")
	if err := os.MkdirAll(traces, 0o700); err != nil {
		return false, err
	}
	if err := syscall.Mount("tmpfs", traces, "tmpfs", 0, fmt.Sprint("size=", trace.Reserve+1<<20)); err != nil {
		fmt.Printf("full disk: not measured, a tmpfs cannot be mounted (%v)\n", err)
		return true, nil
	}
	defer func() { _ = syscall.Unmount(traces, syscall.MNT_DETACH) }()
	d, err := r.serve(ctx, "full", 1<<30)
	if err != nil {
		return false, err
	}
	defer d.stop()
	const calls = 200
	if _, err = d.firstByte(ctx, calls); err != nil {
		return false, fmt.Errorf("a call fails while the disk is full: %w", err)
	}
	_, size := trace.Size(traces)
	fmt.Printf("full disk: %d of %d calls succeed, %d KiB of 1024 are used by traces\n", calls, calls, size>>10)
	return size > 512<<10, nil
}
