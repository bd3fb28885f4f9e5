package antigravity

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/simulator"
)

// What all endpoints are in trouble with may be about the account; what is about the model, or the
// network, is not.
func TestTroubleOfAllEndpoints(t *testing.T) {
	dial := fmt.Errorf("post: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	for _, c := range []struct {
		kind  providererr.Kind
		cause error
		scope providererr.Scope
		want  providererr.Scope
	}{
		{providererr.KindUnavailable, nil, providererr.ScopeHost, providererr.ScopeProvider},
		{providererr.KindOther, nil, providererr.ScopeHost, providererr.ScopeProvider},
		{providererr.KindForbidden, nil, providererr.ScopeHost, providererr.ScopeProvider},
		{kindUnreachable, errors.New("reset"), providererr.ScopeHost, providererr.ScopeProvider},
		{kindUnreachable, dial, providererr.ScopeHost, providererr.ScopeNetwork},
		{providererr.KindEndpoint, nil, providererr.ScopeHost, providererr.ScopeHost},
		{providererr.KindCapacity, nil, providererr.ScopeModel, providererr.ScopeModel},
		{providererr.KindNotFound, nil, providererr.ScopeAccountModel, providererr.ScopeAccountModel},
	} {
		v := &providererr.Diagnosis{Kind: c.kind, Scope: c.scope, Error: &perigee.Error{Class: perigee.ClassUnavailable, Cause: c.cause}}
		if got := widenScope(v).Scope; got != c.want || v.Scope != c.scope {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
	if widenScope(nil) != nil {
		t.Error("nothing is something")
	}
}

// The pool is asked for another account after a server error, and not after a lack of capacity.
func TestServerErrorsAskForAnotherAccount(t *testing.T) {
	for do, want := range map[string][]providererr.Kind{
		"internal_500": {providererr.KindUnavailable, ""},
		"reset":        {kindUnreachable, ""},
		"forbidden":    {providererr.KindForbidden, ""},
		"capacity":     {providererr.KindCapacity},
	} {
		r := newRig(t, nil, simulator.Fault{When: simulator.When{Path: "streamGenerateContent"}, Do: do, Times: 3}) // once at each endpoint
		r.fakePool.most = 1
		heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: hello]]")))
		if !slices.Equal(r.fakePool.diagnoses, want) || (heard == hello) != (len(want) == 2) {
			t.Errorf("%s: %q, heard %s", do, r.fakePool.diagnoses, heard)
		}
	}
}

func TestTroubleThatTookLongIsNotTriedAgain(t *testing.T) {
	for scope, want := range map[providererr.Scope]bool{providererr.ScopeProvider: true, providererr.ScopeNetwork: true, providererr.ScopeAccountFamily: false} {
		v := &providererr.Diagnosis{Scope: scope}
		if tooLate(v, patience) || tooLate(v, patience+time.Second) != want {
			t.Errorf("%s", scope)
		}
	}
}
