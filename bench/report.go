package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// A report is everything that was measured.
type report struct {
	machine      string
	short        bool
	weight       weight
	cells        []*cell // perigee, a bare proxy and the provider
	translations []*cell // the provider, and perigee in each dialect that it rewrites
	allocations  []allocation
	preparations []preparation
	scans        []scan
	growth       []growth
	streams      []quiet
	late         []lateRound
	cases        []*benchCase
	weighings    []weighing
}

// markdown writes the report as tables.
func (r *report) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on: %s.\n", r.machine)
	if r.short {
		s.WriteString("This was a short run; its figures are rough.\n")
	}
	writePromises(&s, r.promises())
	r.writeCases(&s)
	r.writeLatency(&s)
	r.writeCPU(&s)
	r.writeTranslations(&s)
	r.writeAllocations(&s)
	r.writeWeight(&s)
	r.writeGrowth(&s)
	r.writeStreams(&s)
	r.writeShapes(&s)
	r.writePreparations(&s)
	r.writeLate(&s)
	return s.String()
}

func table(s *strings.Builder, title string, columns ...string) {
	fmt.Fprintf(s, "\n**%s**\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func writePromises(s *strings.Builder, list []promise) {
	table(s, "Promises and aims", "what", "limit", "found", "")
	for _, p := range list {
		limit, verdict := p.limit, "kept"
		switch {
		case p.limit == "":
			limit, verdict = "–", "for information"
		case p.unmeasured:
			verdict = "open"
		case p.aim && p.kept:
			verdict = "aim reached"
		case p.aim:
			verdict = "aim not reached"
		case !p.kept:
			verdict = "**broken**"
		}
		fmt.Fprintf(s, "| %s | %s | %s | %s |\n", p.what, limit, p.found, verdict)
	}
}

func (r *report) writeLatency(s *strings.Builder) {
	if len(r.cells) == 0 {
		return
	}
	table(s, "Time of a call in the Gemini dialect, one after the other, ms", "body", "target", "first event p50", "p99", "whole p50", "p99", "added to first event p50")
	for _, c := range r.cells {
		if c.clients != 1 {
			continue
		}
		for target, name := range targetNames {
			added := "–"
			if target != direct {
				added = fmt.Sprintf("%.2f", c.added(target))
			}
			fmt.Fprintf(s, "| %s | %s | %.2f | %.2f | %.2f | %.2f | %s |\n", measure.BytesText(int64(c.size)), name,
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
	if len(r.cells) == 0 {
		return
	}
	table(s, "CPU of the proxy for a call in the Gemini dialect, and calls per second",
		"calls", "ReverseProxy µs", "perigee µs", "ratio", "lowest – highest round", "direct /s", "ReverseProxy /s", "perigee /s")
	for _, c := range r.cells {
		cpu := func(target int) float64 {
			return 1000 * c.time(target, func(t turn) time.Duration { return t.cpu })
		}
		rate := func(target int) float64 { return c.over(func(r round) float64 { return r[target].rate }) }
		ratios := measure.Each(c.rounds, cpuRatio)
		fmt.Fprintf(s, "| %v | %.0f | %.0f | %.2f | %.2f – %.2f | %.0f | %.0f | %.0f |\n", c, cpu(proxy), cpu(perigee),
			measure.Median(ratios), slices.Min(ratios), slices.Max(ratios), rate(direct), rate(proxy), rate(perigee))
	}
}

func (r *report) writeTranslations(s *strings.Builder) {
	if len(r.translations) == 0 {
		return
	}
	table(s, "The dialects that are rewritten, one call after the other",
		"body", "dialect", "first event p50, ms", "p99", "added p50, ms", "p99", "whole p50, ms", "CPU, µs")
	for _, c := range r.translations {
		for i := range len(translated) + 1 {
			name, added, tail, cpu := "direct, Gemini", "–", "–", "–"
			if i != direct {
				name, added, tail = translated[i-1].name, fmt.Sprintf("%.2f", c.added(i)), fmt.Sprintf("%.2f", c.addedTail(i))
				cpu = fmt.Sprintf("%.0f", 1000*c.time(i, func(t turn) time.Duration { return t.cpu }))
			}
			fmt.Fprintf(s, "| %s | %s | %.2f | %.2f | %s | %s | %.2f | %s |\n", measure.BytesText(int64(c.size)), name,
				c.time(i, func(t turn) time.Duration { return t.first50 }),
				c.time(i, func(t turn) time.Duration { return t.first99 }), added, tail,
				c.time(i, func(t turn) time.Duration { return t.total50 }), cpu)
		}
	}
}

func (r *report) writeAllocations(s *strings.Builder) {
	if len(r.allocations) == 0 {
		return
	}
	table(s, "Allocations of perigee's own code for a call", "body", "dialect", "number", "KB", "KB over body")
	for _, a := range r.allocations {
		fmt.Fprintf(s, "| %s | %s | %d | %.1f | %.1f |\n", measure.BytesText(int64(a.size)), a.dialect, a.number,
			float64(a.bytes)/(1<<10), float64(a.bytes)/float64(a.size))
	}
}

func (r *report) writeWeight(s *strings.Builder) {
	w := r.weight
	if w.firstStart.took == 0 {
		return
	}
	table(s, "Weight", "what", "found")
	fmt.Fprintf(s, "| from exec to listening, empty data directory | %.0f ms |\n", milliseconds(w.firstStart.took))
	fmt.Fprintf(s, "| from exec to listening, later | %.0f ms |\n", milliseconds(w.laterStart.took))
	fmt.Fprintf(s, "| CPU until listening, empty data directory | %.1f ms |\n", milliseconds(w.firstStart.cpu))
	fmt.Fprintf(s, "| CPU until listening, later | %.1f ms |\n", milliseconds(w.laterStart.cpu))
	fmt.Fprintf(s, "| resident after start | %.1f MB |\n", megabytes(w.idle))
	fmt.Fprintf(s, "| resident after load and a pause | %.1f MB |\n", megabytes(w.afterLoad))
	fmt.Fprintf(s, "| binary, stripped | %.1f MB |\n", megabytes(w.binary))
}

func (r *report) writeGrowth(s *strings.Builder) {
	if len(r.growth) == 0 {
		return
	}
	table(s, "Cost as the body grows; CPU without traces, memory with them", "dialect, and wire if it is not Gemini's", "body", "CPU for a call, ms", "ns for a byte", "resident before, MB", "at most, MB", "growth over body")
	for _, g := range r.growth {
		times := "–" // the process itself is many times a small body
		if g.size >= 10<<20 {
			times = fmt.Sprintf("%.1f", g.times())
		}
		fmt.Fprintf(s, "| %s | %s | %.2f | %.2f | %.1f | %.1f | %s |\n", g.way, measure.BytesText(int64(g.size)), milliseconds(g.cpu), g.perByte(),
			megabytes(g.base), megabytes(g.peak), times)
	}
}

func (r *report) writeStreams(s *strings.Builder) {
	if len(r.streams) == 0 {
		return
	}
	table(s, "Streams that are open and quiet", "target", "dialect", "body", "to the provider", "streams", "resident before, MB", "with all open, MB", "at most, MB", "KB for a stream")
	for _, q := range r.streams {
		reached := fmt.Sprint(q.reached)
		if q.reached < q.wanted {
			reached = fmt.Sprintf("%d, for the system's limit of open files", q.reached)
		}
		fmt.Fprintf(s, "| %s | %s | %s | %s | %s | %.1f | %.1f | %.1f | %.1f |\n", q.target(), q.dialect, measure.BytesText(int64(q.size)), q.protocol, reached,
			megabytes(q.base), megabytes(q.resident), megabytes(q.peak), q.perStream())
	}
}

func (r *report) writePreparations(s *strings.Builder) {
	if len(r.preparations) == 0 {
		return
	}
	table(s, fmt.Sprintf("Preparing a conversation with %d tools for the Antigravity gateway", preparedTools), "conversation", "model", "median, ms", "ns for a byte", "median with known schemas, ms")
	for _, p := range r.preparations {
		fmt.Fprintf(s, "| %s | %s | %.2f | %.1f | %.2f |\n", measure.BytesText(int64(p.size)), p.model, milliseconds(p.took), float64(p.took)/float64(p.size), milliseconds(p.again))
	}
}
