package main

import (
	"fmt"
	"slices"

	"perigee/bench/internal/measure"
)

// A promise is a limit that perigee states, and what was measured.
type promise struct {
	what  string
	limit string // empty means nothing is promised; it is told because it stands beside a promise
	found string
	kept  bool

	aim        bool // it is worked on, and not promised yet: reported, and no reason to fail
	unmeasured bool // found says why; it can be neither kept nor broken
}

// How much more a byte may cost in the largest body than in a smaller one for growth to count as
// linear. The bodies that are judged are both too large for the processor's caches and for the
// memory that is kept from call to call; what smaller ones save by fitting there is told, not
// judged.
const (
	steepest          = 1.25
	steepestPreparing = 1.5
)

// promises is a list of promises under construction.
type promises []promise

func (l *promises) add(p promise) { *l = append(*l, p) }

func (l *promises) atMost(what string, found, limit float64, format string) {
	l.add(promise{what: what, limit: "≤ " + fmt.Sprintf(format, limit), found: fmt.Sprintf(format, found), kept: found <= limit})
}

func (l *promises) aimFor(what string, found, limit float64, format string) {
	l.atMost(what, found, limit, format)
	(*l)[len(*l)-1].aim = true
}

// promises compares the report with the limits. Each limit stands in one place only: here and in
// the functions called here.
func (r *report) promises() []promise {
	var l promises
	r.promiseTimes(&l)
	r.promiseWeight(&l)
	r.promiseStreams(&l)
	r.promiseGrowth(&l)
	r.promisePreparing(&l)
	if p, ok := r.shapePromise(); ok {
		l.add(p)
	}
	if p, ok := r.scanPromise(); ok {
		l.add(p)
	}
	return l
}

// promiseTimes is about time and CPU of single calls.
func (r *report) promiseTimes(l *promises) {
	for _, c := range r.cells {
		if c.size != 100<<10 {
			continue
		}
		ratio := "CPU against ReverseProxy, " + c.String()
		if c.clients == 1 {
			l.atMost("added time to first event, Gemini, "+c.String(), c.added(perigee), 1, "%.2f ms")
			l.atMost(ratio, c.over(cpuRatio), 1.5, "%.2f")
		} else {
			l.add(promise{what: ratio, found: fmt.Sprintf("%.2f", c.over(cpuRatio)), kept: true})
		}
	}
	for _, c := range r.translations {
		if c.size != 100<<10 {
			continue
		}
		for i, d := range translated {
			l.atMost(fmt.Sprintf("added time to first event, %s, %v", d.name, c), c.added(1+i), 1, "%.2f ms")
		}
	}
	if len(r.cases) > 0 {
		*l = append(*l, r.caseLimits()...)
	}
	if len(r.late) > 0 {
		for i := perigee; i < len(lateTargets); i++ {
			l.atMost(fmt.Sprintf("a chunk of %d slow streams comes later than from ReverseProxy, %s", slowStreams, lateTargets[i]), r.lateAdded(i), 0.3, "%.2f ms")
		}
	}
}

// promiseWeight is about start, idle memory and the memory of large bodies.
func (r *report) promiseWeight(l *promises) {
	if w := r.weight; w.firstStart.took > 0 {
		l.atMost("start, empty data directory", milliseconds(w.firstStart.took), 100, "%.0f ms")
		l.atMost("CPU until listening, empty data directory", milliseconds(w.firstStart.cpu), 20, "%.1f ms")
		l.atMost("CPU until listening, later", milliseconds(w.laterStart.cpu), 20, "%.1f ms")
		l.atMost("resident when idle, after start", megabytes(w.idle), 30, "%.1f MB")
		l.atMost("binary, stripped", megabytes(w.binary), 36, "%.1f MB")
	}
	if r.weight.afterLoad > 0 {
		l.atMost("resident when idle, after load", megabytes(r.weight.afterLoad), 30, "%.1f MB")
	}
	for _, g := range r.growth {
		if g.size >= 10<<20 { // below that the process itself is larger than the body
			l.atMost(fmt.Sprintf("memory for a body of %s, %s", measure.BytesText(int64(g.size)), g.way), g.times(), 4, "%.1f times")
		}
	}
	if heaviest, ok := r.heaviest(); ok {
		l.aimFor(fmt.Sprintf("memory for a body of %s, most of all ways (%s)", measure.BytesText(int64(heaviest.size)), heaviest.way), heaviest.times(), 3, "%.1f times")
	}
}

// promiseStreams is about the memory of streams that say nothing.
func (r *report) promiseStreams(l *promises) {
	for _, q := range r.streams {
		if q.bare {
			continue
		}
		what := fmt.Sprintf("memory for a quiet stream, %d of them, %s, %s, %s to the provider", q.reached, q.dialect, measure.BytesText(int64(q.size)), q.protocol)
		if q.size == 1<<10 {
			l.aimFor(what, q.perStream(), 40, "%.1f KB")
		} else {
			l.add(promise{what: what, found: fmt.Sprintf("%.1f KB", q.perStream()), kept: true})
		}
		if bare, ok := r.bareStream(q); ok {
			l.aimFor(fmt.Sprintf("memory for a quiet stream against ReverseProxy's, %s, %s", q.dialect, measure.BytesText(int64(q.size))), q.perStream()/bare.perStream(), 1, "%.2f")
		}
	}
}

// promiseGrowth is about CPU per byte as bodies grow.
func (r *report) promiseGrowth(l *promises) {
	for _, way := range growthWays() {
		for _, from := range []int{1 << 20, 10 << 20} {
			at, largest, ok := r.slope(way.name, from)
			if !ok {
				continue
			}
			what, found := fmt.Sprintf("CPU per byte, %s against %s, %s", measure.BytesText(int64(largest.size)), measure.BytesText(int64(from)), way.name), largest.perByte()/at.perByte()
			if from == 1<<20 {
				l.add(promise{what: what, found: fmt.Sprintf("%.2f", found), kept: true})
			} else {
				l.atMost(what, found, steepest, "%.2f")
			}
		}
	}
}

// promisePreparing is about preparing a request for the gateway.
func (r *report) promisePreparing(l *promises) {
	for _, p := range r.preparations {
		if p.size == preparedSize {
			l.atMost(fmt.Sprintf("preparing %s with %d tools, %s", measure.BytesText(int64(p.size)), preparedTools, p.model), milliseconds(p.took), 1, "%.2f ms")
		}
	}
	for i := range r.preparations {
		if i+1 == len(r.preparations) || r.preparations[i+1].model != r.preparations[i].model { // the largest of a model
			at, largest := r.preparations[i-1], r.preparations[i]
			l.atMost(fmt.Sprintf("preparing, time per byte, %s against %s, %s", measure.BytesText(int64(largest.size)), measure.BytesText(int64(at.size)), at.model),
				(float64(largest.took)/float64(largest.size))/(float64(at.took)/float64(at.size)), steepestPreparing, "%.2f")
		}
	}
}

// heaviest returns the growth that takes the most memory of those at the largest size.
func (r *report) heaviest() (heaviest growth, ok bool) {
	for _, g := range r.growth {
		if g.size >= heaviest.size && (g.size > heaviest.size || g.times() > heaviest.times()) {
			heaviest, ok = g, g.size >= 10<<20
		}
	}
	return heaviest, ok
}

// bareStream returns what a stream of the same size costs the bare proxy, which was measured over
// HTTP/1.1.
func (r *report) bareStream(q quiet) (bare quiet, ok bool) {
	for _, other := range r.streams {
		if other.bare && other.size == q.size && other.protocol == q.protocol {
			return other, true
		}
	}
	return quiet{}, false
}

// slope returns the growths on a way at a size and at the largest.
func (r *report) slope(way string, from int) (at, largest growth, ok bool) {
	for _, g := range r.growth {
		if g.way != way {
			continue
		}
		if g.size == from {
			at, ok = g, true
		}
		largest = g
	}
	return at, largest, ok
}

func (r *report) broken() bool { return anyBroken(r.promises()) }

func anyBroken(list []promise) bool {
	return slices.ContainsFunc(list, func(p promise) bool { return !p.kept && !p.unmeasured && !p.aim })
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }
