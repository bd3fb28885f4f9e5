package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	workers   = 16
	clockForm = "15:04:05.000"
)

// A run is the calls of one phase and what became of them.
type run struct {
	world  *world
	client *client
	seed   uint64
	tags   *atomic.Int64 // over all phases

	mu       sync.Mutex
	calls    []*call
	kept     []kept
	problems []string
	made     map[string]int
	growth   []size
	leaks    leaks
}

// kept is a stored response that a client was told of.
type kept struct {
	id, tag string
	key     clientKey
	text    string
	at      time.Time
}

// problem notes something that must not happen.
func (r *run) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// drive makes calls and disturbs them for a time, and waits until all have ended.
func (r *run) drive(ctx context.Context, d time.Duration, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { r.work(ctx, rand.New(rand.NewPCG(r.seed, uint64(i)))) })
	}
	all.Go(func() { r.watchMemory(ctx) })
	disturbers := r.disturbers(d, say)
	errs := make([]error, len(disturbers))
	var over sync.WaitGroup
	for i, one := range disturbers {
		over.Go(func() {
			if errs[i] = one.disturb(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	if r.world.soak {
		all.Go(func() { r.measureGrowth(ctx, d) })
	}
	over.Wait()
	all.Wait()
	r.made = map[string]int{}
	for _, one := range disturbers {
		maps.Copy(r.made, one.made)
	}
	return errors.Join(errs...)
}

// disturbers are one for everything in turn, or with -soak one for each part of the world.
func (r *run) disturbers(d time.Duration, say func(string)) (all []*disturber) {
	random := func(i uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, 1000+i)) }
	if !r.world.soak {
		one := random(0)
		pause := func() time.Duration { return time.Duration(500+one.IntN(1500)) * time.Millisecond }
		return []*disturber{{world: r.world, random: one, pause: pause, say: say}}
	}
	for i, part := range []part{thePrograms, theSettings, theStore, theNetwork, theAccounts} {
		one := random(uint64(i))
		all = append(all, &disturber{world: r.world, random: one, part: part, pause: soakPause(one, part, d), say: say})
	}
	return all
}

func (r *run) work(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		c := newCall(fmt.Sprint("c", r.tags.Add(1)), random, r.previous)
		r.one(c)
		pause := 200
		if c.verdict == down {
			pause = 1000 // as clients that try again do
		}
		wait(ctx, time.Duration(random.IntN(pause))*time.Millisecond)
	}
}

// one makes a call and judges it. It is not cut off when time is up.
func (r *run) one(c *call) {
	r.client.ask(context.Background(), c)
	r.judge(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	if c.verdict == whole && c.answer.stored {
		r.kept = append(r.kept, kept{c.answer.response, c.tag, c.key, c.answer.text, c.over})
	}
	if c.verdict != whole {
		c.answer.said = "" // evidence has been taken
	}
	c.answer.text = ""
}

func (r *run) judge(c *call) {
	a := &c.answer
	if !c.obvious() {
		c.verdict, c.why = check(c.tag, a, func(attempt int) sent { return r.world.provider.sent(c.tag, attempt) })
	}
	if c.verdict == lost && r.world.wasDown(c.began, c.over, a.status == http.StatusOK) && c.over.Sub(c.began) < callLimit {
		c.verdict = down
	}
	for _, v := range forbidden {
		if c.verdict == v {
			r.problem("%s: %s\n    %s from %s to %s: status %d, class %q, upstream %q, call %s, error %v %q\n    text %s\n%s", v, c.why,
				c, c.began.Format(clockForm), c.over.Format(clockForm), a.status, a.class, a.upstream, a.id, a.err, a.failure,
				outline(a.text), r.world.provider.history(c.tag))
		}
	}
}

// obvious judges what needs no look at the text.
func (c *call) obvious() bool {
	a := &c.answer
	switch {
	case a.upstream == "simulator" || strings.HasPrefix(a.text, "You said:"):
		c.verdict, c.why = simulated, fmt.Sprintf("upstream %q says %.40q", a.upstream, a.text)
	case c.key.wrong && a.status >= 200 && a.status < 300:
		c.verdict, c.why = letIn, fmt.Sprintf("status %d with the key %q", a.status, c.key.name)
	case c.leaves && a.err == nil && a.text != "" && !a.ended && a.failure == "":
		c.verdict = left
	case errors.Is(a.err, context.DeadlineExceeded):
		c.verdict, c.why = lost, fmt.Sprintf("no end within %v", callLimit)
	default:
		return false
	}
	return true
}

// outline is a text without its filler.
func outline(text string) string {
	return strings.Join(append(marks.FindAllString(text, -1), fmt.Sprintf("(%d bytes)", len(text))), "")
}

// previous is a stored response of a key, to go on from.
func (r *run) previous(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.kept) - 1; i >= max(0, len(r.kept)-50); i-- {
		if r.kept[i].key.name == key {
			return r.kept[i].id
		}
	}
	return ""
}

func (r *run) watchMemory(ctx context.Context) {
	for ctx.Err() == nil {
		r.world.mu.Lock()
		p := r.world.perigee
		r.world.peak = max(r.world.peak, p.measure())
		r.world.mu.Unlock()
		wait(ctx, 500*time.Millisecond)
	}
}
