package adc

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// everyType returns a file of each type of credentials in a file.
func (s *tokenServer) everyType(t *testing.T) map[string]any {
	subject := filepath.Join(t.TempDir(), "subject")
	if err := os.WriteFile(subject, []byte("subject-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	workforce := s.user()
	workforce["type"], workforce["token_url"] = typeExternalUser, s.URL+"/workforce"
	return map[string]any{typeUser: s.user(), typeService: s.service(), typeExternalUser: workforce,
		typeExternal: s.external(map[string]any{"file": subject}),
		typeImpersonated: map[string]any{"type": typeImpersonated, "source_credentials": s.user(),
			"service_account_impersonation_url": s.URL + "/v1/serviceAccounts/robot:generateAccessToken"}}
}

// The page of a portal, for instance, is no refusal: the credentials may be good.
func TestAnswersThatAreNoTokens(t *testing.T) {
	server := newTokenServer(t)
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"page":           {200, "<html>Sign in to the hotel</html>", "something else than a token"},
		"garbage":        {200, "\x00\xff{{{", "something else than a token"},
		"too large":      {200, `{"access_token":"` + strings.Repeat("x", maxAnswer) + `","expires_in":3600}`, "something else than a token"},
		"no token":       {200, `{"expires_in":3600}`, "something else than a token"},
		"line break":     {200, `{"access_token":"abc\r\nX-Evil: 1","accessToken":"abc\r\nX-Evil: 1","expires_in":3600,"expireTime":"2100-01-01T00:00:00Z"}`, "no Google access token"},
		"other lifetime": {200, `{"access_token":"abc","accessToken":"","expires_in":"soon"}`, "something else than a token"},
		"redirect":       {307, "", "a redirect"},
	} {
		for kind, file := range server.everyType(t) {
			s := sourceOf(writeFile(t, file))
			server.answers(test.status, test.body)
			_, err := s.Token(t.Context())
			e := perigee.AsError(err)
			if err == nil || e.Class != perigee.ClassUnavailable || e.Hint != "try again" || !strings.Contains(e.Message, test.want) || strings.Contains(e.Message, "Evil") {
				t.Errorf("%s, %s: %v", name, kind, err)
				continue
			}
			if why := s.Unusable(); why != "" {
				t.Errorf("%s, %s: then %s", name, kind, why)
			}
			server.answers(0, "")
			if _, err := s.Token(t.Context()); err != nil {
				t.Errorf("%s, %s: then %v", name, kind, err)
			}
		}
	}
}

// A textTransport answers everything with a text.
type textTransport string

func (t textTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(t)))}, nil
}

func TestLifetimes(t *testing.T) {
	server := newTokenServer(t)
	files := server.everyType(t)
	delete(files, typeImpersonated) // has a time in place of a lifetime
	for kind, file := range files {
		path := writeFile(t, file)
		synctest.Test(t, func(t *testing.T) {
			for text, want := range map[string]time.Duration{"3600": time.Hour, `"3600"`: time.Hour, "3599.9": time.Hour - time.Second, "1e18": 1<<31*time.Second - time.Second} {
				at, err := locate(FromFile + path)
				if err != nil {
					t.Fatal(err)
				}
				answer := textTransport(fmt.Sprintf(`{"access_token":"access","expires_in":%s,"token_type":"Bearer"}`, text))
				token, lifetime, err := load(at).request(t.Context(), sender{transport: answer, learn: func(perigee.Secret) {}})
				if err != nil || lifetime != want || token.Access.Reveal() != "access" {
					t.Errorf("%s, expires_in %s: %v, %v", kind, text, lifetime, err)
				}
			}
		})
	}
}

// A file that is being written serves calls with the token of the earlier one until that expires.
func TestFileIsHalfWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, map[string]any{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := New(FromFile + path)
		s.Use(textTransport(`{"access_token":"access","expires_in":3600}`), "perigee/test")
		get := func(content []byte, works bool) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Token(t.Context()); (err == nil) != works {
				t.Errorf("%v", err)
			}
		}
		get(whole, true)
		get(whole[:20], true)
		get(nil, true)
		get(append(whole, '\n'), true)
		get(whole[:20], true)
		time.Sleep(time.Hour)
		get(whole[:20], false)
		get(whole, true)
	})
}
