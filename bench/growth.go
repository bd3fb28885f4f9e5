package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"perigee/bench/internal/measure"
)

// growthSizes are the bodies that show whether cost grows with size, or faster.
var growthSizes = []int{10 << 10, 100 << 10, 1 << 20, 10 << 20, 50 << 20}

// A growth is what bodies of one size in one dialect cost perigee, each time in a fresh process.
type growth struct {
	dialect string
	size    int
	cpu     time.Duration // per call, without traces
	base    int64         // resident before the first of them, after one small call
	peak    int64         // resident at most
}

// perByte is the CPU for one byte, in nanoseconds.
func (g growth) perByte() float64 { return float64(g.cpu) / float64(g.size) }

// times is how many bodies would fit into the memory that the calls took.
func (g growth) times() float64 { return float64(g.peak-g.base) / float64(g.size) }

func (b *bench) measureGrowth(ctx context.Context) error {
	for _, d := range dialects {
		fmt.Fprintf(os.Stderr, "bench:   %s\n", d.name)
		for _, size := range growthSizes {
			q := newQuestion(d, quickModel, size)
			var runs []growth
			for range b.plan.growthRuns {
				g, err := b.grow(ctx, q)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", d.name, measure.BytesText(int64(size)), err)
				}
				runs = append(runs, g)
			}
			b.report.growth = append(b.report.growth, growth{
				dialect: d.name,
				size:    size,
				cpu:     measure.Median(measure.Each(runs, func(g growth) time.Duration { return g.cpu })),
				base:    measure.Median(measure.Each(runs, func(g growth) int64 { return g.base })),
				peak:    measure.Median(measure.Each(runs, func(g growth) int64 { return g.peak })),
			})
		}
	}
	return nil
}

// grow measures memory with traces, and CPU without: the first calls of a process all have a trace,
// and a small number of large calls would be mostly such calls.
func (b *bench) grow(ctx context.Context, q question) (growth, error) {
	g, err := b.growIn(ctx, q, "warn")
	if err != nil {
		return g, err
	}
	bare, err := b.growIn(ctx, q, noTraces)
	g.cpu = bare.cpu
	return g, err
}

// growIn sends one body again and again to a fresh perigee, one call after the other.
func (b *bench) growIn(ctx context.Context, q question, log string) (growth, error) {
	g := growth{size: len(q.body)}
	data, err := os.MkdirTemp(b.dir, "growth-")
	if err != nil {
		return g, err
	}
	p, err := b.startPerigeeWith(ctx, data, log, b.upstreamConfig("http://"+b.provider.Addr))
	if err != nil {
		return g, err
	}
	defer p.Stop()
	// The first call brings the program's own code into memory, which is no part of a body.
	if err := b.firstAnswer(ctx, p); err != nil {
		return g, err
	}
	if g.base, err = p.Memory("VmRSS"); err != nil {
		return g, err
	}
	clients, err := dialCrowd(ctx, 1, p.Addr, q)
	if err != nil {
		return g, err
	}
	defer clients.close()
	before, err := p.CPU()
	if err != nil {
		return g, err
	}
	calls := min(max(b.plan.growthLoad/g.size, 4), 1000)
	samples, _, err := clients.ask(ctx, askLimit, calls)
	if err != nil {
		return g, err
	}
	after, err := p.CPU()
	if err != nil {
		return g, err
	}
	g.cpu = (after - before) / time.Duration(len(samples))
	g.peak, err = p.Memory("VmHWM")
	return g, err
}
