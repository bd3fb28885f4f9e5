package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A watcher looks at quotas for a rig: it notes the accounts that it was asked about, and reports
// after a while what it was told to.
type watcher struct {
	rig   *poolRig
	takes time.Duration
	left  float64
	cli   bool
	asked []string
}

func (w *watcher) look(emails []string) <-chan struct{} {
	w.asked = append(w.asked, strings.Join(emails, ""))
	done := make(chan struct{})
	go func() {
		defer close(done)
		passes(w.takes)
		for _, email := range emails {
			pool := PoolAntigravity
			if w.cli {
				pool = PoolCLI
			}
			w.rig.ReportQuota(email, []perigee.QuotaRow{{Pool: pool, Model: flash.Model, Remaining: w.left}}, time.Now())
		}
	}()
	return done
}

func newWatched(t *testing.T, accounts int, opts Options) (*poolRig, *watcher) {
	w := &watcher{takes: time.Second}
	opts.Look = w.look
	w.rig = newPoolRig(t, accounts, opts)
	return w.rig, w
}

func TestQuotaIsLookedAtWhenNoAccountIsUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newWatched(t, 3, onlyAntigravity(Options{MaxWait: 10 * time.Second}))
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		passes(2 * time.Minute)
		r.ask(flash, nil)
		r.sees("not while somebody is", strings.Join(w.asked, ","), "")
		r.ask(flash, judged(providererr.KindRate, 4*time.Minute))
		start := time.Now()
		if e := r.refused(flash); e.Class != perigee.ClassRateLimited || time.Since(start) != time.Second {
			t.Errorf("after %s: %v", time.Since(start), e)
		}
		r.sees("those who are out of quota", strings.Join(w.asked, ","), "ab")
		r.refused(flash)
		r.sees("at most once a minute", strings.Join(w.asked, ","), "ab")
		passes(time.Minute)
		w.left = 0.5
		start = time.Now()
		r.sees("the call that looks is served", r.ask(flash, nil), "a")
		if time.Since(start) != w.takes {
			t.Errorf("after %s", time.Since(start))
		}
		r.sees("rests", restOf(r.Status()[0])+restOf(r.Status()[1]), "")
		r.sees("other families are none of its business", r.ask(opus, nil)+strings.Join(w.asked, ","), "aab,ab")
	})
}

func TestLookServesWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newWatched(t, 2, onlyAntigravity(Options{MaxWait: 10 * time.Minute}))
		w.left = 1
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		r.ask(flash, judged(providererr.KindRate, 4*time.Minute))
		passes(lookEvery)
		start := time.Now()
		r.sees("account", r.ask(flash, nil), "a")
		if took := time.Since(start); took != w.takes {
			t.Errorf("after %s", took)
		}
	})
}

func TestCallsDoNotWaitLongForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for wait, want := range map[time.Duration]time.Duration{0: 0, 2 * time.Second: 2 * time.Second, time.Minute: lookWait} {
			r, w := newWatched(t, 1, onlyAntigravity(Options{MaxWait: wait}))
			w.takes, w.left = 20*time.Second, 1
			r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
			passes(lookEvery)
			start := time.Now()
			r.refused(flash)
			if got := time.Since(start); got != want {
				t.Errorf("with max_wait %s it took %s", wait, got)
			}
			passes(w.takes + time.Second)
			r.sees("the next call", r.ask(flash, nil), "a")
		}
	})
}

// The figures of the provider lag behind its refusals. An account whose cooldown wrong figures have
// ended is not asked about again so soon.
func TestFiguresThatWereWrongAreNotLookedAtSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newWatched(t, 1, onlyAntigravity(Options{MaxWait: 10 * time.Second}))
		w.left = 0.7
		r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))
		passes(lookEvery)
		r.sees("woken", r.ask(flash, judged(providererr.KindQuota, 168*time.Hour)), "a")
		for range 14 {
			passes(time.Minute)
			r.refused(flash)
		}
		r.sees("asked", strings.Join(w.asked, ","), "a")
		passes(2 * time.Minute)
		r.sees("woken", r.ask(flash, nil), "a")
		r.sees("asked", strings.Join(w.asked, ","), "a,a")
	})
}

func TestQuotaOfTheOtherPoolWakesItToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newWatched(t, 1, Options{MaxWait: 10 * time.Second})
		w.left, w.cli = 1, true
		r.sees("both pools", r.ask(flash, judged(providererr.KindQuota, 168*time.Hour))+r.ask(flash, judged(providererr.KindQuota, 168*time.Hour)), "aa+")
		passes(lookEvery)
		r.sees("the one that has some again", r.ask(flash, nil), "a+")
		r.sees("rests", restOf(r.Status()[0]), "[gemini antigravity quota]")
	})
}

// What a call is told to wait for is when the pool looks itself.
func TestAdviceIsWhenAGuessIsDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindProject, 0))
		r.ask(flash, judged(providererr.KindProject, 0))
		e := r.refused(flash)
		if e.Class != perigee.ClassForbidden || e.Retry != probeEvery || !strings.Contains(e.Message, "2 without use of their project (asked again in 1m0s)") {
			t.Errorf("again in %s: %v", e.Retry, e)
		}
		passes(e.Retry)
		r.sees("and it is true", r.ask(flash, judged(providererr.KindProject, 0)), "a")
		e = r.refused(flash)
		if e.Retry != probeEvery {
			t.Errorf("again in %s: %v", e.Retry, e)
		}
		passes(e.Retry)
		r.sees("each time", r.ask(flash, nil), "b")
	})
}
