//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"perigee/bench/internal/measure"
)

// A step is one part of a run.
type step interface {
	name() string
	measure(context.Context, *bench) error
}

func (b *bench) steps() []step {
	var list []step
	for _, protocol := range []string{http1, http2} {
		for _, clients := range []int{1, 32, 128} {
			list = append(list, &comparison{protocol: protocol, kind: calls, clients: clients})
		}
		for _, k := range []kind{firstEvents, eventLag, connections} {
			list = append(list, &comparison{protocol: protocol, kind: k, clients: 1})
		}
		list = append(list, &footprint{protocol: protocol})
	}
	return list
}

// A kind is what a comparison times.
type kind string

const (
	calls       kind = "requests"
	firstEvents kind = "first events"
	eventLag    kind = "lag of events"
	connections kind = "new connections"
)

// A turn is what was found about one target in one round.
type turn struct {
	rate     float64 // per second
	p50, p99 time.Duration
	cpu      time.Duration // of the proxy, for one
}

// A round has a turn of each target, and of the server without a proxy before and after them.
type round struct {
	turns map[string]turn
	noise float64 // by how much the two turns of the server without a proxy differ
}

// A comparison calls all targets in turns.
type comparison struct {
	protocol string
	kind     kind
	clients  int
	rounds   []round // those that count
	measured int
}

func (c *comparison) name() string {
	if c.kind == calls {
		return fmt.Sprintf("%s %s, %d at a time", c.protocol, c.kind, c.clients)
	}
	return fmt.Sprintf("%s %s", c.protocol, c.kind)
}

// quiet is how far the figures of the server without a proxy may differ within a round. A round
// with more noise is measured again, but not more often than there are rounds; then the quietest
// ones count.
const quiet = 0.15

func (c *comparison) measure(ctx context.Context, b *bench) error {
	targets, err := b.targets(ctx, c.protocol)
	if err != nil {
		return err
	}
	var all []*subject
	defer func() {
		for _, s := range all {
			s.clients.close()
		}
	}()
	for _, t := range targets {
		s := &subject{target: t}
		if c.kind != connections {
			if s.clients, err = t.crowd(ctx, c.clients); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		all = append(all, s)
	}
	if _, err := c.round(ctx, b.plan, all); err != nil { // warms all of them up
		return err
	}
	b.report.comparisons = append(b.report.comparisons, c)
	var pool []round
	for more := 1; more <= maxBatches; more++ {
		if pool, err = c.batch(ctx, b.plan, all, pool); err != nil {
			return err
		}
		c.measured = len(pool)
		slices.SortStableFunc(pool, func(a, b round) int { return cmp.Compare(a.noise, b.noise) })
		if c.rounds = pool[:more*b.plan.rounds]; !b.report.missedBy(c) {
			break
		}
	}
	return nil
}

// maxBatches is how often a comparison is made that misses a target. All of them count.
const maxBatches = 3

// batch adds rounds until enough of them are quiet.
func (c *comparison) batch(ctx context.Context, p plan, all []*subject, pool []round) ([]round, error) {
	for found, measured := 0, 0; measured < 2*p.rounds && found < p.rounds; measured++ {
		r, err := c.round(ctx, p, all)
		if err != nil {
			return nil, err
		}
		if pool = append(pool, r); r.noise <= quiet {
			found++
		}
		proxied := all[1:] // their order changes, so that none always follows the same one
		copy(proxied, slices.Concat(proxied[1:], proxied[:1]))
	}
	return pool, nil
}

// A subject is a target with clients that stay connected through all rounds.
type subject struct {
	*target
	clients crowd
}

func (c *comparison) round(ctx context.Context, p plan, all []*subject) (round, error) {
	r := round{turns: map[string]turn{}}
	for _, s := range all {
		found, err := c.turn(ctx, p, s)
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.name, err)
		}
		r.turns[s.name] = found
	}
	before := r.turns[direct]
	after, err := c.turn(ctx, p, all[0])
	if err != nil {
		return r, err
	}
	r.noise = math.Abs(math.Log(float64(after.p50) / float64(before.p50)))
	r.turns[direct] = turn{rate: (before.rate + after.rate) / 2, p50: (before.p50 + after.p50) / 2, p99: (before.p99 + after.p99) / 2}
	return r, nil
}

// turn measures one target.
func (c *comparison) turn(ctx context.Context, p plan, s *subject) (found turn, err error) {
	before, err := s.cpu()
	if err != nil {
		return found, err
	}
	began := time.Now()
	var times []time.Duration
	switch c.kind {
	case calls:
		times, err = s.clients.callFor(ctx, p.turn, math.MaxInt)
	case firstEvents:
		times, err = s.clients[0].timeFirsts(ctx, p.firsts)
	case eventLag:
		times, err = s.clients[0].timeLag(ctx, p.events)
	case connections:
		times, err = s.connectFor(ctx, p.turn)
	}
	if err != nil {
		return found, err
	}
	took := time.Since(began)
	after, err := s.cpu()
	return turn{
		rate: float64(len(times)) / took.Seconds(), cpu: (after - before) / time.Duration(len(times)),
		p50: measure.Median(times), p99: measure.Quantile(times, 0.99),
	}, err
}

func (t *target) cpu() (time.Duration, error) {
	if t.process == nil {
		return 0, nil
	}
	return t.process.CPU()
}

// callFor lets every client call until the time is over or there were so many calls, and returns
// how long each took.
func (clients crowd) callFor(ctx context.Context, d time.Duration, limit int) ([]time.Duration, error) {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		all    []time.Duration
		failed error
	)
	start := time.Now()
	for _, c := range clients {
		group.Go(func() {
			var times []time.Duration
			var err error
			for range max(1, limit/len(clients)) {
				began := time.Now()
				if err = c.call(ctx); err != nil {
					break
				}
				now := time.Now()
				times = append(times, now.Sub(began))
				if now.Sub(start) >= d || ctx.Err() != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			failed = errors.Join(failed, err)
		})
	}
	group.Wait()
	return all, errors.Join(failed, ctx.Err())
}

// timeFirsts opens streams one after the other and times from the request to the first event.
func (c *client) timeFirsts(ctx context.Context, n int) (times []time.Duration, err error) {
	for range n {
		began := time.Now()
		err := c.follow(ctx, eventsPath+"?n=1", func(_, came time.Time) bool {
			times = append(times, came.Sub(began))
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return times, expect(len(times), n)
}

// timeLag reads a stream with an event every millisecond and times from sending to receiving.
func (c *client) timeLag(ctx context.Context, n int) (times []time.Duration, err error) {
	err = c.follow(ctx, fmt.Sprintf("%s?n=%d&pace=1ms", eventsPath, n), func(sent, came time.Time) bool {
		times = append(times, came.Sub(sent))
		return true
	})
	return times, errors.Join(err, expect(len(times), n))
}

func expect(got, want int) error {
	if got != want {
		return fmt.Errorf("%d events instead of %d", got, want)
	}
	return nil
}

// connectFor makes connections one after the other, with one call on each.
func (t *target) connectFor(ctx context.Context, d time.Duration) (times []time.Duration, err error) {
	for start := time.Now(); time.Since(start) < d; {
		began := time.Now()
		clients, err := t.crowd(ctx, 1)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
		clients.close()
	}
	return times, nil
}
