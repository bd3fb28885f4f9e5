// Program bench measures what perigee costs: the time it adds to a call, the CPU it spends on one,
// and what it weighs. It puts the same fixed provider behind perigee and behind a bare
// httputil.ReverseProxy, asks all three in turn, and compares; so most of what it says is a ratio
// of things measured in one run on one machine. With -peers it compares perigee with other gateways
// in the same way, and with nothing else.
//
// It is run by people and by make bench, not by go test: what it finds depends on the machine and
// on what else the machine does. It wants Linux, whose /proc says what a process has used.
// Provider, proxy and perigee are processes of their own, on loopback, and end with this one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"perigee/bench/internal/measure"
)

// A plan says how long to measure.
type plan struct {
	rounds         int           // of every comparison
	lateRounds     int           // of slow streams
	turn           time.Duration // how long one target is asked in one round
	translatedTurn time.Duration // the same where dialects are compared
	caseTurn       time.Duration // the same for the cases beside ReverseProxy
	starts         int
	settle         time.Duration // between a start and the look at its memory
	idle           time.Duration // between the load and the look at what stayed
	growthRuns     int           // processes for each size
	growthLoad     int           // bytes sent to each of them, roughly
	allocSizes     []int         // bodies whose allocations are counted
	shapeSizes     []int         // bodies of many small pieces
	streams        int           // quiet ones at the same time
	peerTurn       time.Duration // like turn, where other gateways are compared; some make few calls in that time
	limit          time.Duration // for all measurements together: past it something hangs
}

var (
	fullPlan = plan{
		rounds: 9, lateRounds: 9, turn: 500 * time.Millisecond, translatedTurn: 350 * time.Millisecond, caseTurn: 250 * time.Millisecond, starts: 20, settle: time.Second, idle: 10 * time.Second,
		growthRuns: 3, growthLoad: 100 << 20, allocSizes: []int{1 << 10, 100 << 10, 1 << 20},
		shapeSizes: []int{16 << 20, 2 << 20, 60 << 20}, streams: openStreams, peerTurn: time.Second, limit: 60 * time.Minute,
	}
	shortPlan = plan{
		rounds: 5, lateRounds: 3, turn: 120 * time.Millisecond, translatedTurn: 120 * time.Millisecond, caseTurn: 120 * time.Millisecond, starts: 5, settle: 500 * time.Millisecond, idle: 2 * time.Second,
		growthRuns: 1, growthLoad: 30 << 20, allocSizes: []int{100 << 10},
		shapeSizes: []int{8 << 20}, streams: 1000, peerTurn: 250 * time.Millisecond, limit: 15 * time.Minute,
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
	var o options
	flag.BoolVar(&o.short, "short", false, "measure for about a minute; the figures are rougher")
	check := flag.Bool("check", false, "exit with status 1 when a promise is broken")
	flag.BoolVar(&o.write, "write", false, "put the report into bench/README.md, too")
	flag.StringVar(&o.binary, "binary", "", "measure this perigee instead of one built from the source")
	flag.StringVar(&o.against, "against", "", "compare with this older perigee, side by side, and measure nothing else")
	flag.BoolVar(&o.peers, "peers", false, "compare with other gateways, which are built from their Go modules, and measure nothing else")
	flag.StringVar(&o.only, "only", "", "take only the steps whose name contains this, such as slow")
	flag.StringVar(&o.caseWord, "case", "", "measure only the cases, and the ways of growing, whose name contains this, such as Chat")
	flag.StringVar(&o.shape, "shape", "", "with -only shapes: weigh only bodies whose path and name contain this")
	streams := flag.Int("streams", -1, "quiet streams to open at the same time; 0 leaves that out")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.plan = fullPlan
	if o.short {
		o.plan = shortPlan
	}
	if *streams >= 0 {
		o.plan.streams = *streams
	}
	broken, err := run(ctx, o)
	if err == nil && broken && *check {
		err = errBroken
	}
	exit(err)
}

// options are what the user has asked for.
type options struct {
	plan                plan
	short, peers, write bool
	binary, only, shape string
	against, caseWord   string
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// findings are what is printed, and written into one section of the README.
type findings interface {
	markdown() string
	broken() bool
}

// run measures and prints the report. It leaves neither processes nor files behind.
func run(ctx context.Context, o options) (broken bool, err error) {
	dir, err := os.MkdirTemp("", "perigee-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	machine := measure.Machine()
	b := &bench{
		plan: o.plan, dir: dir, binary: o.binary, older: o.against, caseWord: o.caseWord, shape: o.shape,
		report: report{machine: machine, short: o.short}, peers: peerReport{machine: machine, short: o.short}, against: againstReport{machine: machine},
	}
	defer b.stopAll()
	if err := b.build(ctx); err != nil {
		return false, fmt.Errorf("build perigee: %w", err)
	}
	section, steps, found := measuredSection, b.ownSteps(), findings(&b.report)
	if o.peers {
		b.buildPeers(ctx)
		section, steps, found = peersSection, []step{{name: "comparing with other gateways", run: b.measurePeers}}, &b.peers
	}
	if o.against != "" {
		steps, found = []step{{name: "comparing two binaries", run: b.measureAgainst}}, &b.against
		o.only = ""
	}
	steps = slices.DeleteFunc(steps, func(s step) bool { return !strings.Contains(s.name, o.only) || s.asked && o.only == "" })
	if err := b.measure(ctx, steps); err != nil {
		return false, err
	}
	text := found.markdown()
	fmt.Print(text)
	if o.write {
		if err := writeReadme(ctx, section, text); err != nil {
			return false, err
		}
	}
	return found.broken(), nil
}

// A bench is one run of the measurements.
type bench struct {
	plan     plan
	dir      string // for data directories and the binary; removed at the end
	binary   string
	older    string // what -against compares it with
	caseWord string // in the names of the cases and of the ways that are measured
	shape    string // of the bodies that are weighed; empty means all
	children []*measure.Process
	provider *measure.Process
	report   report
	peers    peerReport
	against  againstReport
}

// A step is one part of a run.
type step struct {
	name  string
	run   func(context.Context) error
	asked bool // it takes long, and is taken only where -only names it
}

// ownSteps are in the order in which they disturb each other least: what needs a fresh process and
// a quiet machine first, the heavy bodies last.
func (b *bench) ownSteps() []step {
	return []step{
		{name: "starting", run: b.measureStart},
		{name: "counting allocations", run: b.measureAllocations},
		{name: "preparing", run: b.measurePreparation},
		{name: "scanning", run: b.measureScans},
		{name: "comparing", run: b.measureCost},
		{name: "comparing cases", run: b.measureCases},
		{name: "following slow streams", run: b.measureLate},
		{name: "holding streams", run: b.measureStreams},
		{name: "growing", run: b.measureGrowth},
		{name: "weighing shapes", run: b.measureShapes, asked: true},
		{name: "recording a profile", run: b.recordProfile, asked: true},
	}
}

// measure starts the provider and takes the steps.
func (b *bench) measure(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithTimeout(ctx, b.plan.limit)
	defer cancel()
	if err := b.startProvider(ctx); err != nil {
		return err
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
