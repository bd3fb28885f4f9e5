package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
)

// A gravityRig is a daemon whose only upstream is the Antigravity gateway, which the simulator plays, with one account.
type gravityRig struct {
	*gateway
	provider *simulator.Server
}

// startGravity starts one. more is added to the upstream's configuration.
func startGravity(t *testing.T, more string, faults ...simulator.Fault) *gravityRig {
	t.Helper()
	return startGravityWith(t, rules.StrictSwitches(), more, faults...)
}

// startGravityWith does the same with a provider that is as its switches say.
func startGravityWith(t *testing.T, switches rules.Switches, more string, faults ...simulator.Fault) *gravityRig {
	t.Helper()
	provider, url := startSimulator(t, simulator.Options{Switches: switches, Accounts: []simulator.Account{
		{Email: "ada@example.com", RefreshToken: "sim-refresh-ada", Project: "sim-project-ada", Tier: "free-tier", Limits: simulator.Limits{FiveHour: -1, Weekly: -1}},
	}}, faults...)
	dir := dataDir(t)
	signIn(t, dir, signedIn("ada@example.com", "", "sim-refresh-ada"))
	return &gravityRig{startIn(t, sources(gravityConfig(url, more), dir), nil), provider}
}

func gravityConfig(provider, more string) string {
	return fmt.Sprintf(`
upstreams:
  - name: gravity
    kind: antigravity
    accept_terms_risk: true
    endpoints: [%[1]s]
    oauth: {auth_url: %[1]s/o/oauth2/v2/auth, token_url: %[1]s/token, userinfo_url: %[1]s/oauth2/v2/userinfo, client_id: id, client_secret: secret-of-the-client}
    %[2]s
`, provider, more)
}

// violations are the requests that the provider refused for what was in them.
func (g *gravityRig) violations() (list []string) {
	for _, call := range g.provider.Calls() {
		if call.Rule != "" {
			list = append(list, fmt.Sprintf("%s: %d, %s", call.Model, call.Status, call.Rule))
		}
	}
	return list
}

// signInServer is a sign-in server that takes every refresh token, and gives always the same access token.
func signInServer(t *testing.T) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"access-of-ada","token_type":"Bearer","expires_in":3599}`)
	}))
}
