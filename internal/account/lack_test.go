package account

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

var misspelt = Want{Model: "gemni-3-flash", Family: "gemini-3"}

// The owner of the accounts is not told that they rest from something that does not exist.
func TestModelThatNobodyHasIsNobodysRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		for range 3 {
			r.ask(misspelt, judged(verdict.KindNotFound, 0))
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

// As soon as one account is seen to have a model, it is the others that lack it.
func TestModelThatSomebodyHasIsARestOfTheOthers(t *testing.T) {
	const rests = "[gemini antigravity not_found: gemini-3-flash]"
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 3, onlyAntigravity(Options{}))
		b := r.borrower(flash)
		r.sees("first", b.ask(judged(verdict.KindNotFound, 0)), "a")
		r.sees("not known yet", restOf(r.Status()[0]), "")
		r.sees("second", b.ask(nil), "b")
		r.sees("answered", restOf(r.Status()[0]), rests)
		r.sees("who has it", restOf(r.Status()[1]), "")

		r = newPoolRig(t, 2, onlyAntigravity(Options{}))
		r.ask(flash, judged(verdict.KindNotFound, 0))
		r.report("b", flash.Model, 0.5)
		r.sees("by its quota", restOf(r.Status()[0]), rests)
		passes(notFoundRest)
		r.sees("over", restOf(r.Status()[0]), "")
	})
}

func TestWhatAccountsLackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		r.ask(flash, nil)
		old := r.take(flash)
		passes(time.Second)
		old.Done(judged(verdict.KindNotFound, 0))
		const names = 20 * maxLacks
		for i := range names {
			passes(time.Second / 10)
			r.ask(Want{Model: fmt.Sprint("gemini-", i), Family: "gemini-3"}, judged(verdict.KindNotFound, 0))
		}
		m := r.members[0]
		if len(m.lacks) != maxLacks || len(m.lacks) != len(r.lanes[0].lacking) || len(r.events) > 2 {
			t.Errorf("%d models are lacking, %d in the lane, with %d events", len(m.lacks), len(r.lanes[0].lacking), len(r.events))
		}
		r.sees("what exists stays", restOf(r.Status()[0]), "[gemini antigravity not_found: gemini-3-flash]")
		if e := r.refused(Want{Model: fmt.Sprint("gemini-", names-1), Family: "gemini-3"}); e.Class != perigee.ClassNotFound {
			t.Errorf("the latest: %v", e)
		}
		r.sees("the oldest", r.ask(Want{Model: "gemini-0", Family: "gemini-3"}, nil), "a")
		passes(notFoundRest)
		r.sees("afterwards", r.ask(flash, nil), "a")
		passes(time.Minute)
		r.ask(flash, nil)
		if len(m.lacks) != 0 || len(r.lanes[0].lacking) != 0 || len(r.events) != 0 {
			t.Errorf("afterwards %d models are lacking, %d in the lane, with %d events", len(m.lacks), len(r.lanes[0].lacking), len(r.events))
		}
	})
}

func TestModelsThatWereHadAreBounded(t *testing.T) {
	h := had{}
	for i := range 2 * maxHad {
		h.note(fmt.Sprint("m", i), longAgo+instant(i))
	}
	if len(h) != maxHad || h.lately("m0", longAgo) || !h.lately(fmt.Sprint("m", 2*maxHad-1), longAgo) {
		t.Errorf("%d are remembered", len(h))
	}
	if h.lately(fmt.Sprint("m", 2*maxHad-1), longAgo+2*hadAge) {
		t.Error("what was seen long ago counts")
	}
}
