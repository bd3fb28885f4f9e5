package adc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"
	"golang.org/x/oauth2/jwt"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/wire"
)

// tokenURL is the token server of files that do not name one.
const tokenURL = "https://oauth2.googleapis.com/token"

// maxAnswer is how much of an answer of a token server is read.
const maxAnswer = 1 << 20

// A sender sends requests for tokens.
type sender struct {
	transport http.RoundTripper
	userAgent string
	learn     func(token perigee.Secret) // gets each token of an answer
}

// A recorder sends the requests of one refresh, and keeps what came of the last one: the errors of
// package oauth2 have it only as text.
type recorder struct {
	sender
	outcome
}

// An outcome is what came of a request.
type outcome struct {
	unreachable bool   // there was no answer
	status      int    // of an answer that is no success
	body        []byte // of that answer
	issued      bool   // the request was one for a token, and succeeded
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if r.userAgent != "" {
		req.Header.Set("User-Agent", r.userAgent)
	}
	r.outcome = outcome{unreachable: true}
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		body = r.readAnswer(body)
		r.outcome = outcome{issued: req.Method == http.MethodPost}
	} else {
		r.outcome = outcome{status: resp.StatusCode, body: body}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// readAnswer learns the tokens of an answer, and returns it with expires_in as a whole number. Some
// servers send a string or a fraction, which package oauth2 reads for some types of credentials only.
func (r *recorder) readAnswer(body []byte) []byte {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return body
	}
	for _, name := range []string{"access_token", "accessToken", "refresh_token", "id_token"} {
		var token string
		if json.Unmarshal(answer[name], &token) == nil && token != "" {
			r.learn(perigee.NewSecret(token))
		}
	}
	var number json.Number
	if json.Unmarshal(answer["expires_in"], &number) != nil {
		return body
	}
	seconds, err := number.Float64()
	if err != nil {
		return body
	}
	answer["expires_in"] = strconv.AppendInt(nil, int64(min(max(seconds, -1), math.MaxInt32)), 10)
	if whole, err := json.Marshal(answer); err == nil {
		return whole
	}
	return body
}

// request requests a token, and returns it with its lifetime.
func (c *credentials) request(ctx context.Context, send sender) (Token, time.Duration, error) {
	if c.file == nil {
		transport, err := wire.NewProxyTransport(perigee.NewSecret(wire.NoProxy)) // it is next to this machine
		if err != nil {
			return Token{}, 0, err
		}
		defer transport.CloseIdleConnections()
		send.transport = transport
	}
	r := &recorder{sender: send}
	client := wire.NewClient(r)
	var access *oauth2.Token
	var project string
	var err error
	if c.file == nil {
		access, project, err = fromMetadata(ctx, client, c.at.metadata)
	} else {
		access, err = c.file.token(context.WithValue(ctx, oauth2.HTTPClient, client))
		project = c.project()
	}
	if err == nil && access.AccessToken == "" {
		err = errors.New("there is no access token in it")
	}
	if err == nil && strings.ContainsFunc(access.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }) {
		err = errors.New("its access token has characters that no header can have")
	}
	if err != nil {
		return Token{}, 0, c.explain(ctx, r, err)
	}
	lifetime := time.Hour
	if !access.Expiry.IsZero() {
		lifetime = max(time.Until(access.Expiry), time.Minute) // the clock of this machine may be wrong
	}
	return Token{Access: perigee.NewSecret(access.AccessToken), Project: project, Quota: c.quota(),
		User: c.file != nil && (c.file.Type == typeUser || c.file.Type == typeExternalUser)}, lifetime, nil
}

// token requests a token with the client of ctx.
func (f *file) token(ctx context.Context) (*oauth2.Token, error) {
	switch f.Type {
	case typeService:
		config := jwt.Config{Email: f.ClientEmail, PrivateKey: []byte(f.PrivateKey), PrivateKeyID: f.PrivateKeyID,
			Scopes: []string{scope}, TokenURL: cmp.Or(f.TokenURI, tokenURL)}
		return config.TokenSource(ctx).Token()
	case typeExternal:
		if err := checkFiles(f.CredentialSource); err != nil {
			return nil, err
		}
		source, err := externalaccount.NewTokenSource(ctx, externalaccount.Config{
			Audience: f.Audience, SubjectTokenType: f.SubjectTokenType, TokenURL: f.TokenURL,
			ServiceAccountImpersonationURL:             f.ImpersonationURL,
			ServiceAccountImpersonationLifetimeSeconds: f.Impersonation.Seconds,
			ClientID: f.ClientID, ClientSecret: f.ClientSecret, CredentialSource: f.CredentialSource,
			Scopes: []string{scope}, WorkforcePoolUserProject: f.WorkforceProject,
		})
		if err != nil {
			return nil, err
		}
		return source.Token()
	case typeImpersonated:
		access, err := f.Source.token(ctx)
		if err != nil {
			return nil, err
		}
		return f.impersonate(ctx, access)
	}
	endpoint := oauth2.Endpoint{TokenURL: cmp.Or(f.TokenURI, tokenURL), AuthStyle: oauth2.AuthStyleInParams}
	if f.Type == typeExternalUser {
		endpoint = oauth2.Endpoint{TokenURL: f.TokenURL, AuthStyle: oauth2.AuthStyleInHeader}
	}
	config := oauth2.Config{ClientID: f.ClientID, ClientSecret: f.ClientSecret, Endpoint: endpoint}
	return config.TokenSource(ctx, &oauth2.Token{RefreshToken: f.RefreshToken}).Token()
}

// checkFiles returns an error for a file of a workload's identity that must not be opened.
func checkFiles(source *externalaccount.CredentialSource) error {
	paths := []string{source.File}
	if source.Executable != nil {
		paths = append(paths, source.Executable.OutputFile)
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && unfit(info) != "" {
			return fmt.Errorf("credential_source names %s: %s", path, unfit(info))
		}
	}
	return nil
}

// impersonate exchanges a token for one of the service account that the file names.
func (f *file) impersonate(ctx context.Context, by *oauth2.Token) (*oauth2.Token, error) {
	seconds := cmp.Or(f.Impersonation.Seconds, 3600)
	body, err := json.Marshal(map[string]any{"scope": []string{scope}, "lifetime": fmt.Sprintf("%ds", seconds), "delegates": f.Delegates})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.ImpersonationURL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	by.SetAuthHeader(req)
	client, _ := ctx.Value(oauth2.HTTPClient).(*http.Client)
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	err = getJSON(client, req, &answer)
	return &oauth2.Token{AccessToken: answer.AccessToken, Expiry: answer.ExpireTime}, err
}

// fromMetadata asks the metadata server for the token of the machine's service account, and for its
// project.
func fromMetadata(ctx context.Context, client *http.Client, host string) (*oauth2.Token, string, error) {
	get := func(path string) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/computeMetadata/v1/"+path, nil)
		if err == nil {
			req.Header.Set("Metadata-Flavor", "Google")
		}
		return req, err
	}
	req, err := get("instance/service-accounts/default/token?scopes=" + url.QueryEscape(scope))
	if err != nil {
		return nil, "", err
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := getJSON(client, req, &answer); err != nil {
		return nil, "", err
	}
	project := ""
	if req, err = get("project/project-id"); err != nil {
		return nil, "", err
	}
	if content, err := getAll(client, req); err == nil { // without it, the configuration has to name the project
		project = strings.TrimSpace(string(content))
	}
	return &oauth2.Token{AccessToken: answer.AccessToken, Expiry: time.Now().Add(time.Duration(answer.ExpiresIn) * time.Second)}, project, nil
}

func getJSON(client *http.Client, req *http.Request, into any) error {
	content, err := getAll(client, req)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return errors.New("it cannot be read") // the cause may repeat the token
	}
	return nil
}

func getAll(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the token server answered with status %d", resp.StatusCode)
	}
	return content, err
}

// explain returns the error of a refresh.
func (c *credentials) explain(ctx context.Context, r *recorder, err error) error {
	switch {
	case ctx.Err() != nil:
		return c.unavailable("the token server did not answer within "+refreshTime.String(), err)
	case r.unreachable:
		return c.unavailable("the token server cannot be reached", err)
	case r.status == http.StatusTooManyRequests, r.status >= http.StatusInternalServerError:
		return c.unavailable(fmt.Sprintf("the token server answered with status %d", r.status), err)
	case r.status != 0 && r.status < http.StatusBadRequest:
		return c.unavailable("the token server answered with a redirect", err)
	case r.status != 0:
		return c.refused(r)
	case r.issued, c.file == nil:
		return c.unavailable("the token server answered with something else than a token", err)
	}
	return unreadable(c.at.path, c.redactor().Text(err.Error()))
}

// unavailable returns the error for a server that could not be asked. The credentials may be good.
func (c *credentials) unavailable(why string, err error) error {
	e := &perigee.Error{Class: perigee.ClassUnavailable, Message: fmt.Sprintf("no Google access token: %s: %s", why, c.redactor().Text(err.Error())),
		Hint: "try again", Cause: err, Public: "no Google access token: " + why, PublicHint: "try again"}
	if c.file == nil {
		e.Setting = "credentials"
		e.Hint = "credentials: metadata works on machines of Google only; elsewhere, run " + logIn
	}
	return e
}

// refused returns the error for credentials that the server has refused.
func (c *credentials) refused(r *recorder) error {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	code, said := "", ""
	if json.Unmarshal(r.body, &answer) == nil && json.Unmarshal(answer.Error, &code) != nil {
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(answer.Error, &status)
		said = status.Message
	}
	said = c.redactor().Text(perigee.Clip(cmp.Or(said, answer.Description, code, fmt.Sprintf("status %d", r.status)), 300))
	what, hint := c.owner(r.status)
	e := &perigee.Error{Class: perigee.ClassUnauthenticated, Message: fmt.Sprintf("Google refuses %s: %s", what, said), Hint: hint, Setting: "credentials"}
	if c.file != nil && (c.file.Type == typeUser || c.file.Type == typeExternalUser) {
		if e.Fix, e.Setting = signIn(c.at.path); e.Fix == "" {
			e.Hint = hint + ", and use the file that it writes: " + useGcloud
		}
	}
	if strings.Contains(said, "timeframe") {
		e.Hint = "set the clock of the machine that runs perigee"
	}
	return e
}

// owner describes the credentials that were refused with a status, and what to do about it.
func (c *credentials) owner(status int) (what, hint string) {
	if c.file == nil {
		return "the service account of this machine", "check the service account and the access scopes of the machine"
	}
	f := c.file
	if f.Type == typeImpersonated && status != http.StatusForbidden { // before the exchange
		f = f.Source
	}
	switch f.Type {
	case typeUser, typeExternalUser:
		return "the sign-in of gcloud, which may have expired", "run " + logIn + " on the machine that runs perigee"
	case typeService:
		return "the key of the service account " + f.ClientEmail, "check that the service account and this key of it exist and are enabled"
	case typeImpersonated:
		return "to impersonate the service account", "grant the role Service Account Token Creator on it"
	}
	return "the token of the identity provider", "check audience and credential_source in the credentials file"
}

// redactor removes the secrets of the credentials from texts.
func (c *credentials) redactor() *redact.Redactor { return redact.New(c.secrets...) }
