package adc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

func TestTokensOfEachType(t *testing.T) {
	server := newTokenServer(t)
	subject := filepath.Join(t.TempDir(), "subject")
	if err := os.WriteFile(subject, []byte("subject-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	impersonated := map[string]any{"type": "impersonated_service_account", "source_credentials": server.user(),
		"service_account_impersonation_url": server.URL + "/v1/serviceAccounts/robot:generateAccessToken", "quota_project_id": "ada-quota"}
	workforce := server.user()
	workforce["type"], workforce["token_url"] = "external_account_authorized_user", server.URL+"/workforce"
	external := server.external(map[string]any{"file": subject})
	external["service_account_impersonation_url"] = server.URL + "/v1/serviceAccounts/robot:generateAccessToken"
	for name, test := range map[string]struct {
		file     any
		requests int
		project  string
		quota    string
	}{
		"service account": {server.service(), 1, "ada-project", ""},
		"user":            {server.user(), 1, "ada-quota", "ada-quota"},
		"workforce user":  {workforce, 1, "ada-quota", "ada-quota"},
		"impersonated":    {impersonated, 2, "ada-quota", "ada-quota"},
		"external, file":  {server.external(map[string]any{"file": subject}), 1, "", ""},
		"external, URL": {server.external(map[string]any{"url": server.URL + "/subject", "headers": map[string]string{"X-Identity": "yes"},
			"format": map[string]string{"type": "json", "subject_token_field_name": "id"}}), 1, "", ""},
		"external, impersonated": {external, 2, "", ""},
	} {
		before := server.count()
		s := sourceOf(writeFile(t, test.file))
		token, err := s.Token(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := s.Token(t.Context()); again != token || err != nil {
			t.Errorf("%s: then %v, %v", name, again, err)
		}
		if got := server.count() - before; got != test.requests || token.Project != test.project || token.Quota != test.quota {
			t.Errorf("%s: %d requests, project %q, quota %q", name, got, token.Project, token.Quota)
		}
		if !strings.HasPrefix(token.Access.Reveal(), "access-") {
			t.Errorf("%s: the token is not the server's", name)
		}
	}
}

func TestWhereCredentialsAre(t *testing.T) {
	server := newTokenServer(t)
	home := t.TempDir()
	for _, name := range []string{"HOME", "APPDATA"} {
		t.Setenv(name, home)
	}
	t.Setenv(variableFile, "")
	t.Setenv(variableMetadata, "")
	t.Setenv(variableQuota, "")
	project := func(from string) string {
		s := New(from)
		s.Use(http.DefaultTransport, "perigee/test")
		token, err := s.Token(t.Context())
		if err != nil {
			return err.Error()
		}
		return token.Project + " " + token.Quota
	}
	if got := project(FromAuto); !strings.Contains(got, "GOOGLE_APPLICATION_CREDENTIALS is not set") || !strings.Contains(got, logIn) {
		t.Errorf("without any: %s", got)
	}
	t.Setenv(variableMetadata, strings.TrimPrefix(server.URL, "http://"))
	for _, from := range []string{FromAuto, FromMetadata} {
		if got := project(from); got != "metadata-project " {
			t.Errorf("%s with a metadata server: %s", from, got)
		}
	}
	path, err := gcloudFile()
	if err != nil || !strings.HasPrefix(path, home) {
		t.Fatal(path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(writeFile(t, server.user()), path); err != nil {
		t.Fatal(err)
	}
	if got := project(FromAuto); got != "ada-quota ada-quota" {
		t.Errorf("with the file of gcloud: %s", got)
	}
	service := writeFile(t, server.service())
	t.Setenv(variableFile, service)
	t.Setenv(variableQuota, "paying")
	if got := project(FromAuto); got != "ada-project paying" {
		t.Errorf("with the variable: %s", got)
	}
	t.Setenv(variableFile, service+"x")
	if got := project(FromAuto); !strings.Contains(got, service+"x") {
		t.Errorf("with a variable that names no file: %s", got)
	}
}

// A transport that waits until it is released, and counts.
type heldTransport struct {
	asked   atomic.Int32
	release chan struct{}
	fail    atomic.Bool
}

func (h *heldTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	select {
	case <-h.release:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if h.fail.Load() {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"access_token":"access","expires_in":3600,"token_type":"Bearer"}`))}, nil
}

func heldSource(t *testing.T) (*Source, *heldTransport) {
	h := &heldTransport{release: make(chan struct{})}
	s := New(FromFile + writeFile(t, map[string]any{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}))
	s.Use(h, "perigee/test")
	return s, h
}

// Fifty calls that need a token make one request, and the one that started it may leave.
func TestOneRefreshForAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := heldSource(t)
		for round := range 3 {
			first, leave := context.WithCancel(t.Context())
			var left error
			var all sync.WaitGroup
			all.Go(func() { _, left = s.Token(first) })
			synctest.Wait()
			errs := make([]error, 49)
			for i := range errs {
				all.Go(func() { _, errs[i] = s.Token(t.Context()) })
			}
			synctest.Wait()
			leave()
			synctest.Wait()
			h.release <- struct{}{}
			all.Wait()
			if !errors.Is(left, context.Canceled) || errors.Join(errs...) != nil {
				t.Fatalf("the first call got %v, the others %v", left, errors.Join(errs...))
			}
			if got := int(h.asked.Load()); got != round+1 {
				t.Fatalf("%d requests after %d rounds", got, round+1)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestTokensAreReplacedAheadOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := heldSource(t)
		close(h.release)
		get := func(want int32) {
			t.Helper()
			if _, err := s.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := h.asked.Load(); got != want {
				t.Fatalf("%d requests, want %d", got, want)
			}
		}
		get(1)
		time.Sleep(time.Hour - refreshAhead - time.Second)
		get(1)
		time.Sleep(2 * time.Second)
		h.fail.Store(true)
		get(2) // in the background, and it fails
		get(2) // not at once again
		time.Sleep(pauseAhead)
		h.fail.Store(false)
		get(3)
		time.Sleep(refreshAhead)
		get(3)
	})
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := heldSource(t)
		began := time.Now()
		_, err := s.Token(t.Context())
		if e := perigee.AsError(err); e.Class != perigee.ClassUnavailable || time.Since(began) != refreshTime {
			t.Errorf("after %v: %s: %v", time.Since(began), e.Class, err)
		}
	})
}

func TestRefusedTokenIsRenewedOnce(t *testing.T) {
	server := newTokenServer(t)
	s := sourceOf(writeFile(t, server.user()))
	first, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // as many calls had the same token
		s.Refused(first.Access)
		if next, err := s.Token(t.Context()); err != nil || next == first {
			t.Fatal("the refused token was returned again", err)
		}
	}
	if server.count() != 2 {
		t.Errorf("%d tokens were requested", server.count())
	}
}

// After a new sign-in, perigee need not be restarted.
func TestFileIsReadAgain(t *testing.T) {
	server := newTokenServer(t)
	server.refresh = "refresh-after-login"
	path := writeFile(t, server.user())
	s := sourceOf(path)
	if why := s.Unusable(); why != "" {
		t.Errorf("unusable before the first call: %s", why)
	}
	for range 3 {
		if _, err := s.Token(t.Context()); perigee.AsError(err).Class != perigee.ClassUnauthenticated {
			t.Fatalf("with the old sign-in: %v", err)
		}
	}
	if why := s.Unusable(); !strings.Contains(why, logIn) {
		t.Errorf("unusable: %q", why)
	}
	user := server.user()
	user["refresh_token"] = "refresh-after-login"
	if err := os.Rename(writeFile(t, user), path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context()); err != nil || s.Unusable() != "" {
		t.Errorf("after the new sign-in: %v, unusable %q", err, s.Unusable())
	}
}

func TestErrors(t *testing.T) {
	t.Setenv(variableRun, "")
	server := newTokenServer(t)
	user, service := server.user(), server.service()
	broken := server.service()
	broken["private_key"] = "not a key"
	torn, curve := server.service(), server.service()
	torn["private_key"] = strings.Replace(server.pem(), "\nMII", "\nAAA", 1)
	curve["private_key"] = curveKey(t)
	plain := server.user()
	plain["token_uri"] = "http://example.com/token"
	run := server.external(map[string]any{"executable": map[string]any{"command": "/bin/id"}})
	const expired = `{"error":"invalid_grant","error_description":"Token has been expired or revoked.","error_subtype":"invalid_rapt"}`
	for name, test := range map[string]struct {
		file   any
		status int
		body   string
		class  perigee.Class
		want   []string
	}{
		"expired sign-in":  {user, 400, expired, perigee.ClassUnauthenticated, []string{"expired or revoked", logIn}},
		"deleted key":      {service, 400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`, perigee.ClassUnauthenticated, []string{"robot@ada-project", "Invalid JWT Signature"}},
		"wrong clock":      {service, 400, `{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."}`, perigee.ClassUnauthenticated, []string{"set the clock"}},
		"server error":     {user, 500, `<html>`, perigee.ClassUnavailable, []string{"status 500", "try again"}},
		"busy":             {user, 429, `{}`, perigee.ClassUnavailable, []string{"status 429"}},
		"echo of a secret": {user, 400, `{"error":"invalid_grant","error_description":"refresh-of-ada is unknown"}`, perigee.ClassUnauthenticated, []string{"is unknown"}},
		"broken key":       {broken, 0, ``, perigee.ClassUnauthenticated, []string{"credentials.json", "RSA key in PEM form", logIn}},
		"torn key":         {torn, 0, ``, perigee.ClassUnauthenticated, []string{"RSA key in PEM form"}},
		"other key":        {curve, 0, ``, perigee.ClassUnauthenticated, []string{"RSA key in PEM form"}},
		"no type":          {map[string]any{}, 0, ``, perigee.ClassUnauthenticated, []string{"credentials.json", "type is missing"}},
		"other type":       {map[string]any{"type": "gdch_service_account"}, 0, ``, perigee.ClassUnauthenticated, []string{`"gdch_service_account"`}},
		"no refresh token": {map[string]any{"type": "authorized_user", "client_id": "i", "client_secret": "s"}, 0, ``, perigee.ClassUnauthenticated, []string{"refresh_token is missing"}},
		"not an object":    {"text", 0, ``, perigee.ClassUnauthenticated, []string{"credentials.json", "JSON object"}},
		"no TLS":           {plain, 0, ``, perigee.ClassUnauthenticated, []string{"https://"}},
		"program":          {run, 0, ``, perigee.ClassUnauthenticated, []string{variableRun + "=1"}},
	} {
		server.answers(test.status, test.body)
		path := writeFile(t, test.file)
		_, err := sourceOf(path).Token(t.Context())
		e := perigee.AsError(err)
		if err == nil || e.Class != test.class {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not contain %q", name, err, want)
			}
		}
		for _, secret := range []string{"refresh-of-ada", "ada-secret", "PRIVATE KEY", "not a key"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v has a secret", name, err)
			}
		}
		if strings.Contains(e.Message, path) && (e.Public == "" || strings.Contains(e.Public+e.PublicHint, path)) {
			t.Errorf("%s: clients get the path: %q", name, e.Public)
		}
	}
}

func TestServerThatIsDown(t *testing.T) {
	server := newTokenServer(t)
	path := writeFile(t, server.user())
	server.Close()
	_, err := sourceOf(path).Token(t.Context())
	if e := perigee.AsError(err); e.Class != perigee.ClassUnavailable || strings.Contains(e.Public, "127.0.0.1") {
		t.Errorf("%s: %v; clients get %q", e.Class, err, e.Public)
	}
}

// A new sign-in of gcloud replaces its own file, and no other.
func TestSignInThatHasExpired(t *testing.T) {
	server := newTokenServer(t)
	server.answers(http.StatusBadRequest, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
	for _, name := range []string{"HOME", "APPDATA"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv(variableMetadata, "")
	own, err := gcloudFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(writeFile(t, server.user()), own); err != nil {
		t.Fatal(err)
	}
	another, service := writeFile(t, server.user()), writeFile(t, server.service())
	for path, want := range map[string]struct{ fix, setting, hint string }{
		"":        {logIn, "", logIn},
		another:   {"", "credentials", "unset " + variableFile},
		service:   {"", "credentials", "check that the service account"},
		own + "x": {"", "credentials", "correct the file"},
	} {
		t.Setenv(variableFile, path)
		s := New(FromAuto)
		s.Use(http.DefaultTransport, "perigee/test")
		_, err := s.Token(t.Context())
		if e := perigee.AsError(err); e == nil || e.Fix != want.fix || e.Setting != want.setting || !strings.Contains(e.Hint, want.hint) {
			t.Errorf("%q: %+v", path, e)
		}
	}
}

// The login of this machine is found without a request. Its absence is no error.
func TestLoginIsFound(t *testing.T) {
	server := newTokenServer(t)
	for _, name := range []string{"HOME", "APPDATA"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv(variableMetadata, "127.0.0.1:1")
	broken := server.user()
	delete(broken, "refresh_token")
	for path, want := range map[string]struct {
		project string
		found   bool
		err     string
	}{
		"":                                {},
		writeFile(t, server.user()):       {"ada-quota", true, ""},
		writeFile(t, server.service()):    {"ada-project", true, ""},
		writeFile(t, broken):              {"", false, "refresh_token is missing"},
		writeFile(t, server.user()) + "x": {"", false, "cannot be used"},
	} {
		t.Setenv(variableFile, path)
		project, found, err := Find()
		if project != want.project || found != want.found || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %q, %v, %v", path, project, found, err)
		}
	}
	if server.count() != 0 {
		t.Errorf("%d requests", server.count())
	}
}

// A directory cannot be read as a file, even by root.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	if why := sourceOf(dir).Unusable(); !strings.Contains(why, dir) || !strings.Contains(why, "cannot be used") {
		t.Error(why)
	}
}
