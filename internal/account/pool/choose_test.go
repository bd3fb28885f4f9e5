package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

func TestStickyStaysUntilItsAccountRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, Options{})
		r.sees("first calls", r.asks(flash, 3), "aaa")
		r.sees("limited call", r.ask(flash, judged(providererr.KindQuota, time.Hour)), "a")
		r.sees("after the limit", r.asks(flash, 2), "bb")
		passes(2 * time.Hour)
		r.sees("when the first is back", r.asks(flash, 2), "bb")
		r.enable(1, false)
		r.sees("disabled", r.asks(flash, 2), "cc")
		r.enable(1, true)
		r.ask(in("s", flash), nil)
		if err := r.Use("b"); err != nil {
			t.Fatal(err)
		}
		r.sees("a person's choice", r.asks(flash, 2), "bb")
		r.sees("is for sessions too", r.ask(in("s", flash), nil), "b")
		r.ask(opus, judged(providererr.KindQuota, time.Hour))
		if err := r.Use("b"); err != nil {
			t.Fatal(err)
		}
		r.sees("even if it should rest", r.ask(opus, nil), "b")
		if err := r.Use("nobody"); perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%v", err)
		}
	})
}

func TestRoundRobinTakesTurnsAmongTheUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, Options{Selection: RoundRobin})
		r.sees("all", r.asks(flash, 6), "abcdab")
		r.sees("limit", r.ask(flash, judged(providererr.KindQuota, time.Hour)), "c")
		r.sees("without c", r.asks(flash, 4), "dabd")
		r.sees("other families take turns of their own", r.asks(opus, 4), "abcd")
	})
}

func TestHybridPassesOverTheUnhealthyAndTheTired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, Options{Selection: Hybrid})
		r.sees("who has rested goes first, then calls stay a while", r.asks(flash, 10), "abcccccccc")
		if got := r.asks(flash, 100); !strings.Contains(got, "b") || !strings.Contains(got, "c") {
			t.Errorf("a hundred calls in a moment went to %s", got)
		}
		r = newPoolRig(t, 2, Options{Selection: Hybrid})
		r.sees("sessions stay", r.asks(in("s", flash), 50), strings.Repeat("a", 50))
		r.sees("until their account has made too many calls", r.asks(in("s", flash), 10), strings.Repeat("b", 10))
		r.asks(flash, 100)
		r.sees("and while somebody else has not", r.asks(in("s", flash), 10), strings.Repeat("b", 10))
		r = newPoolRig(t, 2, Options{Selection: Hybrid})
		for range 2 { // health 70 - 2*20: unfit
			r.ask(flash, fault(providererr.KindUnavailable))
		}
		r.sees("unhealthy", r.asks(flash, 3), "bbb")
		r.enable(1, false)
		r.sees("unhealthy, but the only one", r.asks(flash, 1), "a")
	})
}

func TestHybridSendsNewSessionsWhereMoreQuotaIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{Selection: Hybrid, SoftQuota: 0.9})
		r.report("a", flash.Model, 0.3)
		r.report("b", flash.Model, 0.8)
		r.sees("new session", r.ask(in("s", flash), nil), "b")
	})
}

// Trap 85: a session leaves an account that is exhausted.
func TestSessionsStayOnTheirAccount(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 3, Options{Selection: selection})
			home := r.ask(in("s", opus), nil)
			r.asks(opus, 2)
			r.sees("session", r.asks(in("s", opus), 3), strings.Repeat(home, 3))
			r.ask(in("s", opus), judged(providererr.KindQuota, time.Hour))
			next := r.ask(in("s", opus), nil)
			if next == home {
				t.Errorf("%s: the session stayed with %s, which is out of quota", selection, home)
			}
			passes(2 * time.Hour)
			r.sees("moved session", r.asks(in("s", opus), 3), strings.Repeat(next, 3))
			l := r.take(in("s", opus))
			if l.Account().Why != "the session is bound to this account" {
				t.Errorf("why: %s", l.Account().Why)
			}
		})
	}
}

func TestSessionsThatAreOldAreForgotten(t *testing.T) {
	p := New(Options{})
	p.sessions.MaxEntries = 2
	b := binding{&member{}, &quotaGroup{}}
	for _, session := range []string{"1", "2", "1", "3"} {
		p.sessions.Put(sessionKey{session, groupGemini}, b)
	}
	for session, want := range map[string]bool{"1": true, "2": false, "3": true, "": false} {
		if _, ok := p.boundTo(sessionKey{session, groupGemini}); ok != want {
			t.Errorf("session %q: %t", session, ok)
		}
	}
	if _, ok := p.boundTo(sessionKey{"1", groupThird}); ok {
		t.Error("a session was found for another group")
	}
}

// Trap 77: an account that is out of one kind of models still answers for the rest.
func TestGroupsArePausedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{}))
		r.ask(opus, judged(providererr.KindQuota, time.Hour))
		r.sees("claude", r.ask(opus, nil), "b")
		r.sees("gpt-oss counts with claude", r.ask(oss, nil), "b")
		r.sees("gemini", r.ask(flash, nil), "a")
		r.sees("image", r.ask(banana, nil), "a")
		r.sees("no model", r.ask(Request{}, nil), "a")
		r.ask(banana, judged(providererr.KindQuota, time.Hour))
		r.sees("image", r.ask(banana, nil), "b")
		r.sees("gemini after image", r.ask(flash, nil), "a")
		r.sees("status", restOf(r.Status()[0]), "[claude antigravity quota][image antigravity quota]")
	})
}

func TestPoolsAreTriedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		var got string
		for range 4 {
			got += r.ask(flash, judged(providererr.KindQuota, time.Hour))
		}
		r.sees("all accounts of one pool, then the other", got, "aba+b+")
		r.refused(flash)

		r = newPoolRig(t, 1, Options{Pools: []string{PoolCLI, PoolAntigravity}})
		r.sees("the other way round", r.ask(flash, judged(providererr.KindQuota, time.Hour)), "a+")
		r.sees("the other way round", r.ask(flash, nil), "a")
		r.sees("claude", r.ask(opus, nil), "a")

		r = newPoolRig(t, 1, Options{Pools: []string{PoolCLI}})
		r.sees("no model", r.ask(Request{}, nil), "a")
		if e := r.refused(opus); e.Class != perigee.ClassNotFound {
			t.Errorf("claude without its pool: %s %v", e.Class, e)
		}
	})
}

func TestSoftQuotaSparesWhileOthersAreUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, onlyAntigravity(Options{SoftQuota: 0.9}))
		r.ask(in("s", flash), nil)
		r.report("a", flash.Model, 0.1)
		r.sees("spared", r.asks(flash, 2), "bb")
		r.sees("spared from its session", r.ask(in("s", flash), nil), "b")
		r.sees("other models", r.ask(opus, nil), "a")
		r.ask(flash, judged(providererr.KindQuota, time.Hour))
		l := r.take(flash)
		r.sees("nobody else is left", name(l), "a")
		r.sees("why", l.Account().Why, "sticky: moved from b, which cools down until 2000-01-01 01:00:00 (quota); no usable account has more quota left")

		r = newPoolRig(t, 2, onlyAntigravity(Options{SoftQuota: 0.9}))
		r.report("a", flash.Model, 0.05)
		r.sees("spared", r.ask(flash, nil), "b")
		passes(15*time.Minute + time.Second)
		r.ask(flash, judged(providererr.KindQuota, 20*time.Minute))
		r.sees("old data says nothing", r.ask(flash, nil), "a")
		if got := r.Explain(flash)[0]; strings.Contains(got.Why, "spared") {
			t.Errorf("still %s", got.Why)
		}
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 0}}, time.Now().Add(-16*time.Minute))
		r.sees("data that was old when it came", r.ask(flash, nil), "a")

		r = newPoolRig(t, 2, onlyAntigravity(Options{SoftQuota: 1}))
		r.report("a", flash.Model, 0)
		r.sees("turned off", r.ask(flash, nil), "a")
	})
}

// report says that an account has so much left of a model.
func (r *poolRig) report(email, model string, left float64) {
	r.ReportQuota(email, []perigee.QuotaRow{{Account: email, Pool: PoolAntigravity, Model: model, Remaining: left, ResetsAt: time.Now().Add(5 * time.Hour)}}, time.Now())
}

func TestConcurrencySendsOverflowElsewhereAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{Concurrency: 1})
		first := r.take(in("s", flash))
		second := r.take(in("s", flash))
		r.sees("both", name(first)+name(second), "ab")
		first.Done(nil)
		second.Done(nil)
		r.sees("the session has not moved", r.asks(in("s", flash), 2), "aa")
		r.sees("nor has the current account", r.asks(flash, 2), "aa")
		r.take(flash)
		r.take(flash)
		e := r.refused(flash)
		if e.Class != perigee.ClassRateLimited || e.Retry <= 0 {
			t.Errorf("all busy: %s after %s", e.Class, e.Retry)
		}
	})
}

func TestExplainListsInChoosingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 4, Options{SoftQuota: 0.9})
		r.ask(flash, judged(providererr.KindQuota, time.Hour))
		r.enable(3, false)
		r.report("b", flash.Model, 0.02)
		var got []string
		for _, x := range r.Explain(flash) {
			line := x.Email + " " + x.Pool + " " + x.Why
			if x.Chosen {
				line = "* " + line
			}
			got = append(got, line)
		}
		want := []string{
			"* c antigravity usable: first usable account",
			"a gemini-cli usable, if no account of the pool antigravity is",
			"b gemini-cli usable, if no account of the pool antigravity is",
			"c gemini-cli usable, if no account of the pool antigravity is",
			"b antigravity usable, 2% of its quota left: not used while accounts with more are usable",
			"a antigravity its quota is used up",
			"d antigravity it is disabled; `perigee account enable` changes that",
			"d gemini-cli it is disabled; `perigee account enable` changes that",
		}
		r.sees("explanation", strings.Join(got, "\n"), strings.Join(want, "\n"))
		r.sees("and it is true", r.ask(flash, nil), "c")
	})
}
