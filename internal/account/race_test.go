package account

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
	"perigee/internal/verdict"
)

// A thousand calls borrow and give back while accounts are disabled, enabled, removed and added. No account has more calls
// than it may, every call ends, and in the end every account is back.
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
				w := []Want{flash, opus, banana, {}}[i%4]
				w.Session = fmt.Sprint(i % 50)
				l, err := r.Borrow(w).Next(ctx)
				if err != nil {
					if _, ok := errors.AsType[*perigee.Error](err); !ok {
						t.Error(err)
					}
					failed.Add(1)
					return
				}
				place := l.Email()[0] - 'a'
				if n := open[place].Add(1); n > limit {
					t.Errorf("%s has %d calls", l.Email(), n)
				}
				served.Add(1)
				_ = l.Why()
				open[place].Add(-1)
				l.Done(someVerdict(i))
			})
		}
		clients.Wait()
		stop()
		people.Wait()
		if served.Load()+failed.Load() != calls || served.Load() < calls/2 {
			t.Errorf("%s: %d served, %d failed", selection, served.Load(), failed.Load())
		}
		for _, m := range r.members {
			if m.lent != 0 {
				t.Errorf("%s: %d loans of %s are still out", selection, m.lent, m.email)
			}
		}
		if n := r.waiters.Len(); n != 0 {
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
		r.Explain(flash.Model)
		r.Status()
		_ = r.Use("c")
	}
}

func someVerdict(i int) *verdict.Verdict {
	switch i % 10 {
	case 0:
		return judged(verdict.KindRate, 10*time.Millisecond)
	case 1:
		return judged(verdict.KindUnexplained, 0)
	case 2:
		return judged(verdict.KindCapacity, time.Second)
	}
	return nil
}

func TestCallersWhoLeaveKeepNothing(t *testing.T) {
	r := newPoolRig(t, 1, Options{Concurrency: 1, MaxWait: time.Minute})
	held := r.take(flash)
	var waiting sync.WaitGroup
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		waiting.Go(func() {
			if l, err := r.Borrow(flash).Next(ctx); err == nil {
				l.Done(nil)
			}
		})
		waiting.Go(cancel)
	}
	held.Done(nil)
	waiting.Wait()
	r.ask(flash, nil)
	if m := r.members[0]; m.lent != 0 || r.waiters.Len() != 0 {
		t.Errorf("%d lent, %d waiting", m.lent, r.waiters.Len())
	}
}
