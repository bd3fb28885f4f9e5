package pool

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// An observerRig writes down what it is told.
type observerRig []string

func (n *observerRig) TokenFailed(l Lease, err error, took time.Duration) {
	*n = append(*n, fmt.Sprintf("%s (%s): %s, %v", l.Account().Email, l.Account().Why, perigee.AsError(err).Message, took))
}

// The observer is told of each account that was chosen and had no token, with the answer of the
// sign-in server, and not of accounts that were not even tried.
func TestObserverIsToldOfAccountsWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hiccup := perigee.Errorf(perigee.ClassUnavailable, "no network")
		for _, test := range []struct {
			name   string
			errs   []error
			lent   string // empty means none
			wanted string
		}{
			{"all have one", []error{nil, nil}, "a", ""},
			{"the first has none", []error{hiccup, nil}, "b", "a (sticky: first usable account): no network, 0s"},
			{"one has lost its sign-in", []error{&tokenRefusal{*judged(providererr.KindSignedOut, 0)}, nil}, "b", "a (sticky: first usable account): the sign-in of this account is no longer valid: as it said, 0s"},
			{"none has one", []error{hiccup, hiccup}, "", "a (sticky: first usable account): no network, 0s; " +
				"b (sticky: moved from a, which cools down until 2000-01-01 00:00:01 (no_token)): no network, 0s"},
			{"the only one has none", []error{hiccup}, "", "a (the only account): no network, 0s"},
			{"it is everybody's trouble", []error{perigee.Errorf(perigee.ClassIdentity, "not this client"), nil}, "", "a (sticky: first usable account): not this client, 0s"},
			{"the others are left alone", []error{hiccup, fmt.Errorf("two were refused: %w", providererr.ErrRefreshPaused)}, "", "a (sticky: first usable account): no network, 0s"},
		} {
			r := newPoolRig(t, len(test.errs), onlyAntigravity(Options{}))
			for i, err := range test.errs {
				r.sources[i].fail(err)
			}
			var heard observerRig
			want := flash
			want.OnTokenFailure = heard.TokenFailed
			l, err := r.caller(want).Next(t.Context())
			lent := ""
			if err == nil {
				lent = l.Account().Email
				l.Done(nil)
			}
			r.sees(test.name+": lent", lent, test.lent)
			r.sees(test.name, strings.Join(heard, "; "), test.wanted)
		}
	})
}

// That there was nothing to choose is said as such, and nothing else is lost by it.
func TestTheOnlyAccountIsNoChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
			r := newPoolRig(t, 1, onlyAntigravity(Options{Selection: selection, MaxWait: time.Minute}))
			talk := flash
			talk.Session = "talk"
			for range 3 {
				l := r.caller(talk).take()
				r.sees(selection, l.Account().Why, WhyOnly)
				l.Done(nil)
			}
			r.ask(flash, judged(providererr.KindRate, 20*time.Second))
			l := r.caller(flash).take()
			if !strings.HasPrefix(l.Account().Why, WhyOnly+"; waited ") {
				t.Errorf("%s: %s", selection, l.Account().Why)
			}
			l.Done(nil)
		}
	})
}
