//go:build linux

// Command trace measures what traces cost: two daemons, one with traces and one without, are called
// in turns with bodies of 100 KB, and the medians of the pairs are compared. It also measures the
// memory of a burst of small calls, counts the calls that are traced under load and those that fail,
// and makes calls while the disk is full, for which it mounts a small tmpfs if it may. Linux only.
//
//	go run ./bench/trace              # a table
//	go run ./bench/trace -check       # the exit code is 1 if a limit is exceeded
//	go run ./bench/trace -program F   # measure a perigee that is built already
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
	maxProcessor  = 1.15                   // times the processor time of a call without traces
	minThroughput = 0.90                   // of the calls per second without traces
	maxFirstByte  = 100 * time.Microsecond // that traces add at p50
	maxResident   = 90e6                   // bytes, after burstCalls calls of 1 KB
	keep          = 20 << 20
)

const (
	burstCalls   = 20_000
	burstWorkers = 16
	loadWorkers  = 8
	failingPart  = 50 // one call of so many fails
)

func main() {
	check := flag.Bool("check", false, "exit with 1 if a limit is exceeded")
	pairs := flag.Int("pairs", 20, "pairs of measurements")
	turn := flag.Duration("turn", 500*time.Millisecond, "how long one daemon is called in one turn")
	program := flag.String("program", "", "the perigee to measure; empty builds it")
	only := flag.String("only", "", "one part: compare, burst, sustained or disk; empty measures all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kept, err := measure(ctx, *program, *only, max(*pairs, 1), *turn)
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
	}
	if err != nil || *check && !kept {
		stop()
		os.Exit(1)
	}
}

// measure prints what was measured, and reports whether the limits were kept.
func measure(ctx context.Context, program, only string, pairs int, turn time.Duration) (kept bool, err error) {
	r, err := newRig(ctx, program)
	if err != nil {
		return false, err
	}
	defer r.close()
	kept = true
	for _, part := range []struct {
		name    string
		measure func(context.Context) (bool, error)
	}{
		{"compare", func(ctx context.Context) (bool, error) { return r.compare(ctx, pairs, turn) }},
		{"burst", r.burst},
		{"sustained", r.sustained},
		{"disk", r.fullDisk},
	} {
		if only != "" && part.name != only {
			continue
		}
		ok, err := part.measure(ctx)
		if err != nil {
			return false, err
		}
		kept = kept && ok
	}
	return kept, nil
}

// compare compares calls with and without traces.
func (r *rig) compare(ctx context.Context, pairs int, turn time.Duration) (kept bool, err error) {
	on, err := r.serve(ctx, "on", fmt.Sprint(keep))
	if err != nil {
		return false, err
	}
	off, err := r.serve(ctx, "off", "0")
	if err != nil {
		return false, err
	}
	var processor, rates, added []float64
	for i := range pairs + 1 {
		var spent, rate, first [2]float64
		for _, n := range []int{i % 2, 1 - i%2} { // each of them is first in half of the pairs
			d := []*daemon{off, on}[n]
			if first[n], err = d.firstByte(ctx, 20); err != nil {
				return false, err
			}
			if rate[n], spent[n], err = d.load(ctx, loadWorkers, turn); err != nil {
				return false, err
			}
		}
		if i == 0 {
			continue // connections
		}
		processor = append(processor, spent[1]/spent[0])
		rates, added = append(rates, rate[1]/rate[0]), append(added, first[1]-first[0])
	}
	cpu, throughput, late := median(processor), median(rates), time.Duration(median(added))
	calls, size := trace.Size(filepath.Join(on.data, "traces"))
	fmt.Printf("processor time of a call with traces over without, bodies of 100 KB, %d at once, median of %d pairs of %s: %.3f (at most %.2f)\n",
		loadWorkers, pairs, turn, cpu, maxProcessor)
	fmt.Printf("calls per second with traces over without: %.3f (at least %.2f)\n", throughput, minThroughput)
	fmt.Printf("added to the first byte at p50, one after the other: %s (at most %s)\n", late.Round(time.Microsecond), maxFirstByte)
	fmt.Printf("traces after the load: %d calls, %.1f MiB (at most %d MiB and what is open)\n", calls, float64(size)/(1<<20), keep>>20)
	on.stop()
	off.stop()
	return cpu <= maxProcessor && throughput >= minThroughput && late <= maxFirstByte && calls > 0 && size <= keep*11/10, nil
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// burst makes many small calls, with the default configuration, and looks at the memory.
func (r *rig) burst(ctx context.Context) (kept bool, err error) {
	d, err := r.serve(ctx, "burst", "200MiB")
	if err != nil {
		return false, err
	}
	defer d.stop()
	if err := d.many(ctx, burstWorkers, burstCalls, func(int) []byte { return smallBody }); err != nil {
		return false, err
	}
	resident, err := d.peak()
	if err != nil {
		return false, err
	}
	fmt.Printf("peak memory of %d calls of 1 KB, %d at once: %.1f MB (at most %.1f)\n", burstCalls, burstWorkers, float64(resident)/1e6, maxResident/1e6)
	return resident <= maxResident, nil
}

// sustained counts the calls that are traced while perigee is busy, and checks that all that fail
// are.
func (r *rig) sustained(ctx context.Context) (kept bool, err error) {
	d, err := r.serve(ctx, "sustained", "200MiB")
	if err != nil {
		return false, err
	}
	defer d.stop()
	const calls = 4000
	began := time.Now()
	err = d.many(ctx, loadWorkers, calls, func(i int) []byte {
		if i%failingPart == 0 {
			return failingBody
		}
		return body
	})
	if err != nil {
		return false, err
	}
	took := time.Since(began)
	d.stop() // writes what is pending
	traced, failed := r.count(d)
	fmt.Printf("sustained load, bodies of 100 KB, %d at once: %d of %d calls traced in %.1f s (%.0f per second), %d of %d that failed\n",
		loadWorkers, traced, calls, took.Seconds(), float64(traced)/took.Seconds(), failed, calls/failingPart)
	return failed == calls/failingPart && traced > failed, nil
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
	d, err := r.serve(ctx, "full", "1GiB")
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
