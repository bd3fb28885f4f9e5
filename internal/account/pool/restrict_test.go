package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// A request for one account gets that one or none. It moves neither the account of other calls nor
// their sessions.
func TestRequestForOneAccount(t *testing.T) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 3, onlyAntigravity(Options{Selection: selection, MaxWait: time.Minute}))
			onlyB := flash
			onlyB.Email = "b"
			r.sees("any", r.ask(flash, nil), "a")
			r.sees("one", r.asks(onlyB, 3), "bbb")
			if selection == Sticky {
				r.sees("any", r.ask(flash, nil), "a")
			}
			bound := r.ask(in("s", flash), nil)
			r.sees("of a session", r.asks(in("s", onlyB), 2), "bb")
			r.sees("the session stays", r.ask(in("s", flash), nil), bound)

			if rows := r.Explain(onlyB); len(rows) != 1 || rows[0].Email != "b" || !rows[0].Chosen || !strings.HasSuffix(rows[0].Why, ": the configuration names it") {
				t.Errorf("%s: explained as %+v", selection, rows)
			}
			call := r.caller(onlyB)
			r.sees("refused", call.ask(judged(providererr.KindQuota, time.Hour)), "b")
			if e := call.refused(); e.Class != perigee.ClassExhausted || e.Retry < 59*time.Minute {
				t.Errorf("%s: %v, again in %v", selection, e, e.Retry)
			}
			if got := r.ask(flash, nil); got == "b" {
				t.Error("b was leased")
			}
			call = r.caller(Request{Model: opus.Model, Family: opus.Family, Email: "b"})
			r.sees("provider error", call.ask(fault(providererr.KindUnavailable)), "b")
			r.sees("once more", call.ask(nil), "b")
			onlyB.Email = "z"
			if e := r.refused(onlyB); e.Class != perigee.ClassUnauthenticated {
				t.Errorf("an account that is not there: %v", e)
			}
		})
	}
}

// A request for one pool of quota gets no account from another one, whatever its session is bound
// to.
func TestRequestForOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, Options{})
		only := flash
		only.Pool = PoolAntigravity
		r.sees("limited", r.ask(flash, judged(providererr.KindQuota, time.Hour)), "a")
		r.sees("from the other pool", r.ask(in("s", flash), nil), "a+")
		for _, want := range []Request{only, in("s", only)} {
			if e := r.refused(want); e.Class != perigee.ClassExhausted {
				t.Errorf("got %v", e)
			}
		}
		if rows := r.Explain(only); len(rows) != 1 || rows[0].Pool != PoolAntigravity || rows[0].Chosen {
			t.Errorf("explained as %+v", rows)
		}
		r.sees("the session stays", r.ask(in("s", flash), nil), "a+")
		only.Pool = PoolCLI
		r.sees("the other pool alone", r.ask(only, nil), "a+")
	})
}

// A refusal is known without a call when no account is in use. A cooldown is none: it ends by
// itself.
func TestRefusalWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 2, Options{})
		r.ask(flash, judged(providererr.KindQuota, time.Hour))
		r.ask(flash, judged(providererr.KindQuota, time.Hour))
		if err := r.Refusal(flash); err != nil {
			t.Errorf("with cooldowns: %v", err)
		}
		r.ask(opus, judged(providererr.KindBan, 0))
		onlyA := flash
		onlyA.Email = "a"
		if err := r.Refusal(onlyA); perigee.AsError(err).Class != perigee.ClassForbidden {
			t.Errorf("the banned one: %v", err)
		}
		if err := r.Refusal(flash); err != nil {
			t.Errorf("one is left: %v", err)
		}
		r.enable(1, false)
		if got, want := r.Refusal(opus).Error(), r.refused(opus).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		r.sources = nil
		r.announce()
		if err := r.Refusal(flash); err != nil {
			t.Errorf("without accounts: %v", err)
		}
	})
}
