// Package oauth signs people in and keeps them signed in: it asks for consent (Login), turns codes
// and refresh tokens into access tokens (Client, Tokens), and finds the project that calls are made
// for (Discoverer). Package roster reads and writes the files in which sign-ins travel between
// programs.
//
// It does not choose between accounts, retry calls or store anything itself: a perigee.AccountStore
// stores the sign-ins, and package providererr classifies refusals. It has no OAuth client
// of its own: id and secret come from the user's configuration, or from the user's own copy of the
// IDE (Installed). The daemon calls it, for the accounts of its pools and for `perigee login`.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/wire"
)

// scopes are the scopes that a sign-in requests.
var scopes = []string{
	"https://www.googleapis.com/auth/cloud-platform",
	"https://www.googleapis.com/auth/userinfo.email",
	"https://www.googleapis.com/auth/userinfo.profile",
	"https://www.googleapis.com/auth/cclog",
	"https://www.googleapis.com/auth/experimentsandconfigs",
}

// Options are the sign-in server and the OAuth client to use.
type Options struct {
	AuthURL      string
	TokenURL     string
	UserinfoURL  string
	ClientID     string
	ClientSecret perigee.Secret
	Installed    *Installed        // source of the id or the secret if these are not given; may be nil
	UserAgent    string            // empty for Go's own
	Transport    http.RoundTripper // nil for one of package wire
	Now          func() time.Time  // time.Now if nil
	Logger       *slog.Logger      // nil discards all records
}

// A Client makes calls to the sign-in server. It may be used concurrently. Its errors are
// *perigee.Error, hold no secret, and wrap a *Refusal if the server gave a reason.
type Client struct {
	opts Options
	http caller
}

// NewClient returns a client. It makes no calls.
func NewClient(opts Options) *Client {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Client{opts: opts, http: newCaller(opts.Transport, opts.UserAgent, opts.Now)}
}

// A Grant is the result of a sign-in or a refresh.
type Grant struct {
	Access   perigee.Secret
	Refresh  perigee.Secret // empty if the previous one stays valid after a refresh
	Lifetime time.Duration  // of Access, from when it was asked for
}

// A Refusal is an answer of the provider that is not a success, with its meaning for the account.
type Refusal struct{ providererr.Diagnosis }

func (r *Refusal) Error() string { return r.Diagnosis.Error.Error() }

// Unwrap returns the *perigee.Error.
func (r *Refusal) Unwrap() error { return r.Diagnosis.Error }

// StateOf returns the state that an error puts an account in. It is empty for an error that is not
// about the account, such as a network that is down: such an error must not change any account.
func StateOf(err error) string {
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		return ""
	}
	switch refusal.Kind {
	case providererr.KindSignedOut:
		return perigee.AccountSignedOut
	case providererr.KindVerification:
		return perigee.AccountVerification
	case providererr.KindBan, providererr.KindIneligible:
		return perigee.AccountBanned
	}
	return ""
}

// An Identity is an OAuth client.
type Identity struct {
	ID     string
	Secret perigee.Secret
	File   string // the script of the installed IDE that has it; empty if it is configured
}

// NoClient is the cause of the error that there is no OAuth client to sign in with. It names
// directories of this machine, so it is for the command line and not for clients of the gateway.
type NoClient struct {
	Several  []string // the ids to choose from; nil if no client fits
	Searched string   // the places that were searched, and the files that could not be read
}

func (n *NoClient) Error() string { return "no OAuth client in an installed IDE" }

// Identity returns the OAuth client that is signed in with. When there is none, because it is not
// configured and not to be found either, the error wraps a *NoClient if it was looked for.
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
		WithHint("check oauth of this upstream in the configuration")
}

// exchange turns the code of a consent into tokens.
func (c *Client) exchange(ctx context.Context, code perigee.Secret, verifier, redirectURI string) (Grant, error) {
	grant, err := c.token(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()}, "code_verifier": {verifier}, "redirect_uri": {redirectURI},
	})
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Kind == providererr.KindSignedOut {
		// The code is invalid here, not an account.
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "the sign-in server rejects the code: it was used before, is too old, or belongs to another sign-in").
			WithHint("run `perigee login` again")
	}
	if err != nil {
		return Grant{}, err
	}
	if grant.Refresh.IsZero() {
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "the sign-in server gave no refresh token").
			WithHint("remove the program's access at https://myaccount.google.com/permissions, then run `perigee login` again")
	}
	return grant, nil
}

// Refresh turns a refresh token into an access token.
func (c *Client) Refresh(ctx context.Context, refresh perigee.Secret) (Grant, error) {
	if refresh.IsZero() {
		return Grant{}, perigee.Errorf(perigee.ClassUnauthenticated, "there is no refresh token").WithHint("run `perigee login`")
	}
	return c.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}})
}

// token calls the token endpoint.
func (c *Client) token(ctx context.Context, form url.Values) (Grant, error) {
	who, err := c.Identity(ctx)
	if _, missing := errors.AsType[*NoClient](err); missing && c.opts.ClientID != "" {
		// Some clients have no secret: the server decides.
		who, err = Identity{ID: c.opts.ClientID}, nil
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
		return Grant{}, misconfigured("token_url is %q, which is not a URL", c.opts.TokenURL)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		// ExpiresIn may be of any type: the tokens beside it must not be lost.
		ExpiresIn json.RawMessage `json:"expires_in"`
	}
	var secrets []perigee.Secret
	for _, name := range []string{"refresh_token", "code", "code_verifier", "client_secret"} {
		secrets = append(secrets, perigee.NewSecret(form.Get(name)))
	}
	err = c.http.do(req, &answer, secrets...)
	if err == nil && answer.AccessToken == "" {
		err = invalidAnswer(req, errors.New("there is no access token in it"))
	}
	if err != nil {
		return Grant{}, c.withoutToken(err)
	}
	return Grant{Access: perigee.NewSecret(answer.AccessToken), Refresh: perigee.NewSecret(answer.RefreshToken),
		Lifetime: lifetime(answer.ExpiresIn)}, nil
}

// withoutToken distinguishes errors about the sign-in from temporary errors of the server, which
// can soon be retried.
func (c *Client) withoutToken(err error) error {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return &Refusal{refusal.AtSignIn(c.opts.Now())}
	}
	trouble, ok := errors.AsType[*perigee.Error](err)
	if !ok || trouble.Class != perigee.ClassUnavailable {
		return err
	}
	e := *trouble
	e.Retry = providererr.SignInPause
	return &e
}

// An access token without a lifetime gets the usual one; no token is used for longer than a day.
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

// Email returns the email of an access token's account, in lower case.
func (c *Client) Email(ctx context.Context, access perigee.Secret) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.opts.UserinfoURL, nil)
	if err != nil {
		return "", misconfigured("userinfo_url is %q, which is not a URL", c.opts.UserinfoURL)
	}
	req.Header.Set("Authorization", "Bearer "+access.Reveal())
	var answer struct {
		Email string `json:"email"`
	}
	if err := c.http.do(req, &answer, access); err != nil {
		return "", err
	}
	email, ok := Address(answer.Email)
	if !ok {
		return "", invalidAnswer(req, errors.New("there is no e-mail address in it"))
	}
	return email, nil
}

// caller makes small HTTP calls with secrets in them.
type caller struct {
	client    *http.Client
	userAgent string
	now       func() time.Time
}

func newCaller(transport http.RoundTripper, userAgent string, now func() time.Time) caller {
	return caller{userAgent: userAgent, now: now, client: wire.NewClient(transport)}
}

// callTime is how long one call may take.
const callTime = 30 * time.Second

// maxAnswer limits how much of an answer is read; valid answers have a few kilobytes.
const maxAnswer = 1 << 20

// do sends a request and decodes the JSON of a successful answer. secrets are the secrets in the
// request: they are removed from errors, in case the server repeats them.
func (c caller) do(req *http.Request, answer any, secrets ...perigee.Secret) error {
	ctx, cancel := context.WithTimeout(req.Context(), callTime)
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
		return &Refusal{providererr.Classify(resp.StatusCode, resp.Header, redact.New(secrets...).Body(body), c.now())}
	}
	if len(body) > maxAnswer {
		return invalidAnswer(req, fmt.Errorf("it is longer than %d bytes", maxAnswer))
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return invalidAnswer(req, errors.New("it is not the JSON that was expected"))
	}
	return nil
}

// unreachable returns the error for a server that cannot be reached. It does not affect any
// account.
func unreachable(req *http.Request, err error) error {
	if req.Context().Err() != nil {
		return req.Context().Err() // the caller has canceled the request
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without its URL, which may have secrets in it
	}
	return perigee.Errorf(perigee.ClassUnavailable, "%s cannot be reached: %w", req.URL.Host, err).
		WithHint("check oauth and endpoints of this upstream in the configuration, and the network")
}

func invalidAnswer(req *http.Request, err error) error {
	return perigee.Errorf(perigee.ClassUnavailable, "%s sent an invalid answer: %w", req.URL.Host, err).
		WithHint("try again; if that does not help, check whether a proxy interferes")
}

// Address returns an e-mail address in the form in which it names an account: in lower case. ok is
// false for a text that cannot be an address.
func Address(text string) (email string, ok bool) {
	email = strings.ToLower(strings.TrimSpace(text))
	name, domain, found := strings.Cut(email, "@")
	return email, found && name != "" && domain != "" && len(email) <= 254 && !strings.Contains(domain, "@") &&
		!strings.ContainsFunc(name+domain, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || strings.ContainsRune(`"<>\/|,;`, r) })
}
