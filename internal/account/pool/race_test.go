package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/testing/perigeetest/await"
)

// A thousand calls borrow and give back while accounts are disabled, enabled, removed and added. No
// account has more calls than it may, every call ends, and in the end every account is back.
func TestThousandCallsWhileAccountsComeAndGo(t *testing.T) {
	const calls, accounts, limit = 1000, 20, 3
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		r := newPoolRig(t, accounts, Options{Selection: selection, Concurrency: limit, MaxWait: 20 * time.Second})
		var open [accounts]atomic.Int64
		var served, failed atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var people, clients sync.WaitGroup
		people.Go(func() { meddle(ctx, r) })
		for i := range calls {
			clients.Go(func() {
				w := []Request{flash, opus, banana, {}}[i%4]
				w.Session = fmt.Sprint(i % 50)
				l, err := r.Acquire(w).Next(ctx)
				if err != nil {
					if _, ok := errors.AsType[*perigee.Error](err); !ok {
						t.Error(err)
					}
					failed.Add(1)
					return
				}
				place := l.Account().Email[0] - 'a'
				if n := open[place].Add(1); n > limit {
					t.Errorf("%s has %d calls", l.Account().Email, n)
				}
				served.Add(1)
				_ = l.Account().Why
				open[place].Add(-1)
				l.Done(someDiagnosis(i))
			})
		}
		await.Return(t, clients.Wait, "the calls")
		stop()
		await.Return(t, people.Wait, "the changes")
		if served.Load()+failed.Load() != calls || served.Load() < calls/2 {
			t.Errorf("%s: %d served, %d failed", selection, served.Load(), failed.Load())
		}
		for _, m := range r.members {
			if m.leases != 0 {
				t.Errorf("%s: %d leases of %s are still out", selection, m.leases, m.email)
			}
		}
		if n := len(r.waiters); n != 0 {
			t.Errorf("%d still wait", n)
		}
	}
}

// meddle changes accounts until ctx ends, and reads what the dashboard would.
func meddle(ctx context.Context, r *poolRig) {
	for ctx.Err() == nil {
		r.enable(rand.IntN(len(r.sources)), rand.IntN(4) > 0)
		if last := len(r.sources) - 1; rand.IntN(4) == 0 {
			kept := r.sources[last]
			r.sources = r.sources[:last]
			r.announce()
			r.sources = append(r.sources, kept)
			r.announce()
		}
		r.report("b", flash.Model, rand.Float64())
		_ = r.Clear("")
		r.Explain(flash)
		r.Status()
		_ = r.Use("c")
	}
}

func someDiagnosis(i int) *providererr.Diagnosis {
	switch i % 10 {
	case 0:
		return judged(providererr.KindRate, 10*time.Millisecond)
	case 1:
		return judged(providererr.KindUnexplained, 0)
	case 2:
		return judged(providererr.KindCapacity, time.Second)
	}
	return nil
}

func TestCanceledCallsKeepNothing(t *testing.T) {
	r := newPoolRig(t, 1, Options{Concurrency: 1, MaxWait: time.Minute})
	held := r.take(flash)
	var waiting sync.WaitGroup
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		waiting.Go(func() {
			if l, err := r.Acquire(flash).Next(ctx); err == nil {
				l.Done(nil)
			}
		})
		waiting.Go(cancel)
	}
	held.Done(nil)
	await.Return(t, waiting.Wait, "the waiting calls")
	r.ask(flash, nil)
	if m := r.members[0]; m.leases != 0 || len(r.waiters) != 0 {
		t.Errorf("%d lent, %d waiting", m.leases, len(r.waiters))
	}
}
