package pool

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

var misspelt = Request{Model: "gemni-3-flash", Family: "gemini-3"}

// The owner of the accounts is not told that they rest from something that does not exist.
func TestModelThatNoAccountHasIsNotShownAsACooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		for range 3 {
			r.ask(misspelt, judged(providererr.KindNotFound, 0))
		}
		if e := r.refused(misspelt); e.Class != perigee.ClassNotFound || e.Retry != 0 {
			t.Errorf("%s: %v", e.Class, e)
		}
		for _, a := range r.Status() {
			r.sees("rests of "+a.Email, restOf(a), "")
		}
		r.sees("others", r.ask(flash, nil), "c")
	})
}

// As soon as one account is seen to have a model, it is missing from the accounts that were refused
// it.
func TestModelThatOneAccountHasIsMissingFromTheRest(t *testing.T) {
	const rests = "[gemini antigravity not_found: gemini-3-flash]"
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		b := r.caller(flash)
		r.sees("first", b.ask(judged(providererr.KindNotFound, 0)), "a")
		r.sees("not known yet", restOf(r.Status()[0]), "")
		r.sees("second", b.ask(nil), "b")
		r.sees("answered", restOf(r.Status()[0]), rests)
		r.sees("who has it", restOf(r.Status()[1]), "")

		r = newPoolRig(t, 2, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindNotFound, 0))
		r.report("b", flash.Model, 0.5)
		r.sees("by its quota", restOf(r.Status()[0]), rests)
		passes(notFoundCooldown)
		r.sees("over", restOf(r.Status()[0]), "")
	})
}

func TestWhatAccountsLackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		r.ask(flash, nil)
		old := r.take(flash)
		passes(time.Second)
		old.Done(judged(providererr.KindNotFound, 0))
		const names = 20 * maxMissing
		for i := range names {
			passes(time.Second / 10)
			r.ask(Request{Model: fmt.Sprint("gemini-", i), Family: "gemini-3"}, judged(providererr.KindNotFound, 0))
		}
		m := r.members[0]
		if len(m.missing) != maxMissing {
			t.Errorf("%d models are missing", len(m.missing))
		}
		r.sees("what exists stays", restOf(r.Status()[0]), "[gemini antigravity not_found: gemini-3-flash]")
		if e := r.refused(Request{Model: fmt.Sprint("gemini-", names-1), Family: "gemini-3"}); e.Class != perigee.ClassNotFound {
			t.Errorf("the latest: %v", e)
		}
		r.sees("the oldest", r.ask(Request{Model: "gemini-0", Family: "gemini-3"}, nil), "a")
		passes(notFoundCooldown)
		r.sees("afterwards", r.ask(flash, nil), "a")
		passes(time.Minute)
		r.ask(flash, nil)
		if names := r.Status()[0].Cooldowns; len(names) != 0 || len(m.missing) > maxMissing {
			t.Errorf("afterwards %d models are missing: %v", len(m.missing), names)
		}
	})
}

func TestModelsThatWereHadAreBounded(t *testing.T) {
	p := New(Options{})
	for i := range 2 * maxServed {
		p.served.Put(fmt.Sprint("m", i), steadyclock.Start+instant(i))
	}
	p.now = steadyclock.Start
	if n := p.served.Len(); n != maxServed || p.servedLately("m0") || !p.servedLately(fmt.Sprint("m", 2*maxServed-1)) {
		t.Errorf("%d are remembered", n)
	}
	p.now += 2 * servedAge
	if p.servedLately(fmt.Sprint("m", 2*maxServed-1)) {
		t.Error("what was seen long ago counts")
	}
}
