package antigravity

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/verdict"
)

// What all endpoints are in trouble with may be about the account; what is about the model, or the network, is not.
func TestTroubleOfAllEndpoints(t *testing.T) {
	dial := fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	for _, c := range []struct {
		kind  verdict.Kind
		cause error
		blame verdict.Scope
		want  verdict.Scope
	}{
		{verdict.KindUnavailable, nil, verdict.ScopeHost, verdict.ScopeProvider},
		{verdict.KindOther, nil, verdict.ScopeHost, verdict.ScopeProvider},
		{verdict.KindForbidden, nil, verdict.ScopeHost, verdict.ScopeProvider},
		{kindUnreachable, errors.New("reset"), verdict.ScopeHost, verdict.ScopeProvider},
		{kindUnreachable, dial, verdict.ScopeHost, verdict.ScopeNetwork},
		{verdict.KindEndpoint, nil, verdict.ScopeHost, verdict.ScopeHost},
		{verdict.KindCapacity, nil, verdict.ScopeModel, verdict.ScopeModel},
		{verdict.KindNotFound, nil, verdict.ScopeAccountModel, verdict.ScopeAccountModel},
	} {
		v := &verdict.Verdict{Kind: c.kind, Blame: c.blame, Error: &perigee.Error{Class: perigee.ClassUnavailable, Cause: c.cause}}
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
	for do, want := range map[string][]verdict.Kind{
		"internal_500": {verdict.KindUnavailable, ""},
		"reset":        {kindUnreachable, ""},
		"forbidden":    {verdict.KindForbidden, ""},
		"capacity":     {verdict.KindCapacity},
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
	for blame, want := range map[verdict.Scope]bool{verdict.ScopeProvider: true, verdict.ScopeNetwork: true, verdict.ScopeAccountFamily: false} {
		v := &verdict.Verdict{Blame: blame}
		if tooLate(v, patience) || tooLate(v, patience+time.Second) != want {
			t.Errorf("%s", blame)
		}
	}
}
