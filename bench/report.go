package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A report is everything that was measured.
type report struct {
	machine string
	short   bool
	weight  weight
	cells   []*cell
	growth  []growth
}

// markdown writes the report as tables.
func (r *report) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on: %s.\n", r.machine)
	if r.short {
		s.WriteString("This was a short run; its figures are rough.\n")
	}
	r.writePromises(&s)
	r.writeLatency(&s)
	r.writeCPU(&s)
	r.writeWeight(&s)
	r.writeGrowth(&s)
	return s.String()
}

func table(s *strings.Builder, title string, columns ...string) {
	fmt.Fprintf(s, "\n**%s**\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func (r *report) writePromises(s *strings.Builder) {
	table(s, "Promises", "what", "promised", "found", "")
	for _, p := range r.promises() {
		verdict := "kept"
		if !p.kept {
			verdict = "**broken**"
		}
		fmt.Fprintf(s, "| %s | %s | %s | %s |\n", p.what, p.limit, p.found, verdict)
	}
}

func (r *report) writeLatency(s *strings.Builder) {
	table(s, "Time of a call, one after the other, ms", "body", "target", "first event p50", "p99", "whole p50", "p99", "added to first event p50")
	for _, c := range r.cells {
		if c.clients != 1 {
			continue
		}
		for target, name := range targetNames {
			added := "–"
			if target != direct {
				added = fmt.Sprintf("%.2f", c.added(target))
			}
			fmt.Fprintf(s, "| %s | %s | %.2f | %.2f | %.2f | %.2f | %s |\n", bytesText(int64(c.size)), name,
				c.time(target, func(t turn) time.Duration { return t.first50 }),
				c.time(target, func(t turn) time.Duration { return t.first99 }),
				c.time(target, func(t turn) time.Duration { return t.total50 }),
				c.time(target, func(t turn) time.Duration { return t.total99 }), added)
		}
	}
}

// time is the median over the rounds of one of a target's times, in milliseconds.
func (c *cell) time(target int, figure func(turn) time.Duration) float64 {
	return c.over(func(r round) float64 { return milliseconds(figure(r[target])) })
}

func (r *report) writeCPU(s *strings.Builder) {
	table(s, "CPU of the proxy for a call, and calls per second",
		"calls", "ReverseProxy µs", "perigee µs", "ratio", "lowest – highest round", "direct /s", "ReverseProxy /s", "perigee /s")
	for _, c := range r.cells {
		cpu := func(target int) float64 {
			return 1000 * c.time(target, func(t turn) time.Duration { return t.cpu })
		}
		rate := func(target int) float64 { return c.over(func(r round) float64 { return r[target].rate }) }
		ratios := each(c.rounds, cpuRatio)
		fmt.Fprintf(s, "| %v | %.0f | %.0f | %.2f | %.2f – %.2f | %.0f | %.0f | %.0f |\n", c, cpu(proxy), cpu(perigee),
			median(ratios), slices.Min(ratios), slices.Max(ratios), rate(direct), rate(proxy), rate(perigee))
	}
}

func (r *report) writeWeight(s *strings.Builder) {
	w := r.weight
	table(s, "Weight", "what", "found")
	fmt.Fprintf(s, "| from exec to listening, empty data directory | %.0f ms |\n", milliseconds(w.firstStart))
	fmt.Fprintf(s, "| from exec to listening, later | %.0f ms |\n", milliseconds(w.laterStart))
	fmt.Fprintf(s, "| resident after start | %.1f MB |\n", megabytes(w.idle))
	fmt.Fprintf(s, "| resident after load and a pause | %.1f MB |\n", megabytes(w.afterLoad))
	fmt.Fprintf(s, "| binary, stripped | %.1f MB |\n", megabytes(w.binary))
}

func (r *report) writeGrowth(s *strings.Builder) {
	table(s, "Cost as the body grows", "body", "CPU for a call, ms", "ns for a byte", "resident before, MB", "at most, MB", "growth over body")
	for _, g := range r.growth {
		times := "–" // the process itself is many times a small body
		if g.size >= 10<<20 {
			times = fmt.Sprintf("%.1f", g.times())
		}
		fmt.Fprintf(s, "| %s | %.2f | %.2f | %.1f | %.1f | %s |\n", bytesText(int64(g.size)), milliseconds(g.cpu), g.perByte(),
			megabytes(g.base), megabytes(g.peak), times)
	}
}
