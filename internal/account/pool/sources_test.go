package pool

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// explained is what the pool says about an account for a model, in the first of its pools.
func (r *poolRig) explained(email, model string) string {
	r.t.Helper()
	for _, reason := range r.Explain(Request{Model: model}) {
		if reason.Email == email && reason.Pool == PoolAntigravity {
			return reason.Why
		}
	}
	r.t.Fatalf("nothing is said about %s", email)
	return ""
}

func TestPoolLearnsWhatBecameOfASignIn(t *testing.T) {
	r := newPoolRig(t, 2, Options{})
	r.sees("at first", r.ask(flash, nil), "a")
	r.sources[0].change(func(s *perigee.SignIn) {
		s.State, s.Reason, s.Generation = perigee.AccountSignedOut, "it was revoked", 8
	})
	r.Learn(r.sources[0])
	r.sees("listed", r.Status()[0].State+": "+r.Status()[0].Reason, "signed_out: it was revoked")
	r.sees("explained", r.explained("a", flash.Model), "signed out: it was revoked")
	r.sees("lent", r.ask(flash, nil), "b")

	// What was read before is old, and a sign-in that has lost its place says nothing.
	stale := newSource("a")
	stale.signIn.Generation = 9
	r.Learn(stale)
	r.sees("another sign-in", r.Status()[0].State, perigee.AccountSignedOut)
	r.sources[0].change(func(s *perigee.SignIn) { s.State, s.Generation = perigee.AccountReady, 7 })
	r.announce()
	r.sees("read before", r.Status()[0].State, perigee.AccountSignedOut)
	r.sources[0].change(func(s *perigee.SignIn) { s.Generation = 9 })
	r.announce()
	r.sees("signed in again", r.Status()[0].State, perigee.AccountReady)
}

func TestReportStopsAccountsThatTheProviderLocks(t *testing.T) {
	r := newPoolRig(t, 2, Options{})
	r.Report(r.sources[0], *judged(providererr.KindBan, 0))
	r.Report(r.sources[1], *judged(providererr.KindRate, time.Minute)) // it passes, and a call would find it out
	r.sees("states", r.Status()[0].State+" "+r.Status()[1].State, "banned ready")
	r.sees("stored", strings.Join(r.states, ","), "a banned")
	r.sees("lent", r.ask(flash, nil), "b")
}

func TestRefusedProjectIsNamedUntilThereIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, 1, onlyAntigravity(Options{}))
		r.ask(flash, judged(providererr.KindProject, 0))
		r.sees("explained", r.explained("a", flash.Model), "its project project-a is refused")
		r.sees("listed", r.Status()[0].Reason+" "+r.Status()[0].Refused, "its project project-a is refused project-a")
		r.sources[0].change(func(s *perigee.SignIn) { s.ProjectID, s.Generation = "another", 8 })
		r.Learn(r.sources[0])
		r.sees("with another", r.explained("a", flash.Model)+r.Status()[0].Reason, "usable: it is the current account, and sticky selection stays with it")

		r.Report(r.sources[0], *judged(providererr.KindProject, 0))
		r.sees("for everything", r.explained("a", opus.Model), "its project another is refused")
		passes(time.Second)
		r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: opus.Model, Remaining: 1}}, time.Now())
		r.sees("asked again", r.explained("a", opus.Model), "usable, 100% of its quota left: first usable account")
	})
}

// Figures end the cooldown of a whole account only if its project was refused, and before they were
// asked for: they say nothing about tokens.
func TestFiguresEndNoOtherCooldownOfAnAccount(t *testing.T) {
	for kind, newer := range map[providererr.Kind]bool{providererr.KindProject: false, providererr.KindNoToken: true} {
		synctest.Test(t, func(t *testing.T) {
			r := newPoolRig(t, 1, onlyAntigravity(Options{}))
			before := time.Now()
			passes(time.Second)
			if kind == providererr.KindProject {
				r.Report(r.sources[0], *judged(kind, 0)) // after a call, it would be the quota group that cools down
			} else {
				r.ask(flash, judged(kind, 0))
			}
			if got := restOf(r.Status()[0]); got != "[  "+string(kind)+"]" {
				t.Fatalf("%s: cooldowns %q, not one of the whole account", kind, got)
			}
			refused := r.explained("a", flash.Model)
			passes(time.Millisecond)
			at := before
			if newer {
				at = time.Now()
			}
			r.ReportQuota("a", []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 1}}, at)
			if got := r.explained("a", flash.Model); strings.HasPrefix(got, "usable") || got != refused {
				t.Errorf("%s: %q, and after the figures %q", kind, refused, got)
			}
		})
	}
}

// Figures end a rest only if they are newer than the refusal, and that is said.
func TestOnlyNewerFiguresEndAQuotaRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newPoolRig(t, 1, onlyAntigravity(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		before := time.Now()
		passes(time.Minute)
		r.ask(flash, judged(providererr.KindQuota, 5*time.Hour))
		passes(time.Minute)
		figures := []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 0.19}}
		r.ReportQuota("a", figures, before)
		until, ok := r.Exhausted("a", flash.Model, PoolAntigravity)
		if left := time.Until(until); !ok || left < 4*time.Hour+57*time.Minute || left > 5*time.Hour {
			t.Errorf("it rests: %v, for %v", ok, left)
		}
		if _, ok := r.Exhausted("a", opus.Model, PoolAntigravity); ok {
			t.Error("another family is used up, too")
		}
		if strings.Contains(log.String(), "quota again") {
			t.Errorf("logged %s", log.String())
		}
		r.ReportQuota("a", figures, time.Now())
		if _, ok := r.Exhausted("a", flash.Model, PoolAntigravity); ok || !strings.Contains(log.String(), `level=INFO msg="account has quota again`) {
			t.Errorf("it rests: %v; logged %s", ok, log.String())
		}
	})
}

func TestEnablingIsNamedBesideSigningIn(t *testing.T) {
	r := newPoolRig(t, 2, Options{})
	r.enable(0, false)
	r.sources[1].change(func(s *perigee.SignIn) { s.State = perigee.AccountSignedOut })
	r.announce()
	e := r.refused(flash)
	if e.Class != perigee.ClassUnauthenticated || !strings.Contains(e.Hint, "`perigee login`") || !strings.Contains(e.Hint, "`perigee account enable`") {
		t.Errorf("%s: %v", e.Class, e)
	}
}

func TestQuotaIsRoundedDown(t *testing.T) {
	for fraction, want := range map[float64]string{1: "100%", 0.999: "99%", 0.986: "98%", 0.29: "29%", 0.004: "<1%", 0: "0%"} {
		if got := percent(fraction); got != want {
			t.Errorf("%v is %s, want %s", fraction, got, want)
		}
	}
}
