package daemontest

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
)

// An Antigravity is a daemon whose only upstream is the Antigravity gateway, which the simulator
// plays, with one account.
type Antigravity struct {
	*Gateway
	Provider *simulator.Server
}

// StartAntigravity starts one. more is added to the upstream's configuration.
func StartAntigravity(t *testing.T, more string, faults ...simulator.Fault) *Antigravity {
	t.Helper()
	return StartAntigravityWith(t, rules.StrictSwitches(), more, faults...)
}

// StartAntigravityWith is StartAntigravity with the given switches of the simulator.
func StartAntigravityWith(t *testing.T, switches rules.Switches, more string, faults ...simulator.Fault) *Antigravity {
	t.Helper()
	provider, url := StartSimulator(t, simulator.Options{Switches: switches, Accounts: []simulator.Account{
		{Email: "ada@example.com", RefreshToken: "sim-refresh-ada", Project: "sim-project-ada", Tier: "free-tier", Limits: simulator.Limits{FiveHour: -1, Weekly: -1}},
	}}, faults...)
	dir := DataDir(t)
	SignIn(t, dir, SignedIn("ada@example.com", "", "sim-refresh-ada"))
	return &Antigravity{StartIn(t, Sources(AntigravityConfig(url, more), dir), nil), provider}
}

// AntigravityConfig is a configuration with the upstream gravity, which a provider at an address
// plays. more is added to the upstream.
func AntigravityConfig(provider, more string) string {
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

// Violations are the requests that the provider refused for what was in them.
func (g *Antigravity) Violations() (list []string) {
	for _, call := range g.Provider.Calls() {
		if call.Rule != "" {
			list = append(list, fmt.Sprintf("%s: %d, %s", call.Model, call.Status, call.Rule))
		}
	}
	return list
}

// SignInServer is a sign-in server that takes every refresh token, and gives always the same access
// token.
func SignInServer(t *testing.T) string {
	t.Helper()
	return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"access-of-ada","token_type":"Bearer","expires_in":3599}`)
	}))
}
