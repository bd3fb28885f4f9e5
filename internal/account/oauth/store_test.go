package oauth

import (
	"path/filepath"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
	"perigee/internal/testing/perigeetest/await"
)

// openStore opens the accounts of a data directory as the daemon does.
func openStore(t *testing.T, dir string) (*sqlstore.Accounts, func()) {
	t.Helper()
	key, err := vault.Open(t.Context(), vault.Options{Dir: dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "perigee.db")})
	if err != nil {
		t.Fatal(err)
	}
	return store.Accounts(key), func() {
		t.Helper()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFromSignInToRestart goes the whole way: sign in, discover, store, refresh with rotation, and
// again after a restart.
func TestFromSignInToRestart(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, simulator.Script{RotateRefreshTokens: true})
	l, b, done := r.start(LoginOptions{Email: "cyd@example.com"})
	b.visit(b.consent(l.URL).String())
	who := await.Receive(t, done, "the end of the sign-in")
	if who.err != nil {
		t.Fatal(who.err)
	}
	discoverer := NewDiscoverer(DiscoverOptions{Endpoints: endpoints, Transport: r.options.Transport})
	discoverer.poll = 1
	project, err := discoverer.Discover(t.Context(), who.Grant.Access, nil)
	if err != nil {
		t.Fatalf("got %+v, %v", project, err)
	}
	accounts, closeStore := openStore(t, dir)
	_, err = accounts.AddSignIns(t.Context(), []perigee.SignIn{{Account: perigee.Account{Email: who.Email, Upstream: "antigravity",
		Enabled: true, ProjectID: project.ID}, Refresh: who.Grant.Refresh}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[perigee.Secret]bool{who.Grant.Refresh: true}
	for range 5 { // the provider takes each refresh token once, and once more
		list, err := accounts.SignIns(t.Context(), "antigravity")
		if err != nil || len(list) != 1 || list[0].ProjectID != "sim-project-cyd" || list[0].State != perigee.AccountReady {
			t.Fatalf("got %+v, %v", list, err)
		}
		tokens := NewTokens(r.client, accounts, list[0])
		token, err := tokens.Token(t.Context())
		if err != nil || !r.works(token) {
			t.Fatal(err)
		}
		if refresh := tokens.SignIn().Refresh; seen[refresh] {
			t.Error("the refresh token was not replaced")
		} else {
			seen[refresh] = true
		}
		tokens.Close()
		closeStore()
		accounts, closeStore = openStore(t, dir)
	}
	closeStore()
}
