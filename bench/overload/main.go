//go:build linux

// Command overload shows that perigee stays within limits.memory and goes on answering small calls
// while clients and a provider try to fill its memory. It starts the built binary, one process for
// each case, against a provider of its own, and samples the process's peak (VmHWM) while a small
// call is sent every 100 ms. Linux only.
//
//	go run ./bench/overload                    # builds and measures this tree
//	go run ./bench/overload -binary OLD        # measures another binary
//
// The exit code is 1 if a peak is beyond 1.25 times the budget, a small call failed, or a status
// came that is neither an answer nor a proper refusal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"perigee/internal/store/config"
)

// most is how far beyond the budget a peak may be, as a factor: the budget is a soft limit.
const most = 1.25

func main() {
	memory := flag.String("memory", "256MiB", "limits.memory of the process")
	binary := flag.String("binary", "", "measure this binary instead of the one that is built from this tree")
	only := flag.String("only", "", "run the cases whose names contain this text")
	share := flag.Float64("share", 1, "run this share of each case's load, such as 0.25")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, *memory, *binary, *only, *share)
	if err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, memory, binary, only string, share float64) (ok bool, err error) {
	budget, err := config.ParseSize(memory)
	if err != nil {
		return false, fmt.Errorf("-memory: %w", err)
	}
	dir, err := os.MkdirTemp("", "overload-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary == "" {
		binary = filepath.Join(dir, "perigee")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/perigee")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return false, fmt.Errorf("build: %w", err)
		}
	}
	provider, err := startProvider()
	if err != nil {
		return false, err
	}
	defer provider.stop()
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "case\tpeak\tpeak/budget\tanswered\tshed 503\tother\tsmall ok\tsmall failed\tslowest small\ttook")
	ok = true
	for _, c := range cases {
		if !strings.Contains(c.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "overload: %s\n", c.name)
		r, err := measure(ctx, c, rig{dir: dir, binary: binary, memory: int64(budget), provider: provider.addr, share: share})
		if err != nil {
			return false, errors.Join(fmt.Errorf("%s: %w", c.name, err), out.Flush())
		}
		ok = r.print(out, c.name, int64(budget)) && ok
	}
	return ok, out.Flush()
}

// A result is what one case did to the process.
type result struct {
	peak     int64
	statuses map[string]int // of the case's own requests
	small    smallCalls
	took     time.Duration
}

// fine are the statuses that a request of a case may get beside 200 and 503. "ended" is a stream
// that was ended for lack of memory, and "closed" a connection that ended without an answer, as
// those of unfinished heads and bodies do when the case ends.
var fine = []string{"429", "413", "400", "431", "ended", "closed"}

// print writes a row, and reports whether the case went as it should.
func (r *result) print(out *tabwriter.Writer, name string, budget int64) bool {
	ok := float64(r.peak) <= most*float64(budget) && r.small.failed == 0
	other := ""
	for _, status := range slices.Sorted(maps.Keys(r.statuses)) {
		if status == "200" || status == "503" {
			continue
		}
		other += fmt.Sprintf(" %s×%d", status, r.statuses[status])
		ok = ok && slices.Contains(fine, status)
	}
	mark := ""
	if !ok {
		mark = " FAILED"
	}
	fmt.Fprintf(out, "%s%s\t%d MB\t%.2f\t%d\t%d\t%s\t%d\t%d\t%v\t%v\n", name, mark, r.peak>>20, float64(r.peak)/float64(budget),
		r.statuses["200"], r.statuses["503"], strings.TrimSpace(other), r.small.answered, r.small.failed,
		r.small.slowest.Round(time.Millisecond), r.took.Round(100*time.Millisecond))
	for _, why := range r.small.reasons {
		fmt.Fprintf(os.Stderr, "overload: %s: small call: %s\n", name, why)
	}
	return ok
}
