package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
)

func TestCloseKeepsWhatCouldNotBeStored(t *testing.T) {
	inTime(t, rotating, func(t *testing.T, s *source) {
		s.store.broken = errors.New("the disk is full")
		if _, err := s.Token(t.Context()); err == nil {
			t.Fatal("no error")
		}
		s.store.broken = nil
		s.Close()
		if s.store.only().Refresh == ada().Refresh {
			t.Error("the new refresh token was lost")
		}
	})
}

// A lifetime of the wrong type must not cost the refresh token that came with it.
func TestOddLifetimeLosesNoToken(t *testing.T) {
	for _, said := range []string{`"soon"`, `true`, `{}`, `[1]`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"access_token":"fake-access","refresh_token":"fake-refresh-new","expires_in":` + said + `}`))
		}))
		grant, err := NewClient(Options{TokenURL: server.URL, ClientID: "id"}).Refresh(t.Context(), perigee.NewSecret("fake-refresh-old"))
		server.Close()
		if err != nil || grant.Lifetime != usualLifetime || !grant.Refresh.Equal("fake-refresh-new") {
			t.Errorf("%s: got %+v, %v", said, grant, err)
		}
	}
}

func TestEscapedEchoGivesNothingAway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		var echo strings.Builder
		for _, c := range r.Form.Get("refresh_token") + " " + r.Form.Get("client_secret") {
			fmt.Fprintf(&echo, `\u%04x`, c)
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_request","error_description":"what is ` + echo.String() + `?"}`))
	}))
	defer server.Close()
	client := NewClient(Options{TokenURL: server.URL, ClientID: "id", ClientSecret: perigee.NewSecret("all-lower-secret")})
	_, err := client.Refresh(t.Context(), perigee.NewSecret("all-lower-refresh"))
	if err == nil || strings.Contains(err.Error(), "all-lower") {
		t.Errorf("got %v", err)
	}
}

// A userinfo endpoint that reports a different owner for one account after the other is not
// believed a third time.
func TestUserinfoThatLiesCostsTwoAccounts(t *testing.T) {
	inCrowd(t, 5, func(t *testing.T, c *crowd) {
		for i := range c.store.list {
			c.store.list[i].State, c.store.list[i].Email = perigee.AccountUntested, fmt.Sprintf("q%d@example.com", i)
			c.tokens[i].setSignIn(c.store.list[i])
		}
		stopped := 0
		for i := range c.tokens {
			c.ask(i)
			if c.store.list[i].State == perigee.AccountMisnamed {
				stopped++
			}
		}
		if stopped != 2 {
			t.Errorf("%d accounts were stopped", stopped)
		}
	})
}
