package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// An eventLog collects lines with the time since it was begun.
type eventLog struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

// add is called in bubbles.
func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, time.Since(l.start).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

func (l *eventLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// queue starts a call that waits and says when it got what; it keeps the account for a while.
func (r *poolRig) queue(ctx context.Context, events *eventLog, who string, want Request, holds time.Duration) {
	r.caller(want).queue(ctx, events, who, holds)
}

func (b caller) queue(ctx context.Context, events *eventLog, who string, holds time.Duration) {
	go func() {
		l, err := b.Next(ctx)
		if err != nil {
			events.add("%s: %s", who, perigee.AsError(err).Class)
			return
		}
		events.add("%s: %s", who, name(l))
		passes(holds)
		l.Done(nil)
	}()
	synctest.Wait()
}

func newEventLog() *eventLog { return &eventLog{start: time.Now()} }

// Trap 74: waiting is no attempt.
func TestCallsWaitForAnAccountThatIsBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.ask(flash, judged(providererr.KindRate, 50*time.Second))
		r.ask(flash, judged(providererr.KindRate, 30*time.Second))
		start := time.Now()
		l := r.take(flash)
		if waited := time.Since(start); name(l) != "b" || waited != 30*time.Second+grace {
			t.Errorf("%s after %s", name(l), waited)
		}
		if why := l.Account().Why; !strings.Contains(why, "waited 30.5s") {
			t.Errorf("why: %s", why)
		}
		l.Done(judged(providererr.KindQuota, time.Hour))
		l = r.take(flash)
		if waited := time.Since(start); name(l) != "a" || waited != 50*time.Second+grace {
			t.Errorf("%s after %s", name(l), waited)
		}
		l.Done(judged(providererr.KindRate, 61*time.Second))
		start = time.Now()
		if e := r.refused(flash); e.Class != perigee.ClassRateLimited || e.Retry != 61*time.Second+grace || time.Since(start) != 0 {
			t.Errorf("%s, retry after %s, after %s", e.Class, e.Retry, time.Since(start))
		}
	})
}

func TestOneCallWaitsNoLongerThanItMayOverAllItsLoans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		b := r.caller(flash)
		b.ask(judged(providererr.KindRate, 40*time.Second))
		start := time.Now()
		b.ask(judged(providererr.KindRate, 40*time.Second))
		b.refused()
		if waited := time.Since(start); waited != 40*time.Second+grace {
			t.Errorf("waited %s", waited)
		}
		r.ask(flash, nil)
		if waited := time.Since(start); waited != 81*time.Second {
			t.Errorf("another call: %s", waited)
		}
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute, Concurrency: 1}))
		r.ask(flash, judged(providererr.KindRate, 10*time.Second))
		r.ask(opus, judged(providererr.KindRate, 5*time.Second))
		events := newEventLog()
		r.queue(t.Context(), events, "1", flash, 3*time.Second)
		r.queue(t.Context(), events, "2", flash, 3*time.Second)
		r.queue(t.Context(), events, "claude", opus, time.Second)
		r.queue(t.Context(), events, "3", flash, time.Minute)
		passes(10500 * time.Millisecond) // to the very moment at which another call comes
		r.queue(t.Context(), events, "late", flash, time.Second)
		passes(2 * time.Minute)
		want := "5.5s claude: a\n10.5s 1: a\n13.5s 2: a\n16.5s 3: a\n1m10.5s late: rate_limited"
		r.sees("events", events.String(), want)
	})
}

// After a sleep of the machine the first to notice that an account is back may be a call that has
// just come.
func TestNewCallsDoNotOvertakeWaitingOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Hour, Concurrency: 1, Now: now}))
		r.ask(flash, judged(providererr.KindQuota, 50*time.Minute))
		events := newEventLog()
		r.queue(t.Context(), events, "first", flash, time.Second)
		shift.Store(int64(51 * time.Minute))
		r.queue(t.Context(), events, "second", flash, time.Second)
		passes(time.Minute)
		r.sees("events", events.String(), "0s first: a\n1s second: a")
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		r.ask(flash, judged(providererr.KindRate, 50*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := r.Acquire(flash).Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if n := len(r.waiters); n != 0 {
			t.Errorf("%d still wait", n)
		}
		if _, err := r.Acquire(flash).Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v with a context that is over", err)
		}
	})
}

func TestWaitingCallsSeeChangesAtOnce(t *testing.T) {
	change := map[string]func(r *poolRig){
		"an account is enabled": func(r *poolRig) { r.enable(1, true) },
		"a rest is cleared":     func(r *poolRig) { _ = r.Clear("") },
		"an account is added": func(r *poolRig) {
			r.sources = append(r.sources, newSource("c"))
			r.announce()
		},
		"quota returned": func(r *poolRig) { r.report("a", flash.Model, 1) },
		"all are gone": func(r *poolRig) {
			r.sources = nil
			r.announce()
		},
		"the last one is disabled": func(r *poolRig) { r.enable(0, false) },
	}
	want := map[string]string{"an account is enabled": "b", "a rest is cleared": "a", "an account is added": "c",
		"quota returned": "a", "all are gone": "unauthenticated", "the last one is disabled": "unauthenticated"}
	for what, do := range change {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 2, onlyAntigravity(Options{MaxWait: time.Hour}))
			r.enable(1, false)
			r.ask(flash, judged(providererr.KindQuota, 50*time.Minute))
			events := newEventLog()
			r.queue(t.Context(), events, "1", flash, 0)
			passes(time.Second)
			do(r)
			synctest.Wait()
			r.sees(what, events.String(), "1s 1: "+want[what])
		})
	}
}

func TestCallsThatWaitInVainAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{MaxWait: time.Minute}))
		other := r.take(flash)
		r.ask(flash, judged(providererr.KindRate, 30*time.Second))
		events := newEventLog()
		r.queue(t.Context(), events, "1", flash, 0)
		passes(time.Second)
		other.Done(judged(providererr.KindQuota, time.Hour))
		synctest.Wait()
		r.sees("events", events.String(), "1s 1: exhausted")
	})
}

func TestBriefWaitEndsWhenTheAccountDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{MaxWait: time.Minute})
		b := r.caller(in("s", flash))
		b.ask(judged(providererr.KindRate, 3*time.Second))
		events := newEventLog()
		b.queue(t.Context(), events, "1", 0)
		passes(time.Second)
		r.enable(0, false)
		synctest.Wait()
		r.sees("events", events.String(), "1s 1: b")

		r = newPoolRig(t, 2, Options{MaxWait: time.Minute})
		b = r.caller(in("s", flash))
		b.ask(judged(providererr.KindRate, 3*time.Second))
		events = newEventLog()
		b.queue(t.Context(), events, "2", 0)
		r.queue(t.Context(), events, "3", flash, 0)
		r.sources = r.sources[1:]
		r.announce()
		synctest.Wait()
		slices.Sort(events.lines) // they were served in their order, but are not heard in it
		r.sees("removed", events.String(), "0s 2: b\n0s 3: b")
	})
}

// The wall clock of a machine is set back by a year, or it sleeps for hours; neither may freeze an
// account.
func TestClocksThatJumpFreezeNoAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift time.Duration
		r := newPoolRig(t, 1, onlyAntigravity(Options{Now: func() time.Time { return time.Now().Add(shift) }}))
		r.ask(flash, judged(providererr.KindQuota, time.Hour))
		shift = -365 * 24 * time.Hour
		if got := r.rests(flash); got != time.Hour+grace {
			t.Errorf("rests for %s", got)
		}
		passes(time.Hour + grace)
		r.sees("set back", r.ask(flash, judged(providererr.KindQuota, 50*time.Minute)), "a")
		shift += 30 * time.Minute // asleep
		if got := r.rests(flash); got != 20*time.Minute+grace {
			t.Errorf("rests for %s", got)
		}
		shift += 30 * time.Minute
		r.sees("awake", r.ask(flash, nil), "a")
	})
}

type cooldownStore struct {
	mu   sync.Mutex
	rows map[string]perigee.Cooldown
	err  error
}

func (s *cooldownStore) SaveCooldown(_ context.Context, upstream, email string, c perigee.Cooldown) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[upstream+" "+email+" "+c.Family+" "+c.Pool] = c
	return s.err
}

func TestCooldownsOutliveThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cooldownStore{rows: map[string]perigee.Cooldown{}, err: errors.New("it is only logged")}
		r := newPoolRig(t, 2, Options{Store: store})
		r.ask(flash, judged(providererr.KindQuota, 2*time.Hour))
		r.ask(flash, judged(providererr.KindRate, 10*time.Second)) // not worth it
		r.ask(opus, judged(providererr.KindUnauthenticated, 0))
		r.Close()
		var keys []string
		for key := range store.rows {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		r.sees("stored", strings.Join(keys, ", "), "antigravity a  , antigravity a gemini antigravity")

		next := newPoolRig(t, 0, Options{Store: store})
		next.sources = []*fakeSource{newSource("a"), newSource("b")}
		next.sources[0].change(func(s *perigee.SignIn) {
			s.Cooldowns = []perigee.Cooldown{store.rows["antigravity a gemini antigravity"],
				{Family: "image", Pool: PoolAntigravity, Until: time.Now().Add(365 * 24 * time.Hour)},
				{Family: "claude", Pool: PoolAntigravity, Until: time.Now().Add(-time.Hour)}}
		})
		next.announce()
		next.sees("rests", restOf(next.Status()[0]), "[gemini antigravity quota][image antigravity ]")
		if until := next.Status()[0].Cooldowns[1].Until; until.After(time.Now().Add(providererr.MaxDelay)) {
			t.Errorf("rests until %s", until)
		}
		next.sees("chosen", next.ask(flash, nil)+next.ask(opus, nil), "ba")
		_ = next.Clear("a")
		next.Close()
		if c := store.rows["antigravity a gemini antigravity"]; c.Until.After(time.Now()) {
			t.Errorf("stored until %s", c.Until)
		}
		passes(3 * time.Hour)
		next.sees("over", restOf(next.Status()[0]), "")
	})
}
