package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perigee/internal/lib/rawjson"
)

// hostileTexts are JSON that is hard to check, by what it has much of: nearly n of it.
var hostileTexts = []struct {
	name  string
	build func(n int) string
}{
	{"keys", func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + `"":0}`
	}},
	{"escaped keys of one prefix", func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"\u0061aaaaaaaaaaaaaaaaaaaaaaa%daaaaaaaaaaaaaaaaaaaa":0,`, i)
		}
		return "{" + b.String() + `"":0}`
	}},
	{"containers to the limit", func(n int) string {
		return "[" + strings.Repeat(strings.Repeat("[", 999)+strings.Repeat("]", 999)+",", n/1000) + "0]"
	}},
	{"objects to the limit", func(n int) string {
		return strings.Repeat("["+strings.Repeat(`{"a":1,"b":`, 900)+"1"+strings.Repeat("}", 900)+",", min(n/900, 90))
	}},
	{"open string", func(n int) string { return `"` + strings.Repeat(`\"`, n) }},
	{"backslashes", func(n int) string { return `"` + strings.Repeat(`\\`, n) + `"` }},
	{"one long number", func(n int) string { return strings.Repeat("1", 10*n) }},
	{"white space", func(n int) string { return strings.Repeat(" \n", 10*n) }},
	{"small escaped objects", func(n int) string { return "[" + strings.Repeat(`{"\u0061":1,"b":2},`, n) + "0]" }},
}

// A scan is what checking and skipping a hostile text costs for each byte, and at a tenth of its
// size.
type scan struct {
	name         string
	small, large float64 // nanoseconds
}

// growth is how many times as much a byte costs in the larger text.
func (s scan) growth() float64 { return s.large / s.small }

const scanned = 200_000

// measureScans checks hostile texts in this process. The fastest run is the one that was disturbed
// least.
func (b *bench) measureScans(ctx context.Context) error {
	for _, text := range hostileTexts {
		perByte := func(n int) float64 {
			data := []byte(text.build(n))
			best := time.Hour
			for range 30 {
				began := time.Now()
				_ = rawjson.Check(data)
				rawjson.NewCursor(data).Skip()
				best = min(best, time.Since(began))
			}
			return float64(best) / float64(len(data))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b.report.scans = append(b.report.scans, scan{text.name, perByte(scanned / 10), perByte(scanned)})
	}
	return nil
}

// steepestScan is how much more a byte may cost in a hostile text of ten times the size; where
// checking grows with the square it is ten times as much. The smaller texts fit into the
// processor's caches.
const steepestScan = 6

// scanPromise is about the worst of them.
func (r *report) scanPromise() (promise, bool) {
	if len(r.scans) == 0 {
		return promise{}, false
	}
	worst := r.scans[0]
	for _, s := range r.scans {
		if s.growth() > worst.growth() {
			worst = s
		}
	}
	return promise{
		what:  fmt.Sprintf("checking hostile JSON, time per byte at ten times the size, worst: %s", worst.name),
		limit: fmt.Sprintf("≤ %d.0", steepestScan), found: fmt.Sprintf("%.1f", worst.growth()), kept: worst.growth() <= steepestScan,
	}, true
}
