package antigravity

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/simulator"
)

// What all endpoints are in trouble with may be about the account; what is about the model, or the network, is not.
func TestTroubleOfAllEndpoints(t *testing.T) {
	dial := fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	for _, c := range []struct {
		kind  account.Kind
		cause error
		blame account.Scope
		want  account.Scope
	}{
		{account.KindUnavailable, nil, account.ScopeHost, account.ScopeProvider},
		{account.KindOther, nil, account.ScopeHost, account.ScopeProvider},
		{account.KindForbidden, nil, account.ScopeHost, account.ScopeProvider},
		{kindUnreachable, errors.New("reset"), account.ScopeHost, account.ScopeProvider},
		{kindUnreachable, dial, account.ScopeHost, account.ScopeNetwork},
		{account.KindEndpoint, nil, account.ScopeHost, account.ScopeHost},
		{account.KindCapacity, nil, account.ScopeModel, account.ScopeModel},
		{account.KindNotFound, nil, account.ScopeAccountModel, account.ScopeAccountModel},
	} {
		v := &account.Verdict{Kind: c.kind, Blame: c.blame, Error: &perigee.Error{Class: perigee.ClassUnavailable, Cause: c.cause}}
		if got := everywhere(v).Blame; got != c.want || v.Blame != c.blame {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
	if everywhere(nil) != nil {
		t.Error("nothing is something")
	}
}

// Who lends accounts is asked for another one after a server error, and not after a want of capacity.
func TestServerErrorsAskForAnotherAccount(t *testing.T) {
	for do, want := range map[string][]account.Kind{
		"internal_500": {account.KindUnavailable, ""},
		"reset":        {kindUnreachable, ""},
		"forbidden":    {account.KindForbidden, ""},
		"capacity":     {account.KindCapacity},
	} {
		r := newRig(t, nil, simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: do, Times: 3}) // once at each endpoint
		r.lender.most = 1
		heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]]")))
		if !slices.Equal(r.lender.verdicts, want) || (heard == hello) != (len(want) == 2) {
			t.Errorf("%s: %q, heard %s", do, r.lender.verdicts, heard)
		}
	}
}

func TestTroubleThatTookLongIsNotTriedAgain(t *testing.T) {
	for blame, want := range map[account.Scope]bool{account.ScopeProvider: true, account.ScopeNetwork: true, account.ScopeAccountFamily: false} {
		v := &account.Verdict{Blame: blame}
		if tooLate(v, patience) || tooLate(v, patience+time.Second) != want {
			t.Errorf("%s", blame)
		}
	}
}
