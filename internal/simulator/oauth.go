package simulator

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	revoked      = "Token has been expired or revoked."
	grantedScope = "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/userinfo.profile"
)

// authorize replaces the sign-in page: it signs in and redirects back at once.
func (x *exchange) authorize() {
	query := x.r.URL.Query()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	switch {
	case query.Get("client_id") == "" || query.Get("redirect_uri") == "" || err != nil || redirect.Scheme == "":
		http.Error(x.w, "Error 400: invalid_request\nclient_id and redirect_uri are required", http.StatusBadRequest)
		return
	case query.Get("response_type") != "code":
		http.Error(x.w, "Error 400: unsupported_response_type", http.StatusBadRequest)
		return
	}
	challenge := query.Get("code_challenge")
	if challenge != "" && query.Get("code_challenge_method") != "S256" {
		http.Error(x.w, "Error 400: invalid_request\ncode_challenge_method must be S256", http.StatusBadRequest)
		return
	}
	back := redirect.Query()
	if state := query.Get("state"); state != "" {
		back.Set("state", state)
	}
	if account := x.people.signIn(query.Get("login_hint")); account == nil {
		back.Set("error", "access_denied")
	} else {
		x.call.Account = account.Email
		back.Set("code", x.people.grantCode(account, query.Get("client_id"), query.Get("redirect_uri"), challenge, x.server.now()))
		back.Set("scope", query.Get("scope"))
	}
	redirect.RawQuery = back.Encode()
	http.Redirect(x.w, x.r, redirect.String(), http.StatusFound)
}

func (d *directory) grantCode(a *account, client, redirectURI, challenge string, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	code := d.opaque("code")
	d.codes[code] = &authCode{account: a, client: client, redirectURI: redirectURI, challenge: challenge, expires: now.Add(codeLifetime)}
	return code
}

type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	ExpiresIn    int    `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope"`
	TokenType    string `json:"token_type"`
}

// token serves the token endpoint. It reads form encoding only.
func (x *exchange) token() {
	if !strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		x.writeTokenError(http.StatusBadRequest, "invalid_request", "Bad Request")
		return
	}
	form, err := url.ParseQuery(string(x.body))
	if err != nil {
		x.writeTokenError(http.StatusBadRequest, "invalid_request", "Malformed form body")
		return
	}
	if x.strikeSmall(stageAuth) {
		return
	}
	switch {
	case form.Get("grant_type") == jwtGrant: // the assertion identifies the client
	case form.Get("client_id") == "":
		x.writeTokenError(http.StatusBadRequest, "invalid_request", "Could not determine client ID from request.")
		return
	case form.Get("client_secret") == "":
		x.writeTokenError(http.StatusBadRequest, "invalid_request", "client_secret is missing.")
		return
	}
	answer, refused := x.redeem(form)
	if refused != nil {
		x.writeTokenError(refused.status, refused.code, refused.description)
		return
	}
	writeJSON(x.w, http.StatusOK, answer)
}

// tokenRefusal is the reason why there is no token.
type tokenRefusal struct {
	status            int
	code, description string
}

func badToken(code, description string) *tokenRefusal {
	return &tokenRefusal{http.StatusBadRequest, code, description}
}

func foreignClient() *tokenRefusal {
	return &tokenRefusal{http.StatusUnauthorized, "unauthorized_client", "Unauthorized"}
}

// redeem returns tokens for the grant in the form.
func (x *exchange) redeem(form url.Values) (*tokenAnswer, *tokenRefusal) {
	switch grant := form.Get("grant_type"); grant {
	case "authorization_code":
		return x.redeemCode(form)
	case "refresh_token":
		return x.refresh(form)
	case jwtGrant:
		return x.redeemAssertion(form)
	default:
		return nil, badToken("unsupported_grant_type", "Invalid grant_type: "+grant)
	}
}

func (x *exchange) redeemCode(form url.Values) (*tokenAnswer, *tokenRefusal) {
	d, now := x.people, x.server.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	code := d.codes[form.Get("code")]
	delete(d.codes, form.Get("code")) // a code is good once, whatever comes of it
	switch {
	case code == nil || now.After(code.expires):
		return nil, badToken("invalid_grant", "Malformed auth code.")
	case code.client != form.Get("client_id"):
		return nil, foreignClient()
	case code.redirectURI != form.Get("redirect_uri"):
		return nil, badToken("redirect_uri_mismatch", "Bad Request")
	case code.challenge != "" && form.Get("code_verifier") == "":
		return nil, badToken("invalid_grant", "Missing code verifier.")
	case code.challenge != "" && !verifierMatches(form.Get("code_verifier"), code.challenge):
		return nil, badToken("invalid_grant", "Invalid code verifier.")
	}
	x.call.Account = code.account.Email
	return &tokenAnswer{AccessToken: d.issueAccess(code.account, now), ExpiresIn: int(tokenLifetime.Seconds()), Scope: grantedScope,
		TokenType: "Bearer", RefreshToken: d.issueRefresh(code.account, code.client)}, nil
}

// verifierMatches reports whether the verifier passes the S256 check of PKCE.
func verifierMatches(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	want := base64.RawURLEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(want), []byte(strings.TrimRight(challenge, "="))) == 1
}

// refresh redeems a refresh token. With rotation on, the answer holds a new one, and the old one is
// good for one more use (a client may lose the answer), which gives the same new one again.
func (x *exchange) refresh(form url.Values) (*tokenAnswer, *tokenRefusal) {
	d, now := x.people, x.server.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	token := d.refresh[form.Get("refresh_token")]
	switch {
	case form.Get("refresh_token") == "":
		return nil, badToken("invalid_request", "Missing required parameter: refresh_token")
	case token == nil || token.dead:
		return nil, badToken("invalid_grant", revoked)
	case token.client != "" && token.client != form.Get("client_id"):
		return nil, foreignClient()
	}
	x.call.Account = token.account.Email
	answer := &tokenAnswer{AccessToken: d.issueAccess(token.account, now), ExpiresIn: int(tokenLifetime.Seconds()), Scope: grantedScope, TokenType: "Bearer"}
	switch {
	case token.successor != "":
		token.dead = true
		answer.RefreshToken = token.successor
	case x.server.rotate:
		token.successor = d.issueRefresh(token.account, form.Get("client_id"))
		answer.RefreshToken = token.successor
	}
	return answer, nil
}

// writeTokenError writes a token error in one of the two shapes that clients meet.
func (x *exchange) writeTokenError(status int, code, description string) {
	if x.call.Rule == "" {
		x.call.Rule = "token." + code
	}
	if x.server.googleTokenErrors {
		name := "INVALID_ARGUMENT"
		if status == http.StatusUnauthorized {
			name = "UNAUTHENTICATED"
		}
		writeJSON(x.w, status, map[string]any{"error": map[string]any{"code": status, "status": name, "message": code + ": " + description}})
		return
	}
	writeJSON(x.w, status, map[string]string{"error": code, "error_description": description})
}

// userinfo answers both versions of the endpoint; they differ in the name of one field.
func (x *exchange) userinfo(version string) {
	if !x.authenticate() || x.strikeSmall(stageAuth) {
		return
	}
	name, _, _ := strings.Cut(x.account.Email, "@")
	info := map[string]any{"id": x.account.id, "email": x.account.Email, "verified_email": true, "name": name, "given_name": name}
	if version == "v3" {
		delete(info, "id")
		info["sub"] = x.account.id
	}
	writeJSON(x.w, http.StatusOK, info)
}
