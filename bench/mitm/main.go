//go:build linux

// Command mitm measures what interception costs: a server that speaks TLS is called directly,
// through perigee's proxy, through a bare proxy of net/http, and through other interception
// proxies. All are processes of their own, on loopback, and are called in turns, so what counts are
// the ratios of one run; all clients are in this process. Linux only.
//
//	go run ./bench/mitm              # tables, in about ten minutes
//	go run ./bench/mitm -short       # in one to three minutes, with rougher figures
//	go run ./bench/mitm -check       # the exit code is 1 if a target is missed
//	go run ./bench/mitm -write       # the tables go into bench/mitm/README.md, too
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"perigee/bench/internal/measure"
)

// A plan says how much is measured.
type plan struct {
	rounds   int           // that count, of every comparison
	turn     time.Duration // how long one target is called in one round
	firsts   int           // streams in one turn whose first event is timed
	events   int           // of the stream in one turn whose events are timed
	calls    int           // before memory is read
	cancels  int           // streams that are cancelled
	patience time.Duration // for all together: past it something hangs
}

var (
	fullPlan  = plan{rounds: 21, turn: 250 * time.Millisecond, firsts: 60, events: 100, calls: 10_000, cancels: 200, patience: time.Hour}
	shortPlan = plan{rounds: 5, turn: 80 * time.Millisecond, firsts: 20, events: 30, calls: 1000, cancels: 200, patience: 15 * time.Minute}
)

// roles are the parts that this program plays when it starts itself again. The name is its first
// argument.
var roles = map[string]func(args []string) error{
	roleServer:  playServer,
	rolePlain:   playPlain,
	rolePerigee: playPerigee,
}

const (
	roleServer  = "role:server"
	rolePlain   = "role:plain"
	rolePerigee = "role:perigee"
)

type options struct {
	plan                 plan
	short, check, write  bool
	only, proxies, pprof string
	against, builds      string
}

// errMissed says that a target was missed; the report has told which.
var errMissed = errors.New("a target was missed")

func main() {
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			exit(play(os.Args[2:]))
		}
	}
	var o options
	flag.BoolVar(&o.short, "short", false, "measure for about a minute; the figures are rougher")
	flag.BoolVar(&o.check, "check", false, "exit with 1 if a target is missed")
	flag.BoolVar(&o.write, "write", false, "put the report into bench/mitm/README.md, too")
	flag.StringVar(&o.only, "only", "", "take only the steps whose name contains this, such as HTTP/2 or events")
	flag.StringVar(&o.proxies, "proxies", "", "measure only these proxies, separated by commas")
	flag.StringVar(&o.pprof, "pprof", "", "serve profiles of perigee's proxy at this address while it runs")
	flag.StringVar(&o.against, "against", "", "measure perigee's proxy in this older build of the program, too")
	flag.StringVar(&o.builds, "builds", "", "measure perigee mitm in these other builds of perigee, too, separated by commas")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o.plan = fullPlan
	if o.short {
		o.plan = shortPlan
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.plan.patience)
	defer cancel()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mitm:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A bench is one run.
type bench struct {
	options
	dir      string // removed at the end
	self     string // path of this program
	binary   string // path of perigee
	goproxy  string
	issuer   *issuer
	servers  map[string]*measure.Process // by protocol
	running  map[string][]*target        // the same
	proxies  []*proxy
	children []*measure.Process
	report   report
}

// run measures and prints the report. It leaves neither processes nor files behind.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "perigee-mitm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{
		options: o, dir: dir, servers: map[string]*measure.Process{}, running: map[string][]*target{},
		report: report{machine: measure.Machine(), short: o.short},
	}
	defer b.stopAll()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, s := range b.steps() {
		if !strings.Contains(s.name(), o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "mitm: %s\n", s.name())
		if err := s.measure(ctx, b); err != nil {
			if ctx.Err() != nil { // then whatever failed did so because it was stopped
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	text := b.report.markdown()
	fmt.Print(text)
	if o.write {
		if err := writeReadme(text); err != nil {
			return err
		}
	}
	if o.check && b.report.missed() {
		return errMissed
	}
	return nil
}

// prepare builds what has to be built and starts the servers. What cannot be built is left out of
// the comparison.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.issuer, err = makeIssuer(b.dir); err != nil {
		return err
	}
	all := proxies()
	if b.against != "" {
		all = append(all, &proxy{name: older, about: "`internal/intercept/mitm` in another build", start: startOlder, asked: true})
	}
	for _, program := range strings.FieldsFunc(b.builds, func(r rune) bool { return r == ',' }) {
		all = append(all, &proxy{name: filepath.Base(program), about: "`perigee mitm --json` in another build", start: startBuilt(program), asked: true})
	}
	for _, p := range all {
		if !p.asked && b.options.proxies != "" && !slices.Contains(strings.Split(b.options.proxies, ","), p.name) {
			continue
		}
		if p.build != nil {
			if err := p.build(ctx, b, p); err != nil {
				fmt.Fprintf(os.Stderr, "mitm: without %s: %v\n", p.name, err)
				b.report.leftOut = append(b.report.leftOut, fmt.Sprintf("%s is left out: %v", p.name, err))
				continue
			}
		}
		b.proxies = append(b.proxies, p)
		b.report.proxies = append(b.report.proxies, p)
	}
	for _, protocol := range []string{http1, http2} {
		b.servers[protocol], err = b.role(ctx, "server", b.dir, roleServer, protocol, b.issuer.certificate, b.issuer.key)
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) spawn(ctx context.Context, c measure.Command) (*measure.Process, error) {
	p, err := measure.Start(ctx, c)
	if err == nil {
		b.children = append(b.children, p)
	}
	return p, err
}

func (b *bench) stopAll() {
	for _, p := range b.children {
		p.Stop()
	}
}
