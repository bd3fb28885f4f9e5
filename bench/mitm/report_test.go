//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// made is a comparison with rounds of one figure for each target: its p50 in microseconds, and a
// rate of as many.
func made(protocol string, k kind, clients int, rounds ...map[string]int) *comparison {
	c := &comparison{protocol: protocol, kind: k, clients: clients}
	for _, figures := range rounds {
		r := round{turns: map[string]turn{}}
		for name, n := range figures {
			r.turns[name] = turn{rate: float64(n), p50: time.Duration(n) * time.Microsecond}
		}
		c.rounds = append(c.rounds, r)
	}
	return c
}

func TestTargetsUseDifferencesWithinARound(t *testing.T) {
	r := report{proxies: []*proxy{{name: plainProxy}, {name: perigee}, {name: goproxy}}}
	r.comparisons = []*comparison{
		// The machine is slower in each round, and perigee adds 80 µs where plain adds 100.
		made(http1, calls, 1, map[string]int{direct: 50, plainProxy: 150, perigee: 130, goproxy: 100},
			map[string]int{direct: 500, plainProxy: 600, perigee: 580, goproxy: 500},
			map[string]int{direct: 900, plainProxy: 1000, perigee: 980, goproxy: 900}),
		made(http2, calls, 32, map[string]int{direct: 1, plainProxy: 1, perigee: 140, goproxy: 100}),
		made(http2, firstEvents, 1, map[string]int{direct: 100, plainProxy: 200, perigee: 421, goproxy: 100}),
	}
	r.footprints = []*footprint{{protocol: http1, left: map[string]remains{perigee: {one: 16 << 20, many: 48 << 20}, command: {files: 1}}}}
	var found []string
	for _, g := range r.targets() {
		found = append(found, strings.Join([]string{g.what, g.limit, g.found, map[bool]string{true: "kept", false: "missed"}[g.kept]}, ": "))
	}
	want := `HTTP/1.1, added to a call, p50: ≤ plain, 100 µs: 80 µs: kept
HTTP/1.1 requests, 1 at a time, per second, beside goproxy: ≥ 1.00: 1.16: kept
HTTP/2, added to the first event, p50: ≤ plain + 220 µs, 320 µs: 321 µs: missed
HTTP/2 requests, 32 at a time, per second, beside goproxy: ≥ 1.50: 1.40: missed
HTTP/1.1, descriptors and streams left by cancelled streams, perigee: 0: 0 and 0: kept
HTTP/1.1, resident after calls of 1 client: ≤ 16 MB: 16.0 MB: kept
HTTP/1.1, resident after calls of 128 clients: ≤ 45 MB: 48.0 MB: missed
HTTP/1.1, descriptors and streams left by cancelled streams, perigee mitm: 0: 1 and 0: missed`
	if got := strings.Join(found, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !r.missed() {
		t.Error("nothing was missed")
	}
}
