package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// baseline lets perigee answer some calls at once, and notes what it holds when it is idle again.
func (r *run) baseline(ctx context.Context) (err error) {
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(r.seed, 2000+uint64(i)))
			for range 6 {
				c := newCall(fmt.Sprint("c", r.tags.Add(1)), random, r.previous)
				c.key.kind, c.leaves = !c.key.wrong, false
				r.one(c)
			}
		})
	}
	all.Wait()
	r.leaks.descriptorsBefore = r.idle(ctx, 0, math.MaxInt)
	if r.leaks.goroutinesBefore, _, err = r.quit(); err != nil {
		return err
	}
	return r.world.up(ctx)
}

// idle closes connections on both sides and waits until the process has enough descriptors at most,
// or at most allowed and no other number for two seconds. It waits for a minute at most.
func (r *run) idle(ctx context.Context, enough, allowed int) (descriptors int) {
	stable := 0
	for began := time.Now(); time.Since(began) < time.Minute && stable < 20; {
		r.client.http.CloseIdleConnections()
		r.world.provider.hangUp()
		wait(ctx, 100*time.Millisecond)
		n := r.world.perigee.descriptors()
		if n <= enough {
			return n
		}
		if stable++; n != descriptors || n > allowed {
			stable = 0
		}
		descriptors = n
	}
	return descriptors
}

// quit ends perigee with a dump of its goroutines.
func (r *run) quit() (n int, dump string, err error) {
	w := r.world
	w.mu.Lock()
	w.downs = append(w.downs, span{from: time.Now()})
	w.kills = append(w.kills, time.Now())
	w.mu.Unlock()
	return w.perigee.goroutines()
}

// spare is how many descriptors or goroutines more than at first are no leak; a pool of connections
// to PostgreSQL may grow to its size on top, and stays for minutes.
const spare, pool = 6, 16

func (r *run) findLeaks(ctx context.Context) (err error) {
	l, w := &r.leaks, r.world
	allowed := l.descriptorsBefore + spare
	if w.database != nil {
		allowed += pool
	}
	l.descriptors = r.idle(ctx, l.descriptorsBefore, allowed)
	if l.descriptors > allowed {
		r.problem("leaked: %d descriptors at the end, %d at the beginning", l.descriptors, l.descriptorsBefore)
	}
	w.peak = max(w.peak, w.perigee.measure())
	var dump string
	if l.goroutines, dump, err = r.quit(); err != nil {
		return err
	}
	if l.goroutines > l.goroutinesBefore+spare {
		file := filepath.Join(w.dir, "goroutines.txt")
		_ = os.WriteFile(file, []byte(dump), 0o600)
		r.problem("leaked: %d goroutines at the end, %d at the beginning; the dump is in the log", l.goroutines, l.goroutinesBefore)
	}
	if limit := bytesOf(w.memory); limit > 0 && w.peak > limit+limit/4 { // it is a soft limit
		r.problem("memory: %d MiB at most, with limits.memory %s", w.peak>>20, w.memory)
	}
	return nil
}

// bytesOf reads sizes such as 512MiB.
func bytesOf(size string) int64 {
	var n int64
	var unit string
	_, _ = fmt.Sscanf(size, "%d%s", &n, &unit)
	return n << map[string]int{"KiB": 10, "MiB": 20, "GiB": 30}[unit]
}

// report prints what happened.
func (r *run) report(out io.Writer, store string) {
	counts := map[string]map[string]int{}
	count := func(table, row string) {
		if counts[table] == nil {
			counts[table] = map[string]int{}
		}
		counts[table][row]++
	}
	for _, c := range r.calls {
		count("verdict", string(c.verdict))
		count("dialect", c.dialect.name)
		if c.answer.upstream != "" && c.verdict == whole {
			count("upstream", c.answer.upstream)
		}
		if c.answer.status >= 400 {
			count("status", fmt.Sprintf("%d %s", c.answer.status, c.answer.class))
		}
	}
	if r.world.provider != nil {
		r.world.provider.each(func(_ string, a *attempt) { count("lies", a.lie) })
	}
	fmt.Fprintf(out, "\n%s: %d calls, %d stored responses acknowledged, %d starts of perigee, %d of them in vain, peak memory %d MiB", store,
		len(r.calls), len(r.kept), r.world.starts, r.world.failed, r.world.peak>>20)
	if r.world.memory != "" {
		fmt.Fprintf(out, " with limits.memory %s", r.world.memory)
	}
	disk := "tmpfs"
	if !r.world.limited {
		disk = "RLIMIT_FSIZE"
	}
	fmt.Fprintf(out, "\n  idle: descriptors %d, at first %d; goroutines %d, at first %d; the disk was filled by %s\n",
		r.leaks.descriptors, r.leaks.descriptorsBefore, r.leaks.goroutines, r.leaks.goroutinesBefore, disk)
	line := func(name string, rows map[string]int) {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			parts = append(parts, fmt.Sprintf("%s %d", key, rows[key]))
		}
		fmt.Fprintf(out, "  %-13s %s\n", name+":", strings.Join(parts, ", "))
	}
	line("calls", counts["dialect"])
	line("may happen", pick(counts["verdict"], harmless))
	line("may not", pick(counts["verdict"], forbidden))
	line("refused", counts["status"])
	line("whole from", counts["upstream"])
	line("provider", counts["lies"])
	line("disturbed", r.made)
	r.reportGrowth(out)
	r.reportProblems(out)
}

// reportProblems prints the first problems of each sort with their evidence, and how many there
// are.
func (r *run) reportProblems(out io.Writer) {
	seen := map[string]int{}
	for _, p := range r.problems {
		sort, _, _ := strings.Cut(p, ":")
		if seen[sort]++; seen[sort] <= 4 {
			fmt.Fprintln(out, "  PROBLEM", p)
		}
	}
	for _, sort := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(out, "  PROBLEMS in all: %d %s\n", seen[sort], sort)
	}
}

// pick counts verdicts, also those that did not occur.
func pick(counts map[string]int, verdicts []outcome) map[string]int {
	picked := map[string]int{}
	for _, v := range verdicts {
		picked[string(v)] = counts[string(v)]
	}
	return picked
}
