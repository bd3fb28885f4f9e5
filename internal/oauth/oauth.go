// Package oauth signs people in and keeps them signed in: it asks for consent (Login), turns codes and refresh tokens
// into access tokens (Client, Tokens), and finds the project that calls are made for (Discoverer). The files in which sign-ins travel
// between programs are read and written by package accountfile.
//
// It does not choose between accounts, nor retry calls, nor store anything itself: sign-ins are kept by a
// perigee.AccountStore, and what a refusal means is judged by package verdict. It holds no OAuth client of anybody: id and
// secret come from the user's configuration, or from the user's own copy of the IDE (Installed). The daemon calls it, for
// the accounts that it lends and for people who sign in.
package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"perigee"
	"perigee/internal/upstream/wire"
	"perigee/internal/verdict"
)

// defaultScopes are what a sign-in is asked for unless Options say otherwise.
var defaultScopes = []string{
	"https://www.googleapis.com/auth/cloud-platform",
	"https://www.googleapis.com/auth/userinfo.email",
	"https://www.googleapis.com/auth/userinfo.profile",
	"https://www.googleapis.com/auth/cclog",
	"https://www.googleapis.com/auth/experimentsandconfigs",
}

// Options say where to sign in, and as which OAuth client.
type Options struct {
	AuthURL      string
	TokenURL     string
	UserinfoURL  string
	ClientID     string
	ClientSecret perigee.Secret
	Installed    *Installed        // where the id or the secret is looked for that is not given; nil: nowhere
	Scopes       []string          // nil: those that the gateway needs
	UserAgent    string            // empty: Go's own
	Transport    http.RoundTripper // nil: one of package wire
	Timeout      time.Duration     // of one call; 0: 30 s
	Now          func() time.Time  // nil: time.Now
	Logger       *slog.Logger      // nil: discard
}

// A Client speaks to the sign-in server. It may be used concurrently. Its errors are *perigee.Error, hold no secret, and
// when the server gave a reason wrap a *Refusal.
type Client struct {
	opts Options
	http caller
}

// NewClient returns a client. It does not call anybody.
func NewClient(opts Options) *Client {
	if opts.Scopes == nil {
		opts.Scopes = defaultScopes
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Client{opts: opts, http: newCaller(opts.Transport, opts.Timeout, opts.UserAgent, opts.Now)}
}

// A Grant is what the sign-in server gives.
type Grant struct {
	Access   perigee.Secret
	Refresh  perigee.Secret // empty after a refresh: the one before stays good
	Lifetime time.Duration  // of Access, from when it was asked for
	Scope    string
}

// A Refusal is an answer of the provider that is not a success, with what it means for the account.
type Refusal struct{ verdict.Verdict }

func (r *Refusal) Error() string { return r.Verdict.Error.Error() }

// Unwrap returns the *perigee.Error.
func (r *Refusal) Unwrap() error { return r.Verdict.Error }

// StateOf says which state an account gets into by an error, and the reason for a person. An error that says nothing
// about the account, such as a network that is down, gives ok false: it must not change any account.
func StateOf(err error) (state, reason string, ok bool) {
	refusal, found := errors.AsType[*Refusal](err)
	if !found {
		return "", "", false
	}
	switch refusal.Kind {
	case verdict.KindSignedOut:
		state = perigee.AccountSignedOut
	case verdict.KindVerification:
		state = perigee.AccountVerification
	case verdict.KindBan, verdict.KindIneligible:
		state = perigee.AccountBanned
	default:
		return "", "", false
	}
	return state, refusal.Error(), true
}

// An ask is what a person is asked on the consent page.
type ask struct {
	clientID    string
	redirectURI string
	state       string
	challenge   string // of PKCE, S256
	email       string // of the account to offer first; may be empty
}

// consentURL is the page where a person consents. It asks for a refresh token even if they have consented before: the
// provider gives one only with the consent.
func (c *Client) consentURL(a ask) (string, error) {
	page, err := url.Parse(c.opts.AuthURL)
	if err != nil || page.Host == "" {
		return "", misconfigured("auth_url is %q, which is no address", c.opts.AuthURL)
	}
	query := page.Query()
	for name, value := range map[string]string{
		"response_type": "code", "access_type": "offline", "prompt": "consent",
		"client_id": a.clientID, "redirect_uri": a.redirectURI, "scope": strings.Join(c.opts.Scopes, " "),
		"state": a.state, "code_challenge": a.challenge, "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	if a.email != "" {
		query.Set("login_hint", a.email)
	}
	page.RawQuery = query.Encode()
	return page.String(), nil
}

// Identity is the OAuth client that is signed in with. When there is none, because it is not configured and not to be found
// either, the error wraps a *NoClient if it was looked for.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	own := Identity{ID: c.opts.ClientID, Secret: c.opts.ClientSecret}
	switch {
	case own.ID != "" && (!own.Secret.IsZero() || c.opts.Installed == nil):
		return own, nil
	case c.opts.Installed == nil:
		return Identity{}, misconfigured("there is no OAuth client to sign in with")
	}
	found, err := c.opts.Installed.find(ctx, own.ID)
	if err == nil && !own.Secret.IsZero() && !own.Secret.Equal(found.Secret.Reveal()) {
		return Identity{}, misconfigured("oauth.client_secret is set without oauth.client_id, and is not the secret of the client in the installed IDE")
	}
	return found, err
}

func misconfigured(format string, args ...any) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, format, args...).
		WithNext("check oauth of this upstream in the configuration")
}

// exchange turns the code of a consent into tokens.
func (c *Client) exchange(ctx context.Context, code perigee.Secret, verifier, redirectURI string) (Grant, error) {
	grant, err := c.token(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()}, "code_verifier": {verifier}, "redirect_uri": {redirectURI},
	})
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Kind == verdict.KindSignedOut {
		// What is not good here is the code, not an account.
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "the sign-in server does not take the code: it was used before, is too old, or belongs to another sign-in").
			WithNext("run `perigee login` again")
	}
	if err != nil {
		return Grant{}, err
	}
	if grant.Refresh.IsZero() {
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "the sign-in server gave no refresh token").
			WithNext("remove the program's access at https://myaccount.google.com/permissions, then run `perigee login` again")
	}
	return grant, nil
}

// Refresh turns a refresh token into an access token.
func (c *Client) Refresh(ctx context.Context, refresh perigee.Secret) (Grant, error) {
	if refresh.IsZero() {
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "there is no refresh token").WithNext("run `perigee login`")
	}
	return c.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}})
}

// token calls the token endpoint.
func (c *Client) token(ctx context.Context, form url.Values) (Grant, error) {
	who, err := c.Identity(ctx)
	if _, missing := errors.AsType[*NoClient](err); missing && c.opts.ClientID != "" {
		who, err = Identity{ID: c.opts.ClientID}, nil // some clients have no secret: the server knows
	}
	if err != nil {
		return Grant{}, err
	}
	form.Set("client_id", who.ID)
	if !who.Secret.IsZero() {
		form.Set("client_secret", who.Secret.Reveal())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.opts.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return Grant{}, misconfigured("token_url is %q, which is no address", c.opts.TokenURL)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		AccessToken  string          `json:"access_token"`
		RefreshToken string          `json:"refresh_token"`
		ExpiresIn    json.RawMessage `json:"expires_in"` // of whatever type: the tokens beside it must not be lost
		Scope        string          `json:"scope"`
	}
	err = c.http.do(req, &answer, form.Get("refresh_token"), form.Get("code"), form.Get("code_verifier"), form.Get("client_secret"))
	if err == nil && answer.AccessToken == "" {
		err = senseless(req, errors.New("there is no access token in it"))
	}
	if err != nil {
		return Grant{}, c.withoutToken(err)
	}
	return Grant{Access: perigee.NewSecret(answer.AccessToken), Refresh: perigee.NewSecret(answer.RefreshToken),
		Lifetime: lifetime(answer.ExpiresIn), Scope: answer.Scope}, nil
}

// withoutToken tells what is about the sign-in from trouble of the server's own, which is soon worth another try.
func (c *Client) withoutToken(err error) error {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return &Refusal{refusal.AtSignIn(c.opts.Now())}
	}
	trouble, ok := errors.AsType[*perigee.Error](err)
	if !ok || trouble.Class != perigee.ClassUnavailable {
		return err
	}
	e := *trouble
	e.Retry = verdict.SignInPause
	return &e
}

// An access token that does not say how long it is good gets what is usual; nobody's is good for longer than a day.
const (
	usualLifetime = time.Hour
	maxLifetime   = 24 * time.Hour
)

func lifetime(raw json.RawMessage) time.Duration {
	var seconds json.Number
	_ = json.Unmarshal(raw, &seconds)
	n, err := seconds.Float64()
	if err != nil || n <= 0 {
		return usualLifetime
	}
	return time.Duration(min(n, maxLifetime.Seconds()) * float64(time.Second))
}

// Email says whose access token it is, in lower case.
func (c *Client) Email(ctx context.Context, access perigee.Secret) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.opts.UserinfoURL, nil)
	if err != nil {
		return "", misconfigured("userinfo_url is %q, which is no address", c.opts.UserinfoURL)
	}
	req.Header.Set("Authorization", "Bearer "+access.Reveal())
	var answer struct {
		Email string `json:"email"`
	}
	if err := c.http.do(req, &answer, access.Reveal()); err != nil {
		return "", err
	}
	email, ok := Address(answer.Email)
	if !ok {
		return "", senseless(req, errors.New("there is no e-mail address in it"))
	}
	return email, nil
}

// caller makes small HTTP calls with secrets in them.
type caller struct {
	client    *http.Client
	timeout   time.Duration
	userAgent string
	now       func() time.Time
}

func newCaller(transport http.RoundTripper, timeout time.Duration, userAgent string, now func() time.Time) caller {
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return caller{timeout: timeout, userAgent: userAgent, now: now, client: wire.NewClient(transport)}
}

// maxAnswer bounds what is read of an answer; the longest that make sense have a few kilobytes.
const maxAnswer = 1 << 20

// do sends a request and decodes the JSON of a successful answer. secrets are what the request has in it that must not
// come back in an error, whatever the server repeats.
func (c caller) do(req *http.Request, answer any, secrets ...string) error {
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	defer cancel()
	if c.userAgent != "" {
		req.Header.Set("User-Agent", c.userAgent)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req.WithContext(ctx))
	if err != nil {
		return unreachable(req, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return unreachable(req, err)
	}
	if resp.StatusCode != http.StatusOK {
		body = unescaped(body)
		for _, secret := range secrets {
			body = redact(body, secret)
		}
		return &Refusal{verdict.Classify(resp.StatusCode, resp.Header, body, c.now())}
	}
	if len(body) > maxAnswer {
		return senseless(req, fmt.Errorf("it is longer than %d bytes", maxAnswer))
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return senseless(req, errors.New("it is not the JSON that was expected"))
	}
	return nil
}

// shortSecret is a secret that may be part of an ordinary word.
const shortSecret = 8

// redact takes a secret out of an answer. A short one is only looked for as a word of its own: without half of its letters
// nobody could tell what the answer means.
func redact(body []byte, secret string) []byte {
	const gone = "[redacted]"
	switch {
	case secret == "":
		return body
	case len(secret) >= shortSecret:
		return bytes.ReplaceAll(body, []byte(secret), []byte(gone))
	}
	word := regexp.MustCompile(`(^|[^\pL\pN_-])` + regexp.QuoteMeta(secret) + `([^\pL\pN_-]|$)`)
	for range 2 { // two that share what stands between them
		body = word.ReplaceAll(body, []byte("${1}"+gone+"${2}"))
	}
	return body
}

// unescaped writes JSON anew, so that what stands in it is found however it was escaped.
func unescaped(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return body
	}
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return body
	}
	return plain.Bytes()
}

// unreachable is trouble on the way. It says nothing about any account.
func unreachable(req *http.Request, err error) error {
	if req.Context().Err() != nil {
		return req.Context().Err() // who asked has gone
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // its URL is more than anybody needs
	}
	return perigee.Errorf(perigee.ClassUnavailable, "%s cannot be reached: %w", req.URL.Host, err).
		WithNext("check oauth and endpoints of this upstream in the configuration, and the network")
}

func senseless(req *http.Request, err error) error {
	return perigee.Errorf(perigee.ClassUnavailable, "%s sent an answer that makes no sense: %w", req.URL.Host, err).
		WithNext("try again; if it stays, check that no proxy stands in the way")
}

// Address is an e-mail address as accounts are named by it, in lower case. What cannot be one gives ok false, so that no junk
// becomes the name of an account.
func Address(text string) (email string, ok bool) {
	email = strings.ToLower(strings.TrimSpace(text))
	name, domain, found := strings.Cut(email, "@")
	return email, found && name != "" && domain != "" && len(email) <= 254 && !strings.Contains(domain, "@") &&
		!strings.ContainsFunc(name+domain, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || strings.ContainsRune(`"<>\/|,;`, r) })
}
