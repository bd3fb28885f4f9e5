package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// An outcome is one row of the report.
type outcome struct {
	client   client
	scenario string
	result   string // pass, FAIL or skip
	reason   string
}

// A report collects outcomes and tells each as it comes. Clients that run at the same time share
// it.
type report struct {
	out      io.Writer
	mu       sync.Mutex
	outcomes []outcome
	failed   int
	last     time.Time
	times    []clientTime
}

// A clientTime is how long all scenarios of a client took.
type clientTime struct {
	name string
	took time.Duration
}

func newReport(out io.Writer) *report { return &report{out: out, last: time.Now()} }

// add tells how a scenario went; a nil error is a pass.
func (r *report) add(c client, scenario string, err error) {
	o := outcome{client: c, scenario: scenario, result: "pass"}
	if err != nil {
		o.result, o.reason = "FAIL", err.Error()
	}
	r.append(o)
}

// skip tells that a client could not be installed.
func (r *report) skip(c client, reason string) {
	for _, scenario := range c.scenarios {
		r.append(outcome{client: c, scenario: scenario, result: "skip", reason: reason})
	}
}

func (r *report) append(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.result == "FAIL" {
		r.failed++
	}
	r.outcomes = append(r.outcomes, o)
	now := time.Now()
	fmt.Fprintf(r.out, "%s  %s %s: %s  (%.1fs)\n", o.result, o.client.name, o.client.version, o.scenario, now.Sub(r.last).Seconds())
	if o.result == "FAIL" {
		fmt.Fprintf(r.out, "      %s\n", strings.ReplaceAll(strings.TrimSpace(o.reason), "\n", "\n      "))
	}
	r.last = now
}

// took tells how long a client ran.
func (r *report) took(c client, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, clientTime{c.name, d})
}

// slowest are the clients that ran the longest.
func (r *report) slowest(n int) string {
	slices.SortStableFunc(r.times, func(a, b clientTime) int { return cmp.Compare(b.took, a.took) })
	var list []string
	for _, t := range r.times[:min(n, len(r.times))] {
		list = append(list, fmt.Sprintf("%s %.0fs", t.name, t.took.Seconds()))
	}
	return strings.Join(list, ", ")
}

// say tells something about a scenario that has passed.
func (r *report) say(c client, scenario, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "      %s: %s: %s\n", c.name, scenario, text)
}

// finish writes the table, why clients were skipped, which took the longest, and the closing line
// that scripts read.
func (r *report) finish() {
	fmt.Fprintln(r.out)
	table := tabwriter.NewWriter(r.out, 0, 8, 1, ' ', 0)
	fmt.Fprintln(table, "client\t| version\t| scenario\t| result")
	count := map[string]int{}
	var reasons []string
	for _, o := range r.outcomes {
		fmt.Fprintf(table, "%s\t| %s\t| %s\t| %s\n", o.client.name, o.client.version, o.scenario, o.result)
		count[o.result]++
		if line := fmt.Sprintf("skipped %s: %s", o.client.name, o.reason); o.result == "skip" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	table.Flush()
	fmt.Fprintln(r.out)
	for _, line := range reasons {
		fmt.Fprintln(r.out, line)
	}
	if len(r.times) > 0 {
		fmt.Fprintln(r.out, "the slowest: "+r.slowest(10))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", count["pass"], count["FAIL"], count["skip"])
}
