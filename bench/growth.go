package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// growthSizes are the bodies that show whether cost grows with size, or faster; wireSizes those of
// the wires, of which only the large ones are judged.
var (
	growthSizes = []int{10 << 10, 100 << 10, 1 << 20, 10 << 20, 50 << 20}
	wireSizes   = growthSizes[2:]
)

// A growthWay is a way of growing bodies through perigee.
type growthWay struct {
	name    string
	dialect *dialect
	model   string
	wire    *otherWire // of the provider; nil if it is Gemini's
	sizes   []int
}

// growthWays are every dialect at Gemini's API, and at each other wire its own dialect, Gemini and
// Chat.
func growthWays() (list []growthWay) {
	for _, d := range dialects {
		list = append(list, growthWay{d.name, d, quickModel, nil, growthSizes})
	}
	for _, wr := range wires {
		for _, d := range dialects {
			if d == wr.dialect || d == gemini || d == chat {
				list = append(list, growthWay{d.name + " to " + wr.dialect.name, wr.asked(d), wr.model, wr, wireSizes})
			}
		}
	}
	return list
}

// A growth is what bodies of one size on one way cost perigee, each time in a fresh process.
type growth struct {
	way  string
	size int
	cpu  time.Duration // per call, without traces
	base int64         // resident before the first of them, after one small call
	peak int64         // resident at most
}

// perByte is the CPU for one byte, in nanoseconds.
func (g growth) perByte() float64 { return float64(g.cpu) / float64(g.size) }

// times is how many bodies would fit into the memory that the calls took.
func (g growth) times() float64 { return float64(g.peak-g.base) / float64(g.size) }

func (b *bench) measureGrowth(ctx context.Context) error {
	for _, way := range growthWays() {
		if !strings.Contains(way.name, b.caseWord) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench:   %s\n", way.name)
		for _, size := range way.sizes {
			var runs []growth
			for range b.plan.growthRuns {
				g, err := b.grow(ctx, &way, size)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", way.name, measure.BytesText(int64(size)), err)
				}
				runs = append(runs, g)
			}
			b.report.growth = append(b.report.growth, growth{
				way:  way.name,
				size: size,
				cpu:  measure.Median(measure.Each(runs, func(g growth) time.Duration { return g.cpu })),
				base: measure.Median(measure.Each(runs, func(g growth) int64 { return g.base })),
				peak: measure.Median(measure.Each(runs, func(g growth) int64 { return g.peak })),
			})
		}
	}
	return nil
}

// grow measures memory with traces, and CPU without: the first calls of a process all have a trace,
// and a small number of large calls would be mostly such calls.
func (b *bench) grow(ctx context.Context, way *growthWay, size int) (growth, error) {
	g, err := b.growIn(ctx, way, size, "warn")
	if err != nil {
		return g, err
	}
	bare, err := b.growIn(ctx, way, size, noTraces)
	g.cpu = bare.cpu
	return g, err
}

// growIn sends one body again and again to a fresh perigee, one call after the other.
func (b *bench) growIn(ctx context.Context, way *growthWay, size int, log string) (growth, error) {
	g := growth{size: size}
	data, err := os.MkdirTemp(b.dir, "growth-")
	if err != nil {
		return g, err
	}
	upstream := b.upstreamConfig("http://" + b.provider.Addr)
	if way.wire != nil {
		upstream = fmt.Sprintf(way.wire.upstream, b.provider.Addr)
	}
	p, err := b.startPerigeeWith(ctx, data, log, upstream)
	if err != nil {
		return g, err
	}
	defer p.Stop()
	// The first call brings the program's own code into memory, which is no part of a body.
	if err := firstAnswer(ctx, p, way.dialect, way.model); err != nil {
		return g, err
	}
	if g.base, err = p.Memory("VmRSS"); err != nil {
		return g, err
	}
	clients, err := dialCrowd(ctx, 1, p.Addr, newQuestion(way.dialect, way.model, size))
	if err != nil {
		return g, err
	}
	defer clients.close()
	before, err := p.CPU()
	if err != nil {
		return g, err
	}
	calls := min(max(b.plan.growthLoad/size, 4), 1000)
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
