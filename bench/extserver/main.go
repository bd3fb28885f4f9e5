//go:build linux

// Command extserver measures the Extension Server beside a plain handler of net/http: unary calls,
// the memory of open subscriptions, and the time until a push has reached all of them. Both servers
// are processes of their own, on loopback, and are measured in turns; all clients are in this
// process. The limit on that time is for a machine that does little else: the plain handler shows
// what the machine can do at the moment. Linux only.
//
//	go run ./bench/extserver              # a table
//	go run ./bench/extserver -check       # the exit code is 1 if a limit is exceeded
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"
)

// What is promised for maxSubscriptions.
const (
	maxSubscriptions = 1000
	maxGrowth        = 64 << 20 // bytes over the idle process
	maxPush          = 50 * time.Millisecond
)

// A plan says how much is measured.
type plan struct {
	turn   time.Duration // of one target in one round
	rounds int
	pushes int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "role" {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "extserver:", err)
			os.Exit(1)
		}
		return
	}
	check := flag.Bool("check", false, "exit with 1 if a limit is exceeded")
	p := plan{}
	flag.DurationVar(&p.turn, "turn", 300*time.Millisecond, "how long one server is called in one round")
	flag.IntVar(&p.rounds, "rounds", 5, "rounds of unary calls")
	flag.IntVar(&p.pushes, "pushes", 30, "pushes to all subscriptions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	kept, err := measure(ctx, p)
	if err != nil {
		fmt.Fprintln(os.Stderr, "extserver:", err)
	}
	if err != nil || *check && !kept {
		stop()
		os.Exit(1)
	}
}

// measure prints the tables, and reports whether the limits were kept.
func measure(ctx context.Context, p plan) (kept bool, err error) {
	bare, err := start(ctx, "bare")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	ours, err := start(ctx, "extserver")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()

	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "unary calls\tnet/http, per second\textension server\tratio\tnet/http, CPU\textension server\tratio")
	for _, codec := range []string{"proto", "json"} {
		for _, connections := range []int{1, 8} {
			row, err := compare(p, bare, ours, codec, connections)
			if err != nil {
				return false, err
			}
			fmt.Fprintf(out, "%s, connections: %d\t%.0f\t%.0f\t%.2f\t%.0f µs\t%.0f µs\t%.2f\n", strings.ToUpper(codec), connections,
				row[0].rate, row[1].rate, row[1].rate/row[0].rate, row[0].cpu, row[1].cpu, row[1].cpu/row[0].cpu)
		}
	}
	costs, err := subscriptions(ctx, p, []*process{bare, ours})
	if err != nil {
		return false, err
	}
	plain, found := costs[0], costs[1]
	growth := found.full - found.idle
	fmt.Fprintf(out, "\n%d subscriptions\tnet/http\textension server\tlimit\t\t\t\n", maxSubscriptions)
	fmt.Fprintf(out, "idle memory\t%.1f MB\t%.1f MB\t\t\t\t\n", megabytes(plain.idle), megabytes(found.idle))
	fmt.Fprintf(out, "more memory when open\t%.1f MB\t%.1f MB\t%.0f MB\t%s\t\t\n", megabytes(plain.full-plain.idle), megabytes(growth),
		megabytes(maxGrowth), result(growth <= maxGrowth))
	fmt.Fprintf(out, "push to the last, median\t%.1f ms\t%.1f ms\t%.0f ms\t%s\t\t\n", milliseconds(plain.median),
		milliseconds(found.median), milliseconds(maxPush), result(found.median <= maxPush))
	fmt.Fprintf(out, "push to the last, slowest\t%.1f ms\t%.1f ms\t\t\t\t\n", milliseconds(plain.slowest), milliseconds(found.slowest))
	fmt.Fprintf(out, "CPU of a push\t%.1f ms\t%.1f ms\t\t\t\t\n", milliseconds(plain.cpu), milliseconds(found.cpu))
	return growth <= maxGrowth && found.median <= maxPush, out.Flush()
}

func result(kept bool) string {
	if kept {
		return "kept"
	}
	return "EXCEEDED"
}

func megabytes(n int64) float64            { return float64(n) / (1 << 20) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
