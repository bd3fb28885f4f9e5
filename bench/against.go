package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// The order of the two binaries in the comparison of -against.
const (
	before = iota
	now
)

// againstRounds is the number of rounds of that comparison. Its turns are short and many, because
// the differences between two versions are smaller than the noise of a busy machine, which short
// turns share.
const againstRounds = 41

// againstStreams is how many quiet streams are opened: as many as a perigee of any version accepts
// without further settings.
const againstStreams = 3000

// againstLimit is what a change may cost. A figure counts as worse when the median ratio is higher
// than this and three quarters of the rounds agree that it is higher than 1: a binary beside itself
// shows medians of up to 1.06.
const againstLimit = 1.05

// An againstReport has the figures of two binaries, measured side by side.
type againstReport struct {
	machine string
	rows    []againstRow
}

// An againstRow is one figure of both. Ratio is the figure now over the figure before, so that more
// than 1 is worse.
type againstRow struct {
	name        string
	unit        string
	before, now float64
	ratio       float64
	low, high   float64 // quartiles of the ratio over the rounds
}

func (r againstRow) worse() bool { return r.ratio > againstLimit && r.low > 1 }

// measureAgainst compares the binary with an older one, case by case.
func (b *bench) measureAgainst(ctx context.Context) error {
	for _, c := range benchCases() {
		if !strings.Contains(c.name, b.caseWord) {
			continue
		}
		if err := b.compareBinaries(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if b.caseWord != "" {
		return nil
	}
	if err := b.compareIdle(ctx); err != nil {
		return err
	}
	return b.compareQuiet(ctx)
}

// compareBinaries asks both binaries the same, in turns.
func (b *bench) compareBinaries(ctx context.Context, c *benchCase) error {
	fmt.Fprintf(os.Stderr, "bench:   %s\n", c.name)
	var targets []target
	for i, binary := range b.both() {
		p, stop, err := b.of(binary).startCase(ctx, c)
		if err != nil {
			return err
		}
		defer stop()
		targets = append(targets, target{name: []string{"before", "now"}[i], process: p, dialect: c.ours, model: c.model})
	}
	plan := *b
	plan.plan.rounds = againstRounds
	if err := plan.compare(ctx, &c.cell, targets, b.plan.caseTurn/2); err != nil {
		return err
	}
	b.against.add(c.name+", CPU for a call", "µs", &c.cell, func(t turn) float64 { return float64(t.cpu) / float64(time.Microsecond) })
	b.against.add(c.name+", first event", "ms", &c.cell, func(t turn) float64 { return milliseconds(t.first50) })
	b.against.add(c.name+", whole answer", "ms", &c.cell, func(t turn) float64 { return milliseconds(t.total50) })
	return b.comparePeaks(c.name+", resident at most", targets)
}

func (b *bench) comparePeaks(name string, targets []target) error {
	var peak [2]float64
	for i, t := range targets {
		bytes, err := t.process.Memory("VmHWM")
		if err != nil {
			return err
		}
		peak[i] = megabytes(bytes)
	}
	b.against.addPair(name, "MB", peak)
	return nil
}

// compareIdle looks at the memory of both after a start.
func (b *bench) compareIdle(ctx context.Context) error {
	var idle [2]float64
	for i, binary := range b.both() {
		var found []int64
		for range 5 {
			run := b.of(binary)
			if err := run.measureIdle(ctx); err != nil {
				return err
			}
			found = append(found, run.report.weight.idle)
		}
		idle[i] = megabytes(measure.Median(found))
	}
	b.against.addPair("resident after a start", "MB", idle)
	return nil
}

// compareQuiet looks at what open streams cost both.
func (b *bench) compareQuiet(ctx context.Context) error {
	var runs [2]*bench
	for i, binary := range b.both() {
		runs[i] = b.of(binary)
		runs[i].plan.streams = min(b.plan.streams, againstStreams)
		if err := runs[i].measureStreams(ctx); err != nil {
			return err
		}
	}
	for i, q := range runs[before].report.streams {
		if q.bare {
			continue
		}
		name := fmt.Sprintf("quiet stream, %s, %s, %s to the provider", q.dialect, measure.BytesText(int64(q.size)), q.protocol)
		b.against.addPair(name, "KB", [2]float64{q.perStream(), runs[now].report.streams[i].perStream()})
	}
	return nil
}

// both are the binaries, the older one first.
func (b *bench) both() []string { return []string{before: b.older, now: b.binary} }

// of is a bench that measures another binary, with a report of its own and the same provider.
func (b *bench) of(binary string) *bench {
	other := *b
	other.binary, other.report = binary, report{}
	return &other
}

// add takes a figure from the rounds of a comparison.
func (r *againstReport) add(name, unit string, c *cell, figure func(turn) float64) {
	ratios := measure.Each(c.rounds, func(r round) float64 { return figure(r[now]) / figure(r[before]) })
	r.rows = append(r.rows, againstRow{
		name: name, unit: unit, ratio: measure.Median(ratios), low: measure.Quantile(ratios, 0.25), high: measure.Quantile(ratios, 0.75),
		before: c.over(func(r round) float64 { return figure(r[before]) }),
		now:    c.over(func(r round) float64 { return figure(r[now]) }),
	})
}

func (r *againstReport) addPair(name, unit string, pair [2]float64) {
	ratio := pair[now] / pair[before]
	r.rows = append(r.rows, againstRow{name: name, unit: unit, before: pair[before], now: pair[now], ratio: ratio, low: ratio, high: ratio})
}

func (r *againstReport) broken() bool { return slices.ContainsFunc(r.rows, againstRow.worse) }

func (r *againstReport) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on: %s.\n", r.machine)
	table(&s, "Two binaries side by side", "what", "before", "now", "ratio", "middle half of the rounds", "")
	for _, row := range r.rows {
		verdict := ""
		if row.worse() {
			verdict = "worse"
		}
		fmt.Fprintf(&s, "| %s | %.4g %s | %.4g %s | %.2f | %.2f – %.2f | %s |\n", row.name, row.before, row.unit, row.now, row.unit, row.ratio, row.low, row.high, verdict)
	}
	return s.String()
}
