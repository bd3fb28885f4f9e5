// Program bench measures what perigee costs: the time it adds to a call, the CPU it spends on one, and what it
// weighs. It puts the same fixed provider behind perigee and behind a bare httputil.ReverseProxy, asks all three
// in turn, and compares; so most of what it says is a ratio of things measured in one run on one machine.
//
// It is run by people and by make bench, not by go test: what it finds depends on the machine and on what else
// the machine does. It wants Linux, whose /proc says what a process has used. Provider, proxy and perigee are
// processes of their own, on loopback, and end with this one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A plan says how long to measure.
type plan struct {
	rounds         int           // of every comparison
	turn           time.Duration // how long one target is asked in one round
	translatedTurn time.Duration // the same where dialects are compared
	starts         int
	settle         time.Duration // between a start and the look at its memory
	idle           time.Duration // between the load and the look at what stayed
	growthRuns     int           // processes for each size
	growthLoad     int           // bytes sent to each of them, roughly
	allocSizes     []int         // bodies whose allocations are counted
	limit          time.Duration // for all measurements together: past it something hangs
}

var (
	fullPlan = plan{
		rounds: 9, turn: 500 * time.Millisecond, translatedTurn: 350 * time.Millisecond, starts: 20, settle: time.Second, idle: 10 * time.Second,
		growthRuns: 3, growthLoad: 100 << 20, allocSizes: []int{1 << 10, 100 << 10, 1 << 20}, limit: 10 * time.Minute,
	}
	shortPlan = plan{
		rounds: 5, turn: 120 * time.Millisecond, translatedTurn: 120 * time.Millisecond, starts: 5, settle: 500 * time.Millisecond, idle: 2 * time.Second,
		growthRuns: 1, growthLoad: 30 << 20, allocSizes: []int{100 << 10}, limit: 3 * time.Minute,
	}
)

// errBroken says that a promise did not hold; the report has told which.
var errBroken = errors.New("a promise is broken")

func main() {
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			exit(play(os.Args[2:]))
		}
	}
	short := flag.Bool("short", false, "measure for less than a minute instead of almost five; the figures are rougher")
	check := flag.Bool("check", false, "exit with status 1 when a promise is broken")
	write := flag.Bool("write", false, "put the report into bench/README.md, too")
	binary := flag.String("binary", "", "measure this perigee instead of one built from the source")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen := fullPlan
	if *short {
		chosen = shortPlan
	}
	broken, err := run(ctx, chosen, *short, *binary, *write)
	if err == nil && broken && *check {
		err = errBroken
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run measures everything and prints the report. It leaves neither processes nor files behind.
func run(ctx context.Context, plan plan, short bool, binary string, write bool) (broken bool, err error) {
	dir, err := os.MkdirTemp("", "perigee-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	b := &bench{plan: plan, dir: dir, binary: binary, report: report{machine: describeMachine(), short: short}}
	defer b.stopAll()
	if err := b.build(ctx); err != nil {
		return false, fmt.Errorf("build perigee: %w", err)
	}
	if err := b.measure(ctx); err != nil {
		return false, err
	}
	text := b.report.markdown()
	fmt.Print(text)
	if write {
		if err := writeReadme(ctx, text); err != nil {
			return false, err
		}
	}
	return b.report.broken(), nil
}

// A bench is one run of the measurements.
type bench struct {
	plan     plan
	dir      string // for data directories and the binary; removed at the end
	binary   string
	children []*process
	provider *process
	report   report
}

// measure takes the steps in the order in which they disturb each other least: what needs a fresh process and a
// quiet machine first, the heavy bodies last.
func (b *bench) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.plan.limit)
	defer cancel()
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"starting", b.measureStart},
		{"counting allocations", b.measureAllocations},
		{"preparing", b.measurePreparation},
		{"comparing", b.measureCost},
		{"growing", b.measureGrowth},
	}
	for _, step := range steps {
		fmt.Fprintf(os.Stderr, "bench: %s\n", step.name)
		if err := step.run(ctx); err != nil {
			if ctx.Err() != nil { // then whatever failed did so because we stopped it
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
