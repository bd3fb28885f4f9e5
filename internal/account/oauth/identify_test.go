package oauth

import (
	"testing"

	"perigee"
	"perigee/internal/simulator"
)

func TestIdentify(t *testing.T) {
	for _, rotate := range []bool{false, true} {
		r := newRig(t, simulator.Script{RotateRefreshTokens: rotate})
		email, grant, err := r.client.Identify(t.Context(), perigee.NewSecret("sim-refresh-bob"))
		if err != nil || email != "bob@example.com" || grant.Refresh.IsZero() || (grant.Refresh.Reveal() != "sim-refresh-bob") != rotate {
			t.Errorf("got %s, %+v, %v", email, grant, err)
		}
	}
	r := newRig(t, simulator.Script{})
	_, _, err := r.client.Identify(t.Context(), perigee.NewSecret("sim-refresh-nobody"))
	wantClass(t, err, perigee.ClassUnauthenticated)
	_, _, err = r.client.Identify(t.Context(), perigee.Secret{})
	wantClass(t, err, perigee.ClassUnauthenticated)
}
