package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// The targets, in the order of every list of them. Direct is the provider itself.
const (
	direct = iota
	proxy
	perigee
	targetCount
)

var targetNames = [targetCount]string{"direct", "ReverseProxy", "perigee"}

// A cell is one comparison: the same calls to all targets.
type cell struct {
	size    int // of the body
	clients int
	paced   bool
	rounds  []round
}

func (c *cell) String() string {
	name := fmt.Sprintf("%s, %d at once", bytesText(int64(c.size)), c.clients)
	if c.clients == 1 {
		name = fmt.Sprintf("%s, one after the other", bytesText(int64(c.size)))
	}
	if c.paced {
		name += ", paced"
	}
	return name
}

// A round is one turn for each target, close together in time, so that what else the machine does hits all of
// them alike.
type round [targetCount]turn

// A turn is what asking one target for a while has shown.
type turn struct {
	first50, first99 time.Duration
	total50, total99 time.Duration
	rate             float64 // calls per second
	cpu              time.Duration
}

// comparisons are all cells. In the paced ones every chunk arrives alone, as from a real model; in the others the
// next chunks are often there already when a proxy reads, and it may send several on at once.
func comparisons() []*cell {
	return []*cell{
		{size: 1 << 10, clients: 1}, {size: 100 << 10, clients: 1}, {size: 1 << 20, clients: 1},
		{size: 1 << 10, clients: 16}, {size: 100 << 10, clients: 16}, {size: 1 << 20, clients: 16},
		{size: 100 << 10, clients: 16, paced: true},
	}
}

// measureCost compares perigee with the bare proxy and with no proxy at all.
func (b *bench) measureCost(ctx context.Context) error {
	targets, err := b.startTargets(ctx)
	if err != nil {
		return err
	}
	for _, c := range comparisons() {
		fmt.Fprintf(os.Stderr, "bench:   %v\n", c)
		if err := b.compare(ctx, c, targets); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		b.report.cells = append(b.report.cells, c)
	}
	if err := pause(ctx, b.plan.idle); err != nil {
		return err
	}
	b.report.weight.afterLoad, err = targets[perigee].memory("VmRSS")
	targets[proxy].stop()
	targets[perigee].stop()
	return err
}

func (b *bench) startTargets(ctx context.Context) (targets [targetCount]*process, err error) {
	self, err := os.Executable()
	if err != nil {
		return targets, err
	}
	data, err := os.MkdirTemp(b.dir, "cost-")
	if err != nil {
		return targets, err
	}
	targets[direct] = b.provider
	if targets[proxy], err = b.spawn(ctx, "ReverseProxy", self, roleProxy, b.provider.addr); err != nil {
		return targets, err
	}
	targets[perigee], err = b.startPerigee(ctx, data)
	return targets, err
}

// compare fills a cell. The order of the targets changes from round to round, so that none of them always comes
// after the same other one.
func (b *bench) compare(ctx context.Context, c *cell, targets [targetCount]*process) error {
	body, asked := agentBody(c.size), quickModel
	if c.paced {
		asked = pacedModel
	}
	var crowds [targetCount]crowd
	for i, target := range targets {
		clients, err := dialCrowd(ctx, c.clients, target.addr, asked, body)
		if err != nil {
			return err
		}
		defer clients.close()
		// The first calls open connections behind the proxy and are not counted.
		if _, _, err := clients.ask(ctx, b.plan.turn/4, turnCalls); err != nil {
			return fmt.Errorf("%s: %w", targetNames[i], err)
		}
		crowds[i] = clients
	}
	for n := range b.plan.rounds {
		var r round
		for step := range targets {
			i := (n + step) % targetCount
			var err error
			if r[i], err = takeTurn(ctx, targets[i], crowds[i], b.plan.turn); err != nil {
				return fmt.Errorf("%s: %w", targetNames[i], err)
			}
		}
		c.rounds = append(c.rounds, r)
	}
	return nil
}

func takeTurn(ctx context.Context, target *process, clients crowd, d time.Duration) (turn, error) {
	before, err := target.cpu()
	if err != nil {
		return turn{}, err
	}
	samples, took, err := clients.ask(ctx, d, turnCalls)
	if err != nil {
		return turn{}, err
	}
	after, err := target.cpu()
	if err != nil {
		return turn{}, err
	}
	first := each(samples, func(s sample) time.Duration { return s.first })
	total := each(samples, func(s sample) time.Duration { return s.total })
	return turn{
		first50: median(first), first99: quantile(first, 0.99),
		total50: median(total), total99: quantile(total, 0.99),
		rate: float64(len(samples)) / took.Seconds(),
		cpu:  (after - before) / time.Duration(len(samples)),
	}, nil
}

// over is the median over the rounds of a figure that a round shows.
func (c *cell) over(figure func(round) float64) float64 { return median(each(c.rounds, figure)) }

// added is how much later than from the provider itself the first event comes, at the median, in milliseconds.
func (c *cell) added(target int) float64 {
	return c.over(func(r round) float64 { return milliseconds(r[target].first50 - r[direct].first50) })
}

// cpuRatio is how much more CPU a call costs perigee than the bare proxy, in one round.
func cpuRatio(r round) float64 { return float64(r[perigee].cpu) / float64(r[proxy].cpu) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
