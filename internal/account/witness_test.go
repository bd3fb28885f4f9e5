package account

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/verdict"
)

// A notebook is a witness that writes everything down.
type notebook []string

func (n *notebook) WithoutToken(l Loan, err error, took time.Duration) {
	*n = append(*n, fmt.Sprintf("%s (%s): %s, %v", l.Email(), l.Why(), perigee.AsError(err).Message, took))
}

// Whoever was to be lent and had no token is told of, with what the sign-in server said; who was not even tried is not.
func TestWitnessHearsOfAccountsWithoutAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hiccup := perigee.Errorf(perigee.ClassUnavailable, "no network")
		for _, test := range []struct {
			name   string
			errs   []error
			lent   string // empty: nobody
			wanted string
		}{
			{"all have one", []error{nil, nil}, "a", ""},
			{"the first has none", []error{hiccup, nil}, "b", "a (sticky: the first that is usable): no network, 0s"},
			{"one has lost its sign-in", []error{&tokenRefusal{*judged(verdict.KindSignedOut, 0)}, nil}, "b", "a (sticky: the first that is usable): the sign-in of this account is no longer valid: as it said, 0s"},
			{"none has one", []error{hiccup, hiccup}, "", "a (sticky: the first that is usable): no network, 0s; " +
				"b (sticky: moved on from a, which rests until 2000-01-01 00:00:01 (no_token)): no network, 0s"},
			{"the only one has none", []error{hiccup}, "", "a (the only account): no network, 0s"},
			{"it is everybody's trouble", []error{perigee.Errorf(perigee.ClassIdentity, "not this client"), nil}, "", "a (sticky: the first that is usable): not this client, 0s"},
			{"the others are left alone", []error{hiccup, fmt.Errorf("two were refused: %w", ErrLeftAlone)}, "", "a (sticky: the first that is usable): no network, 0s"},
		} {
			r := newPoolRig(t, len(test.errs), onlyAntigravity(Options{}))
			for i, err := range test.errs {
				r.sources[i].fail(err)
			}
			var heard notebook
			want := flash
			want.Witness = &heard
			l, err := r.borrower(want).Next(t.Context())
			lent := ""
			if err == nil {
				lent = l.Email()
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
				l := r.borrower(talk).take()
				r.sees(selection, l.Why(), WhyOnly)
				l.Done(nil)
			}
			r.ask(flash, judged(verdict.KindRate, 20*time.Second))
			l := r.borrower(flash).take()
			if !strings.HasPrefix(l.Why(), WhyOnly+"; waited ") {
				t.Errorf("%s: %s", selection, l.Why())
			}
			l.Done(nil)
		}
	})
}
