package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"testing"
	"time"
)

func refreshForm(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {"c"}, "client_secret": {"s"}}
}

func (r *rig) tokens(form url.Values) tokenAnswer {
	r.t.Helper()
	a := r.form("/token", form)
	a.want(r.t, 200)
	var answer tokenAnswer
	a.decode(r.t, &answer)
	return answer
}

// signIn goes through the sign-in page and returns the code.
func (r *rig) signIn(query url.Values) string {
	r.t.Helper()
	a := r.do("GET", "/o/oauth2/v2/auth?"+query.Encode(), "")
	a.want(r.t, 302)
	back, err := url.Parse(a.header.Get("Location"))
	if err != nil || back.Host != "localhost:51121" || back.Query().Get("state") != query.Get("state") {
		r.t.Fatalf("sent back to %s", back)
	}
	return back.Query().Get("code")
}

func TestSignInWithPKCE(t *testing.T) {
	r := newRig(t, Options{})
	const verifier = "a-verifier-that-is-long-enough-to-be-one-of-them"
	sum := sha256.Sum256([]byte(verifier))
	page := url.Values{"client_id": {"c"}, "redirect_uri": {"http://localhost:51121/cb"}, "response_type": {"code"}, "state": {"st"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "login_hint": {"bob@example.com"}}
	exchange := func(change func(url.Values)) answer {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {r.signIn(page)}, "client_id": {"c"}, "client_secret": {"s"},
			"redirect_uri": {"http://localhost:51121/cb"}, "code_verifier": {verifier}}
		change(form)
		return r.form("/token", form)
	}
	for name, c := range map[string]struct {
		change func(url.Values)
		status int
		want   string
	}{
		"wrong verifier":   {func(f url.Values) { f.Set("code_verifier", "other") }, 400, "Invalid code verifier"},
		"no verifier":      {func(f url.Values) { f.Del("code_verifier") }, 400, "Missing code verifier"},
		"other redirect":   {func(f url.Values) { f.Set("redirect_uri", "http://localhost:1/") }, 400, "redirect_uri_mismatch"},
		"other client":     {func(f url.Values) { f.Set("client_id", "d") }, 401, "unauthorized_client"},
		"no client secret": {func(f url.Values) { f.Del("client_secret") }, 400, "client_secret is missing"},
		"no client id":     {func(f url.Values) { f.Del("client_id") }, 400, "invalid_request"},
		"unknown code":     {func(f url.Values) { f.Set("code", "x") }, 400, "invalid_grant"},
		"unknown grant":    {func(f url.Values) { f.Set("grant_type", "password") }, 400, "unsupported_grant_type"},
	} {
		t.Run(name, func(t *testing.T) { exchange(c.change).want(t, c.status, c.want) })
	}

	var tokens tokenAnswer
	exchange(func(url.Values) {}).decode(t, &tokens)
	if tokens.RefreshToken == "" || tokens.ExpiresIn != 3599 || tokens.TokenType != "Bearer" {
		t.Fatalf("%+v", tokens)
	}
	r.do("GET", "/oauth2/v2/userinfo", "", "Authorization", "Bearer "+tokens.AccessToken).want(t, 200, `"email":"bob@example.com"`)
	r.do("GET", "/oauth2/v1/userinfo?alt=json", "", "Authorization", "Bearer nobody").want(t, 401, "UNAUTHENTICATED")

	other := refreshForm(tokens.RefreshToken)
	other.Set("client_id", "d")
	r.form("/token", other).want(t, 401, "unauthorized_client")
	if again := r.tokens(refreshForm(tokens.RefreshToken)); again.RefreshToken != "" || again.AccessToken == tokens.AccessToken {
		t.Errorf("%+v", again)
	}
}

func TestCodeIsGoodOnceAndNotForever(t *testing.T) {
	r := newRig(t, Options{})
	page := url.Values{"client_id": {"c"}, "redirect_uri": {"http://localhost:51121/cb"}, "response_type": {"code"}, "state": {"st"}}
	form := func(code string) url.Values {
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {"c"}, "client_secret": {"s"}, "redirect_uri": {"http://localhost:51121/cb"}}
	}
	code := r.signIn(page)
	r.form("/token", form(code)).want(t, 200)
	r.form("/token", form(code)).want(t, 400, "invalid_grant")
	code = r.signIn(page)
	r.server.Advance(codeLifetime + time.Second)
	r.form("/token", form(code)).want(t, 400, "invalid_grant")
}

func TestSignInPageRefuses(t *testing.T) {
	r := newRig(t, Options{})
	r.do("GET", "/o/oauth2/v2/auth?client_id=c", "").want(t, 400)
	r.do("GET", "/o/oauth2/v2/auth?client_id=c&redirect_uri=http://localhost/&response_type=token", "").want(t, 400)
	r.do("GET", "/o/oauth2/v2/auth?client_id=c&redirect_uri=http://localhost/&response_type=code&code_challenge=x&code_challenge_method=plain", "").want(t, 400)
	a := r.do("GET", "/o/oauth2/v2/auth?client_id=c&redirect_uri=http://localhost/&response_type=code&login_hint=who@example.com", "")
	if a.want(t, 302); a.header.Get("Location") != "http://localhost/?error=access_denied" {
		t.Error(a.header.Get("Location"))
	}
}

func TestAccessTokensExpire(t *testing.T) {
	r := newRig(t, Options{})
	bearer := "Bearer " + r.tokens(refreshForm("sim-refresh-ada")).AccessToken
	r.server.Advance(tokenLifetime - time.Second)
	r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", bearer).want(t, 200)
	r.server.Advance(time.Second)
	r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", bearer).want(t, 401)
}

func TestTokensOfOtherSignInServers(t *testing.T) {
	for _, c := range []struct {
		any           bool
		token         string
		status, after int // after: once it has expired, if the simulator issued it
	}{
		{false, "elsewhere", 401, 401},
		{true, "elsewhere", 200, 200},
		{true, "", 401, 401},
		{true, "issued", 200, 401},
	} {
		r := newRig(t, Options{AnyToken: c.any})
		if c.token == "issued" {
			c.token = r.tokens(refreshForm("sim-refresh-ada")).AccessToken
		}
		r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", "Bearer "+c.token).want(t, c.status)
		r.server.Advance(tokenLifetime)
		r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", "Bearer "+c.token).want(t, c.after)
	}
}

func TestRotationLeavesOneGraceUse(t *testing.T) {
	r := newRig(t, Options{Script: &Script{RotateRefreshTokens: true}})
	first := r.tokens(refreshForm("sim-refresh-ada"))
	grace := r.tokens(refreshForm("sim-refresh-ada"))
	if first.RefreshToken == "" || grace.RefreshToken != first.RefreshToken {
		t.Fatalf("%q then %q", first.RefreshToken, grace.RefreshToken)
	}
	r.form("/token", refreshForm("sim-refresh-ada")).want(t, 400, `"error":"invalid_grant"`, revoked)
	if next := r.tokens(refreshForm(first.RefreshToken)); next.RefreshToken == "" || next.RefreshToken == first.RefreshToken {
		t.Errorf("%+v", next)
	}
}

func TestTokenErrorsInGoogleShape(t *testing.T) {
	r := newRig(t, Options{Script: &Script{OAuthErrors: "google"}})
	r.form("/token", refreshForm("nope")).want(t, 400, `{"error":{"code":400`, `"status":"INVALID_ARGUMENT"`, "invalid_grant")
}
