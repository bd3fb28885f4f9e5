//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// A report is everything that was measured.
type report struct {
	machine     string
	short       bool
	proxies     []*proxy
	leftOut     []string
	comparisons []*comparison
	footprints  []*footprint
}

// markdown writes the report as tables.
func (r *report) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on: %s.\n", r.machine)
	if r.short {
		s.WriteString("This was a short run; its figures are rough.\n")
	}
	for _, text := range r.leftOut {
		fmt.Fprintf(&s, "%s.\n", text)
	}
	table(&s, "Proxies", "name", "what it is")
	for _, p := range r.proxies {
		fmt.Fprintf(&s, "| %s | %s |\n", p.name, p.about)
	}
	if all := r.targets(); len(all) > 0 {
		table(&s, "Targets", "what", "limit", "found", "")
		for _, t := range all {
			fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", t.what, t.limit, t.found, map[bool]string{true: "kept", false: "**missed**"}[t.kept])
		}
	}
	for _, protocol := range []string{http1, http2} {
		r.writeCalls(&s, protocol)
		r.writeStreams(&s, protocol)
		r.writeFootprint(&s, protocol)
	}
	r.writeNoise(&s)
	return s.String()
}

func table(s *strings.Builder, title string, columns ...string) {
	fmt.Fprintf(s, "\n**%s**\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// find returns a comparison, or nil if it was not made.
func (r *report) find(protocol string, k kind, clients int) *comparison {
	for _, c := range r.comparisons {
		if c.protocol == protocol && c.kind == k && c.clients == clients {
			return c
		}
	}
	return nil
}

func (r *report) names() []string {
	names := []string{direct}
	for _, p := range r.proxies {
		names = append(names, p.name)
	}
	return names
}

func (r *report) has(names ...string) bool {
	all := "\n" + strings.Join(r.names(), "\n") + "\n"
	for _, name := range names {
		if !strings.Contains(all, "\n"+name+"\n") {
			return false
		}
	}
	return true
}

// over is the median of a figure over the rounds.
func (c *comparison) over(figure func(map[string]turn) float64) float64 {
	return measure.Median(measure.Each(c.rounds, func(r round) float64 { return figure(r.turns) }))
}

func (c *comparison) rate(name string) float64 {
	return c.over(func(t map[string]turn) float64 { return t[name].rate })
}

func (c *comparison) cpu(name string) float64 {
	return c.over(func(t map[string]turn) float64 { return microseconds(t[name].cpu) })
}

// ratio compares the rates of two targets.
func (c *comparison) ratio(name, other string) float64 {
	return c.over(func(t map[string]turn) float64 { return t[name].rate / t[other].rate })
}

// added is by how many microseconds a time is longer than without a proxy.
func (c *comparison) added(name string, figure func(turn) time.Duration) float64 {
	return c.over(func(t map[string]turn) float64 { return microseconds(figure(t[name]) - figure(t[direct])) })
}

func p50(t turn) time.Duration { return t.p50 }
func p99(t turn) time.Duration { return t.p99 }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func megabytes(n int64) float64            { return float64(n) / (1 << 20) }

// cell writes a figure, or a dash where the target is not a proxy.
func cell(name, format string, value float64) string {
	if name == direct {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

// writeCalls has one row for each target: calls one after the other, of 32 and of 128 clients.
func (r *report) writeCalls(s *strings.Builder, protocol string) {
	one, some, many := r.find(protocol, calls, 1), r.find(protocol, calls, 32), r.find(protocol, calls, 128)
	if one == nil || some == nil || many == nil {
		for _, c := range []*comparison{one, some, many} {
			if c != nil {
				c.write(s, r.names())
			}
		}
		return
	}
	table(s, protocol+", 2 KB of JSON each way", "proxy", "1 client, /s", "added p50, µs", "p99, µs", "CPU, µs",
		"32 clients, /s", "CPU, µs", "128 clients, /s", "CPU, µs")
	for _, name := range r.names() {
		fmt.Fprintf(s, "| %s | %.0f | %s | %s | %s | %.0f | %s | %.0f | %s |\n", name, one.rate(name),
			cell(name, "%.0f", one.added(name, p50)), cell(name, "%.0f", one.added(name, p99)), cell(name, "%.0f", one.cpu(name)),
			some.rate(name), cell(name, "%.0f", some.cpu(name)), many.rate(name), cell(name, "%.0f", many.cpu(name)))
	}
}

// write is a table of this comparison alone.
func (c *comparison) write(s *strings.Builder, names []string) {
	table(s, c.name(), "proxy", "/s", "added p50, µs", "p99, µs", "CPU, µs")
	for _, name := range names {
		fmt.Fprintf(s, "| %s | %.0f | %s | %s | %s |\n", name, c.rate(name), cell(name, "%.0f", c.added(name, p50)),
			cell(name, "%.0f", c.added(name, p99)), cell(name, "%.0f", c.cpu(name)))
	}
}

func (r *report) writeStreams(s *strings.Builder, protocol string) {
	first, lag, fresh := r.find(protocol, firstEvents, 1), r.find(protocol, eventLag, 1), r.find(protocol, connections, 1)
	if first == nil || lag == nil || fresh == nil {
		for _, c := range []*comparison{first, lag, fresh} {
			if c != nil {
				c.write(s, r.names())
			}
		}
		return
	}
	table(s, protocol+", event streams and new connections", "proxy", "added to the first event p50, µs", "p99, µs",
		"added to each event p50, µs", "p99, µs", "CPU for an event, µs", "new connections, /s", "CPU for one, µs")
	for _, name := range r.names() {
		fmt.Fprintf(s, "| %s | %s | %s | %s | %s | %s | %.0f | %s |\n", name,
			cell(name, "%.0f", first.added(name, p50)), cell(name, "%.0f", first.added(name, p99)),
			cell(name, "%.0f", lag.added(name, p50)), cell(name, "%.0f", lag.added(name, p99)), cell(name, "%.0f", lag.cpu(name)),
			fresh.rate(name), cell(name, "%.0f", fresh.cpu(name)))
	}
}

func (r *report) writeFootprint(s *strings.Builder, protocol string) {
	for _, f := range r.footprints {
		if f.protocol != protocol {
			continue
		}
		table(s, protocol+", what is left", "proxy", "resident after the start, MB", "after calls of 1 client, MB", "and of 128 clients, MB",
			"descriptors left by cancelled streams", "streams that the server still sends")
		for _, p := range r.proxies {
			left := f.left[p.name]
			fmt.Fprintf(s, "| %s | %.1f | %.1f | %.1f | %d | %d |\n", p.name, megabytes(left.start), megabytes(left.one),
				megabytes(left.many), left.files, left.held)
		}
	}
}

// writeNoise says how much the rounds can be trusted.
func (r *report) writeNoise(s *strings.Builder) {
	if len(r.comparisons) == 0 {
		return
	}
	table(s, "Noise", "comparison", "rounds measured", "that count", "their noise, median", "worst")
	for _, c := range r.comparisons {
		noise := measure.Each(c.rounds, func(r round) float64 { return 100 * r.noise })
		fmt.Fprintf(s, "| %s | %d | %d | %.0f %% | %.0f %% |\n", c.name(), c.measured, len(c.rounds), measure.Median(noise),
			measure.Quantile(noise, 1))
	}
}

// The part of the README that this program writes.
const (
	beginMark = "<!-- measured: begin -->\n"
	endMark   = "<!-- measured: end -->\n"
)

// writeReadme puts the report into the README beside this program's source.
func writeReadme(text string) error {
	_, source, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(source) {
		return errors.New("the program was built without paths; use go run ./bench/mitm -write")
	}
	path := filepath.Join(filepath.Dir(source), "README.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !ok || !ends {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+strings.TrimSpace(text)+"\n\n"+endMark+after), 0o644)
}
