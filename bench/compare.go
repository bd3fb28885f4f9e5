package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// The places in the comparison with a bare proxy. Direct is the provider itself, and the first in
// every comparison.
const (
	direct = iota
	proxy
	perigee
)

var targetNames = []string{"direct", "ReverseProxy", "perigee"}

// A target is a process to ask, and the dialect to ask it in.
type target struct {
	name    string
	process *measure.Process
	dialect *dialect
	model   string // empty means the cell's own
	key     string // that the target wants to see, if any
}

// A targetError says which of the targets of a comparison has failed.
type targetError struct {
	target int
	err    error
}

func (e *targetError) Error() string { return e.err.Error() }
func (e *targetError) Unwrap() error { return e.err }

// A cell is one comparison: the same conversation for all targets.
type cell struct {
	size    int // of the body
	clients int
	paced   bool
	rounds  []round
}

func (c *cell) String() string {
	name := fmt.Sprintf("%s, %d at once", measure.BytesText(int64(c.size)), c.clients)
	if c.clients == 1 {
		name = fmt.Sprintf("%s, one after the other", measure.BytesText(int64(c.size)))
	}
	if c.paced {
		name += ", paced"
	}
	return name
}

// A round is one turn for each target, close together in time, so that what else the machine does
// hits all of them alike.
type round []turn

// A turn is what asking one target for a while has shown.
type turn struct {
	first50, first99 time.Duration
	total50, total99 time.Duration
	rate             float64 // calls per second
	cpu              time.Duration
}

// comparisons are all cells. In the paced ones every chunk arrives alone, as from a real model; in
// the rest the next chunks are often there already when a proxy reads, and it may send several on
// at once.
func comparisons() []*cell {
	return []*cell{
		{size: 1 << 10, clients: 1}, {size: 100 << 10, clients: 1}, {size: 1 << 20, clients: 1},
		{size: 1 << 10, clients: 16}, {size: 100 << 10, clients: 16}, {size: 1 << 20, clients: 16},
		{size: 100 << 10, clients: 16, paced: true},
	}
}

// translations are the cells in which the dialects that perigee rewrites are compared with the
// provider.
func translations() []*cell {
	return []*cell{{size: 1 << 10, clients: 1}, {size: 100 << 10, clients: 1}, {size: 1 << 20, clients: 1}}
}

// measureCost compares perigee with the bare proxy and with no proxy at all, and then its dialects
// with the provider. One perigee answers all of it, so that what stays in its memory is what all of
// it leaves.
func (b *bench) measureCost(ctx context.Context) error {
	targets, err := b.startTargets(ctx)
	if err != nil {
		return err
	}
	b.report.cells = comparisons()
	for _, c := range b.report.cells {
		if err := b.compare(ctx, c, targets, b.plan.turn); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
	}
	targets[proxy].process.Stop()
	rewriting := []target{targets[direct]}
	for _, d := range translated {
		rewriting = append(rewriting, target{name: d.name, process: targets[perigee].process, dialect: d})
	}
	b.report.translations = translations()
	for _, c := range b.report.translations {
		if err := b.compare(ctx, c, rewriting, b.plan.translatedTurn); err != nil {
			return fmt.Errorf("dialects, %v: %w", c, err)
		}
	}
	if err := pause(ctx, b.plan.idle); err != nil {
		return err
	}
	b.report.weight.afterLoad, err = targets[perigee].process.Memory("VmRSS")
	targets[perigee].process.Stop()
	return err
}

func (b *bench) startTargets(ctx context.Context) ([]target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(b.dir, "cost-")
	if err != nil {
		return nil, err
	}
	bare, err := b.spawn(ctx, targetNames[proxy], self, roleProxy, b.provider.Addr)
	if err != nil {
		return nil, err
	}
	ours, err := b.startPerigee(ctx, data)
	if err != nil {
		return nil, err
	}
	return []target{
		direct:  {name: targetNames[direct], process: b.provider, dialect: gemini},
		proxy:   {name: targetNames[proxy], process: bare, dialect: gemini},
		perigee: {name: targetNames[perigee], process: ours, dialect: gemini},
	}, nil
}

// compare fills a cell. The order of the targets changes from round to round, so that none of them
// always comes after the same other one. Its error is a targetError when one of the targets is to
// blame.
func (b *bench) compare(ctx context.Context, c *cell, targets []target, d time.Duration) error {
	fmt.Fprintf(os.Stderr, "bench:   %v: %s\n", c, names(targets))
	crowds := make([]crowd, len(targets))
	for i, t := range targets {
		clients, err := dialCrowd(ctx, c.clients, t.process.Addr, c.question(t))
		if err != nil {
			return &targetError{i, fmt.Errorf("%s: %w", t.name, err)}
		}
		defer clients.close()
		// The first calls open connections behind the proxy and are not counted.
		if _, _, err := clients.ask(ctx, d/4, turnCalls); err != nil {
			return &targetError{i, fmt.Errorf("%s: %w", t.name, err)}
		}
		crowds[i] = clients
	}
	for n := range b.plan.rounds {
		r := make(round, len(targets))
		for step := range targets {
			i := (n + step) % len(targets)
			var err error
			if r[i], err = takeTurn(ctx, targets[i].process, crowds[i], d); err != nil {
				return &targetError{i, fmt.Errorf("%s: %w", targets[i].name, err)}
			}
		}
		c.rounds = append(c.rounds, r)
	}
	return nil
}

// question is what a target is asked in this comparison.
func (c *cell) question(t target) question {
	model := quickModel
	if c.paced {
		model = pacedModel
	}
	q := newQuestion(t.dialect, cmp.Or(t.model, model), c.size)
	q.key = t.key
	return q
}

func takeTurn(ctx context.Context, target *measure.Process, clients crowd, d time.Duration) (turn, error) {
	before, err := target.CPU()
	if err != nil {
		return turn{}, err
	}
	samples, _, err := clients.ask(ctx, d, turnCalls)
	if err != nil {
		return turn{}, err
	}
	after, err := target.CPU()
	if err != nil {
		return turn{}, err
	}
	first := measure.Each(samples, func(s sample) time.Duration { return s.first })
	total := measure.Each(samples, func(s sample) time.Duration { return s.total })
	return turn{
		first50: measure.Median(first), first99: measure.Quantile(first, 0.99),
		total50: measure.Median(total), total99: measure.Quantile(total, 0.99),
		rate: rate(clients, samples),
		cpu:  (after - before) / time.Duration(len(samples)),
	}, nil
}

// rate is how many calls per second the clients make while they ask. The time in which they check the
// answers does not count: some of these are long.
func rate(clients crowd, samples []sample) float64 {
	var asking time.Duration
	for _, s := range samples {
		asking += s.total
	}
	return float64(len(clients)*len(samples)) / asking.Seconds()
}

// over is the median over the rounds of a figure that a round shows.
func (c *cell) over(figure func(round) float64) float64 {
	return measure.Median(measure.Each(c.rounds, figure))
}

// added is how much later than from the provider itself the first event comes, at the median, in
// milliseconds.
func (c *cell) added(target int) float64 {
	return c.over(func(r round) float64 { return milliseconds(r[target].first50 - r[direct].first50) })
}

// addedTail is the same of the slowest call in a hundred.
func (c *cell) addedTail(target int) float64 {
	return c.over(func(r round) float64 { return milliseconds(r[target].first99 - r[direct].first99) })
}

// cpuRatio is how much more CPU a call costs perigee than the bare proxy, in one round.
func cpuRatio(r round) float64 { return float64(r[perigee].cpu) / float64(r[proxy].cpu) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func names(targets []target) string {
	return strings.Join(measure.Each(targets, func(t target) string { return t.name }), ", ")
}
