package accounttests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
)

// killLangserver kills the process of the only language server.
func (r *kindRig) killLangserver() {
	r.t.Helper()
	rows, err := daemon.Langservers(r.t.Context(), r.gateway.Config)
	if err != nil || len(rows) != 1 || rows[0].PID == 0 {
		r.t.Fatalf("got %+v, %v", rows, err)
	}
	process, err := os.FindProcess(rows[0].PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// count counts the calls of an account to the provider with a path and a status.
func (r *kindRig) count(account, path string, status int) (n int) {
	for _, c := range r.provider.Calls() {
		if strings.HasPrefix(c.Account, account) && strings.HasSuffix(c.Path, path) && c.Status == status {
			n++
		}
	}
	return n
}

// refresh gets an access token from the simulator.
func (r *kindRig) refresh(account string) {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"id"}, "client_secret": {"secret-of-the-client"}, "refresh_token": {"sim-refresh-" + account}}
	request := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	if r.provider.ServeHTTP(answer, request); answer.Code != http.StatusOK {
		r.t.Fatalf("no token: %d %s", answer.Code, answer.Body)
	}
}

// A language server that starts with a revoked access token is signed in with a new one as soon as
// the provider has refused the old one to the language server itself. The account stays in use. The
// sign-in server may give the same token again.
func TestLanguageServerStartsWithARevokedToken(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.KindLangserver, "hub", "shared"} {
		for _, other := range []bool{true, false} {
			t.Run(fmt.Sprint(kind, " other token ", other), func(t *testing.T) {
				t.Parallel()
				startRevoked(t, kind, other)
			})
		}
	}
}

func startRevoked(t *testing.T, kind string, other bool) {
	r := newKindRig(t, kind, "sim-refresh-ada")
	if other { // the simulator numbers its tokens, from the start again after a reset
		for range 5 {
			r.refresh("bob")
		}
		r.restart()
	}
	r.ask(gemini)
	if err := r.provider.Reset(); err != nil { // access tokens are not known any more, refresh tokens are
		t.Fatal(err)
	}
	r.story = nil
	r.seen = 0
	r.killLangserver()
	r.ask(gemini)
	r.states()
	if n := r.count("ada", "/token", http.StatusOK); n != 1 {
		t.Errorf("%d tokens in place of one", n)
	}
	if n := r.count("", ":loadCodeAssist", http.StatusUnauthorized); n > 5 {
		t.Errorf("%d calls with the revoked token", n)
	}
	want := []string{"gemini-3-flash: 200 [ada]", "accounts: ada ready, bob ready"}
	if !slices.Equal(r.story, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(r.story, "\n"), strings.Join(want, "\n"))
	}
}

// If the new access token is refused as well, the account has the cooldown that calls would give
// it, and the language server is signed in with another account. No more tokens are asked for.
func TestLanguageServerLeavesAnAccountWhoseTokensAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.KindLangserver, "shared"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newKindRig(t, kind, "sim-refresh-ada", simulator.Fault{Do: "unauthorized", When: simulator.When{Path: "loadCodeAssist", Account: "ada"}})
			r.ask(gemini)
			r.states()
			want := []string{"gemini-3-flash: 200 [bob]", "accounts: ada ready ( unauthenticated), bob ready"}
			if !slices.Equal(r.story, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(r.story, "\n"), strings.Join(want, "\n"))
			}
			if n := r.count("ada", "/token", http.StatusOK); n != 2 {
				t.Errorf("%d tokens, want two", n)
			}
		})
	}
}
