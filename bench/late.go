package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/bench/internal/measure"
)

// The slow streams: how many at once, the chunks of each, and the time between two, as models
// write.
const (
	slowStreams = 50
	slowChunks  = 50
	slowPace    = 20 * time.Millisecond
)

// stampMark stands before the time at which the provider sent a chunk, in the chunk's text:
// nanoseconds since 1970.
const (
	stampMark   = "sent:"
	stampDigits = 19
)

// A lateness is what one target did to the chunks of slow streams in one round.
type lateness struct {
	p50, p99 time.Duration // from the provider's write to the client's read
	cpu      time.Duration // of the target, for one chunk
}

// lateTargets are asked in turn.
var lateTargets = []string{direct: "direct", proxy: "ReverseProxy", perigee: "perigee, Gemini", perigee + 1: "perigee, Chat"}

// A lateRound has one lateness for each of lateTargets.
type lateRound []lateness

// measureLate sends slow streams through each target in turn.
func (b *bench) measureLate(ctx context.Context) error {
	targets, err := b.startTargets(ctx)
	if err != nil {
		return err
	}
	defer targets[proxy].process.Stop()
	defer targets[perigee].process.Stop()
	targets = append(targets, target{name: lateTargets[perigee+1], process: targets[perigee].process, dialect: chat})
	for n := range b.plan.lateRounds + 1 {
		r := make(lateRound, len(targets))
		for step := range targets {
			i := (n + step) % len(targets)
			if r[i], err = followSlow(ctx, targets[i]); err != nil {
				return fmt.Errorf("%s: %w", lateTargets[i], err)
			}
		}
		if n > 0 { // the first opens connections behind the proxies
			b.report.late = append(b.report.late, r)
		}
	}
	return nil
}

// followSlow opens all slow streams at once, so that their chunks come in bursts, and reads them to
// their end.
func followSlow(ctx context.Context, t target) (lateness, error) {
	request := newQuestion(t.dialect, slowModel, 1<<10).request(t.process.Addr)
	before, err := t.process.CPU()
	if err != nil {
		return lateness{}, err
	}
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		late   []time.Duration
		failed error
	)
	for range slowStreams {
		group.Go(func() {
			own, err := followOne(ctx, t.process.Addr, request)
			mu.Lock()
			defer mu.Unlock()
			late, failed = append(late, own...), errors.Join(failed, err)
		})
	}
	group.Wait()
	if failed != nil {
		return lateness{}, failed
	}
	after, err := t.process.CPU()
	if err != nil {
		return lateness{}, err
	}
	return lateness{p50: measure.Median(late), p99: measure.Quantile(late, 0.99), cpu: (after - before) / time.Duration(len(late))}, nil
}

// followOne makes one call and returns how late each of its chunks was.
func followOne(ctx context.Context, addr string, request []byte) ([]time.Duration, error) {
	conn, err := openConn(ctx, addr, request)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	late := make([]time.Duration, 0, slowChunks)
	answer := make([]byte, 0, 64<<10)
	for seen := 0; len(late) < slowChunks; {
		n, err := conn.Read(answer[len(answer):cap(answer)])
		now := time.Now()
		answer = answer[:len(answer)+n]
		for {
			at := bytes.Index(answer[seen:], []byte(stampMark))
			if at < 0 || seen+at+len(stampMark)+stampDigits > len(answer) {
				break
			}
			seen += at + len(stampMark) + stampDigits
			sent, err := strconv.ParseInt(string(answer[seen-stampDigits:seen]), 10, 64)
			if err != nil {
				return nil, err
			}
			late = append(late, now.Sub(time.Unix(0, sent)))
		}
		if err != nil && len(late) < slowChunks {
			return nil, errors.Join(err, fmt.Errorf("%d chunks instead of %d: %.300s", len(late), slowChunks, answer))
		}
	}
	return late, nil
}

// stampedChunk is a chunk of a slow stream that is sent now.
func stampedChunk(last bool) []byte {
	end := ""
	if last {
		end = `"finishReason": "STOP",`
	}
	return fmt.Appendf(nil, `data: {"candidates": [{"content": {"parts": [{"text": "%s%d and so on "}],"role": "model"},%s"index": 0}],`+
		`"usageMetadata": {"promptTokenCount": 25317,"candidatesTokenCount": 9,"totalTokenCount": 25326},`+
		`"modelVersion": "gemini-3-flash","responseId": "b3Blbi1iZW5jaA"}`+"\r\n\r\n", stampMark, time.Now().UnixNano(), end)
}

// lateOver is the median over the rounds of a figure that a round shows.
func (r *report) lateOver(figure func(lateRound) float64) float64 {
	return measure.Median(measure.Each(r.late, figure))
}

// lateAdded is how much later than from the bare proxy a chunk comes from a target, at the median,
// in milliseconds.
func (r *report) lateAdded(target int) float64 {
	return r.lateOver(func(l lateRound) float64 { return milliseconds(l[target].p50 - l[proxy].p50) })
}

func (r *report) writeLate(s *strings.Builder) {
	if len(r.late) == 0 {
		return
	}
	table(s, fmt.Sprintf("%d slow streams at once, a chunk every %v: from the provider's write to the client's read", slowStreams, slowPace),
		"target", "p50, ms", "p99, ms", "p50 over ReverseProxy's, ms", "CPU for a chunk, µs")
	for i, name := range lateTargets {
		cpu, added := "–", "–"
		if i != direct {
			cpu = fmt.Sprintf("%.0f", r.lateOver(func(l lateRound) float64 { return float64(l[i].cpu) / float64(time.Microsecond) }))
			added = fmt.Sprintf("%+.2f", r.lateAdded(i))
		}
		fmt.Fprintf(s, "| %s | %.2f | %.2f | %s | %s |\n", name,
			r.lateOver(func(l lateRound) float64 { return milliseconds(l[i].p50) }),
			r.lateOver(func(l lateRound) float64 { return milliseconds(l[i].p99) }), added, cpu)
	}
}
