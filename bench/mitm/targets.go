//go:build linux

package main

import "fmt"

// What perigee's proxy promises. Ratios and differences are medians over rounds of one run.
const (
	tolerance    = 0.05 // by which two runs of the same proxy differ
	firstNoise   = 220  // microseconds by which the first event may be later than through the plain proxy
	http2Speedup = 1.5  // over goproxy, which has its own HTTP/2 server
	memoryOne    = 16   // MB after calls one after the other
	memoryMany   = 45   // MB after calls of 128 clients
)

// A goal is one target and what was found.
type goal struct {
	what, limit, found string
	kept               bool
}

func (r *report) missed() bool {
	for _, t := range r.targets() {
		if !t.kept {
			return true
		}
	}
	return false
}

// missedBy reports whether a comparison misses a target.
func (r *report) missedBy(c *comparison) bool {
	alone := report{proxies: r.proxies, comparisons: []*comparison{c}}
	return alone.missed()
}

// targets compares what was measured. What was not measured has no target.
func (r *report) targets() []goal {
	var all []goal
	for _, protocol := range []string{http1, http2} {
		if r.has(perigee, plainProxy) {
			all = append(all, r.besidePlain(protocol)...)
		}
		if r.has(perigee, goproxy) {
			all = append(all, r.besideGoproxy(protocol)...)
		}
	}
	for _, f := range r.footprints {
		all = append(all, r.leftBehind(f)...)
	}
	return all
}

func (r *report) besidePlain(protocol string) (all []goal) {
	if c := r.find(protocol, calls, 1); c != nil {
		bare, ours := c.added(plainProxy, p50), c.added(perigee, p50)
		all = append(all, goal{
			what: protocol + ", added to a call, p50", limit: fmt.Sprintf("≤ plain, %.0f µs", bare),
			found: fmt.Sprintf("%.0f µs", ours), kept: ours <= bare*(1+tolerance),
		})
	}
	if c := r.find(protocol, firstEvents, 1); c != nil {
		bare, ours := c.added(plainProxy, p50), c.added(perigee, p50)
		all = append(all, goal{
			what: protocol + ", added to the first event, p50", limit: fmt.Sprintf("≤ plain + %d µs, %.0f µs", firstNoise, bare+firstNoise),
			found: fmt.Sprintf("%.0f µs", ours), kept: ours <= bare+firstNoise,
		})
	}
	return all
}

func (r *report) besideGoproxy(protocol string) (all []goal) {
	for _, clients := range []int{1, 32, 128} {
		c := r.find(protocol, calls, clients)
		if c == nil {
			continue
		}
		limit := 1.0
		if protocol == http2 && clients > 1 {
			limit = http2Speedup
		}
		ratio := c.ratio(perigee, goproxy)
		all = append(all, goal{
			what: c.name() + ", per second, beside goproxy", limit: fmt.Sprintf("≥ %.2f", limit),
			found: fmt.Sprintf("%.2f", ratio), kept: ratio >= limit*(1-tolerance),
		})
	}
	return all
}

func (r *report) leftBehind(f *footprint) (all []goal) {
	for _, name := range []string{perigee, command} {
		left, ok := f.left[name]
		if !ok {
			continue
		}
		all = append(all, goal{
			what: fmt.Sprintf("%s, descriptors and streams left by cancelled streams, %s", f.protocol, name), limit: "0",
			found: fmt.Sprintf("%d and %d", left.files, left.held), kept: left.files == 0 && left.held == 0,
		})
		if name == perigee { // the command is a larger program
			all = append(all,
				memoryGoal(f.protocol+", resident after calls of 1 client", left.one, memoryOne),
				memoryGoal(f.protocol+", resident after calls of 128 clients", left.many, memoryMany))
		}
	}
	return all
}

func memoryGoal(what string, found int64, limit float64) goal {
	return goal{what: what, limit: fmt.Sprintf("≤ %.0f MB", limit), found: fmt.Sprintf("%.1f MB", megabytes(found)), kept: megabytes(found) <= limit*(1+tolerance)}
}
