package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"perigee"
	"perigee/internal/seal"
	"perigee/internal/simulator"
	"perigee/internal/sqlstore"
)

// A gravity is a daemon whose only upstream is the Antigravity gateway, which the simulator plays, with one account.
type gravity struct {
	*gateway
	provider *simulator.Server
}

// startGravity starts one. more is added to the upstream's configuration.
func startGravity(t *testing.T, more string, faults ...simulator.Fault) *gravity {
	t.Helper()
	provider, err := simulator.New(simulator.Options{Seed: t.Name(), Accounts: []simulator.Account{
		{Email: "ada@example.com", RefreshToken: "sim-refresh-ada", Project: "sim-project-ada", Tier: "free-tier", Limits: simulator.Limits{FiveHour: -1, Weekly: -1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.AddFaults(faults...); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = provider.Close()
	})
	dir := dataDir(t)
	signIn(t, dir, perigee.Account{Email: "ada@example.com", Upstream: "gravity", Enabled: true}, "sim-refresh-ada")
	g, err := launch(t.Context(), sources(gravityConfig(server.URL, more), dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Daemon.Stop(t.Context()) })
	return &gravity{g, provider}
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

// signIn puts an account where the daemon keeps its own.
func signIn(t *testing.T, dir string, account perigee.Account, refresh string) {
	t.Helper()
	key, err := seal.Open(t.Context(), seal.Options{Dir: dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "perigee.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Accounts(key).AddSignIns(t.Context(), []perigee.SignIn{
		{Account: account, Refresh: perigee.NewSecret(refresh)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// violations are the requests that the provider refused for what was in them.
func (g *gravity) violations() (list []string) {
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"access-of-ada","token_type":"Bearer","expires_in":3599}`)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
