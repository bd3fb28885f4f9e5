package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// A peerReport is what the comparison with other gateways has found.
type peerReport struct {
	machine  string
	short    bool
	gateways []*gateway // perigee first
	cells    []*peerCell
}

// A peerPromise is what part of a peer's cost perigee's may be.
type peerPromise struct {
	peer           string
	added, cpu     float64 // 0 means nothing is promised
	onlyTranslated bool    // the limit for CPU holds where perigee has to translate
}

var peerPromises = []peerPromise{
	{peer: "CLIProxyAPI", cpu: 0.1, onlyTranslated: true},
	{peer: "bifrost", added: 0.5, cpu: 0.5, onlyTranslated: true},
}

func (r *peerReport) broken() bool { return anyBroken(r.promises()) }

// promises judges the report. What could not be measured is neither kept nor broken.
func (r *peerReport) promises() []promise {
	var list []promise
	for _, made := range peerPromises {
		for _, c := range r.cells {
			add := func(what string, limit float64, ratio func(ours, theirs int) func(round) float64) {
				p := promise{what: fmt.Sprintf("%s against %s, %s, %s", what, made.peer, c.dialect.name, measure.BytesText(peerBody)), limit: fmt.Sprintf("≤ %.2f", limit)}
				p.unmeasured, p.found = true, "not measured"
				if ours, theirs, ok := r.places(c, made.peer); ok {
					found := c.cell.over(ratio(ours, theirs))
					p.unmeasured, p.found, p.kept = false, fmt.Sprintf("%.2f", found), found <= limit
				}
				list = append(list, p)
			}
			if made.added > 0 {
				add("added time to first event", made.added, addedRatio)
			}
			if made.cpu > 0 && (c.dialect != gemini || !made.onlyTranslated) {
				add("CPU", made.cpu, peerCPURatio)
			}
		}
	}
	return list
}

// places finds perigee and a peer in the rounds of a comparison.
func (r *peerReport) places(c *peerCell, peer string) (ours, theirs int, ok bool) {
	i := slices.IndexFunc(r.gateways, func(g *gateway) bool { return g.name == peer })
	if i < 0 {
		return 0, 0, false
	}
	ours, measured := c.place(r.gateways[0])
	theirs, ok = c.place(r.gateways[i])
	return ours, theirs, measured && ok
}

// peerCPURatio is perigee's CPU for a call over a peer's.
func peerCPURatio(ours, theirs int) func(round) float64 {
	return func(r round) float64 { return float64(r[ours].cpu) / float64(r[theirs].cpu) }
}

// addedRatio is the time that perigee adds over what a peer adds.
func addedRatio(ours, theirs int) func(round) float64 {
	return func(r round) float64 {
		return float64(r[ours].first50-r[direct].first50) / float64(r[theirs].first50-r[direct].first50)
	}
}

// markdown writes the report as tables.
func (r *peerReport) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured with `go run ./bench -peers` on: %s.\n", r.machine)
	if r.short {
		s.WriteString("This was a short run; its figures are rough.\n")
	}
	writePromises(&s, r.promises())
	r.writeCells(&s)
	r.writeGateways(&s)
	return s.String()
}

func (r *peerReport) writeCells(s *strings.Builder) {
	table(s, fmt.Sprintf("Gateways in front of the same provider, %s, streamed, one call after the other", measure.BytesText(peerBody)),
		"dialect", "gateway", "first event p50, ms", "p99", "added p50, ms", "p99", "whole p50, ms", "CPU, µs", "CPU over perigee's")
	for _, c := range r.cells {
		first := func(place int) string {
			return fmt.Sprintf("%.2f | %.2f", c.cell.time(place, func(t turn) time.Duration { return t.first50 }),
				c.cell.time(place, func(t turn) time.Duration { return t.first99 }))
		}
		whole := func(place int) float64 {
			return c.cell.time(place, func(t turn) time.Duration { return t.total50 })
		}
		fmt.Fprintf(s, "| %s | direct, Gemini | %s | – | – | %.2f | – | – |\n", c.dialect.name, first(direct), whole(direct))
		for _, g := range r.gateways {
			place, ok := c.place(g)
			if !ok {
				fmt.Fprintf(s, "| %s | %v | not measured | – | – | – | – | – | – |\n", c.dialect.name, g)
				continue
			}
			ratio := "1"
			if ours, theirs, ok := r.places(c, g.name); ok && ours != theirs {
				ratio = fmt.Sprintf("%.1f", c.cell.over(peerCPURatio(theirs, ours)))
			}
			fmt.Fprintf(s, "| %s | %v | %s | %.2f | %.2f | %.2f | %.0f | %s |\n", c.dialect.name, g, first(place),
				c.cell.added(place), c.cell.addedTail(place), whole(place), 1000*c.cell.time(place, func(t turn) time.Duration { return t.cpu }), ratio)
		}
	}
}

// writeGateways tells what each gateway is and weighs, and why it was not measured, where it was
// not.
func (r *peerReport) writeGateways(s *strings.Builder) {
	table(s, "The gateways", "gateway", "module", "resident after the load, MB", "binary, stripped, MB", "not measured")
	for _, g := range r.gateways {
		module, resident, binary := "this source", "–", "–"
		if g.peer != nil {
			module = g.peer.module + "@" + g.version
		}
		if g.resident > 0 {
			resident = fmt.Sprintf("%.1f", megabytes(g.resident))
		}
		if g.binary > 0 {
			binary = fmt.Sprintf("%.1f", megabytes(g.binary))
		}
		fmt.Fprintf(s, "| %s | %s | %s | %s | %s |\n", g.name, module, resident, binary, r.trouble(g))
	}
}

// trouble is why a gateway was not measured, once for all dialects where it is the same.
func (r *peerReport) trouble(g *gateway) string {
	if g.trouble != "" {
		return g.trouble
	}
	var reasons []string
	for _, c := range r.cells {
		if why, ok := c.void[g]; ok {
			reasons = append(reasons, c.dialect.name+": "+why)
		}
	}
	if len(reasons) == 0 {
		return "–"
	}
	return strings.Join(reasons, "; ")
}
