package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/simulator"
)

// answering is a client whose sign-in server gives one answer to everything.
func answering(status int, body string) *Client {
	return NewClient(Options{TokenURL: "https://oauth2.example.com/token", UserinfoURL: "https://www.example.com/userinfo", ClientID: "client",
		ClientSecret: perigee.NewSecret("client-secret-of-the-test"), Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Request: req, Header: http.Header{"Location": {"https://elsewhere.example.com/"}},
				Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
}

// TestRefreshAnswers tells apart what can go wrong at the token endpoint.
func TestRefreshAnswers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		class  perigee.Class
		kind   providererr.Kind // empty means the server gave no reason
		state  string           // of the account afterwards; empty means unchanged
	}{
		{"revoked", 400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`, perigee.ClassUnauthenticated, providererr.KindSignedOut, perigee.AccountSignedOut},
		{"revoked, as the other API says it", 400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"invalid_grant: Bad Request"}}`, perigee.ClassUnauthenticated, providererr.KindSignedOut, perigee.AccountSignedOut},
		{"issued to another client", 401, `{"error":"unauthorized_client","error_description":"Unauthorized"}`, perigee.ClassIdentity, providererr.KindOAuthClient, ""},
		{"a client that is not known", 401, `{"error":"invalid_client","error_description":"The OAuth client was not found."}`, perigee.ClassIdentity, providererr.KindOAuthClient, ""},
		{"too often", 429, `{"error":"rate_limit_exceeded"}`, perigee.ClassUnavailable, providererr.KindNoToken, ""},
		{"the server is in trouble", 500, `{"error":"internal_failure"}`, perigee.ClassUnavailable, providererr.KindNoToken, ""},
		{"a page of a proxy", 502, `<html><title>Bad Gateway</title>`, perigee.ClassUnavailable, providererr.KindNoToken, ""},
		{"a page instead of an answer", 200, `<html>Sign in to the network</html>`, perigee.ClassUnavailable, "", ""},
		{"half an answer", 200, `{"access_token":"sim-access-x","expi`, perigee.ClassUnavailable, "", ""},
		{"no token", 200, `{"expires_in":3599}`, perigee.ClassUnavailable, "", ""},
		{"endless", 200, strings.Repeat(" ", maxAnswer) + `{"access_token":"sim-access-x"}`, perigee.ClassUnavailable, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := answering(test.status, test.body).Refresh(t.Context(), perigee.NewSecret("sim-refresh-x"))
			wantClass(t, err, test.class)
			refusal, ok := errors.AsType[*Refusal](err)
			if ok != (test.kind != "") || ok && refusal.Kind != test.kind {
				t.Errorf("got %+v, want kind %q", refusal, test.kind)
			}
			if state := StateOf(err); state != test.state {
				t.Errorf("the account is %q, want %q", state, test.state)
			}
		})
	}
}

func TestLifetimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`3599`: 3599 * time.Second, `"3599"`: 3599 * time.Second, `0.5`: 500 * time.Millisecond, `0`: time.Hour, `-5`: time.Hour, `null`: time.Hour, `1e300`: 24 * time.Hour,
	} {
		grant, err := answering(200, `{"access_token":"x","expires_in":`+text+`}`).Refresh(t.Context(), perigee.NewSecret("r"))
		if err != nil || grant.Lifetime != want {
			t.Errorf("%s: got %v, %v, want %v", text, grant.Lifetime, err, want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	client := answering(http.StatusTemporaryRedirect, "")
	var hosts []string
	inner := client.http.client.Transport
	client.http.client.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		hosts = append(hosts, req.URL.Host)
		return inner.RoundTrip(req)
	})
	_, err := client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-x"))
	wantClass(t, err, perigee.ClassUnavailable)
	_, err = client.Email(t.Context(), perigee.NewSecret("sim-access-x"))
	wantClass(t, err, perigee.ClassUnavailable)
	if len(hosts) != 2 || strings.Contains(strings.Join(hosts, " "), "elsewhere") {
		t.Errorf("secrets went to %v", hosts)
	}
}

func TestNetworkThatIsDown(t *testing.T) {
	client := answering(200, "")
	client.http.client.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })
	_, err := client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-x"))
	if e := wantClass(t, err, perigee.ClassUnavailable); !strings.Contains(e.Message, "oauth2.example.com cannot be reached: no route to host") || e.Hint == "" {
		t.Errorf("got %v", e)
	}
	if StateOf(err) != "" {
		t.Error("it counts against the account")
	}
}

func TestServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simulator.Script{})
		r.fault("/token", "hang", 0)
		start := time.Now()
		_, err := r.client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-ada"))
		wantClass(t, err, perigee.ClassUnavailable)
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.client.Refresh(ctx, perigee.NewSecret("sim-refresh-ada")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waited got %v", err)
		}
	})
}

func TestRefreshForm(t *testing.T) {
	var form url.Values
	var header http.Header
	client := NewClient(Options{TokenURL: "https://oauth2.example.com/token", ClientID: "client", ClientSecret: perigee.NewSecret("s"), UserAgent: "agent",
		Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			form, err = url.ParseQuery(string(body))
			header = req.Header
			return &http.Response{StatusCode: 200, Request: req, Body: io.NopCloser(strings.NewReader(`{"access_token":"x"}`))}, err
		})})
	if _, err := client.Refresh(t.Context(), perigee.NewSecret("1//a+b c")); err != nil {
		t.Fatal(err)
	}
	want := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"1//a+b c"}, "client_id": {"client"}, "client_secret": {"s"}}
	if form.Encode() != want.Encode() || header.Get("Content-Type") != "application/x-www-form-urlencoded" || header.Get("User-Agent") != "agent" {
		t.Errorf("sent %v with %v", form, header)
	}
}

func TestEmail(t *testing.T) {
	for body, want := range map[string]string{
		`{"email":"Ada@Example.com","verified_email":true}`: "ada@example.com", `{"email":""}`: "", `{"email":"x"}`: "", `{"email":"a@b@c"}`: "",
		`{"email":"a b@example.com"}`: "", `[]`: "", `{}`: "", `{"email":"@example.com"}`: "",
	} {
		got, err := answering(200, body).Email(t.Context(), perigee.NewSecret("sim-access-x"))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", body, got, err)
		}
	}
	r := newRig(t, simulator.Script{})
	_, err := r.client.Email(t.Context(), perigee.NewSecret("sim-access-nobody"))
	wantClass(t, err, perigee.ClassUnauthenticated)
}

func TestUnusableAddressesAreTheConfigurations(t *testing.T) {
	client := NewClient(Options{TokenURL: ":", UserinfoURL: ":", ClientID: "client"})
	_, err := client.Refresh(t.Context(), perigee.NewSecret("r"))
	wantClass(t, err, perigee.ClassInvalid)
	_, err = client.Email(t.Context(), perigee.NewSecret("a"))
	wantClass(t, err, perigee.ClassInvalid)
	_, err = NewClient(Options{TokenURL: "https://oauth2.example.com/token"}).Refresh(t.Context(), perigee.NewSecret("r"))
	wantClass(t, err, perigee.ClassInvalid)
	_, err = NewDiscoverer(DiscoverOptions{Endpoints: []string{":"}}).Discover(t.Context(), perigee.NewSecret("a"), nil)
	wantClass(t, err, perigee.ClassInvalid)
}
