package accounttests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
)

// A turnstile is the simulator with rotating refresh tokens and access tokens that last for a
// moment only. It remembers which token replaced which, and what each was good for.
type turnstile struct {
	URL       string
	simulator *simulator.Server
	emails    []string
	life      string // of an access token, in seconds
	happened  func()

	mu     sync.Mutex
	chains int
	tokens map[string]issued // by refresh token
	access map[string]issued // by access token: the refresh token that it came with
	latest map[int]int       // by chain: the last turn
	used   map[int]int       // by chain: the last turn whose access token was used
	turned int
	shut   bool // nothing is given out: the process that asked is dead
}

// An issued is a refresh token: the turn-th of a sign-in.
type issued struct {
	email       string
	chain, turn int
}

func projectOf(email string) string {
	name, _, _ := strings.Cut(email, "@")
	return "project-of-" + name
}

// newTurnstile starts one. happened is told about each rotation, before and after the answer, and
// about each use.
func newTurnstile(t *testing.T, people int, life string, happened func()) *turnstile {
	t.Helper()
	return newPacedTurnstile(t, people, life, happened, nil)
}

// newPacedTurnstile starts one whose paced streams sleep as a test wants it.
func newPacedTurnstile(t *testing.T, people int, life string, happened func(), sleep func(context.Context, time.Duration) error) *turnstile {
	t.Helper()
	p := &turnstile{life: life, happened: happened, tokens: map[string]issued{}, access: map[string]issued{}, latest: map[int]int{}, used: map[int]int{}}
	var accounts []simulator.Account
	for i := range people {
		email := fmt.Sprintf("person%02d@example.com", i)
		p.emails = append(p.emails, email)
		accounts = append(accounts, simulator.Account{Email: email, Project: projectOf(email), Limits: simulator.Limits{FiveHour: -1, Weekly: -1}})
	}
	p.simulator = daemontest.NewSimulator(t, simulator.Options{Accounts: accounts, Sleep: sleep, Script: &simulator.Script{RotateRefreshTokens: true}})
	p.URL = daemontest.Serve(t, p)
	return p
}

func (p *turnstile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		p.use(r)
		p.simulator.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = http.NoBody
	p.token(answer, r.PostForm)
	p.happened()
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	p.happened()
}

// use notes that an access token was used.
func (p *turnstile) use(r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	if token, ok := p.access[bearer]; ok {
		p.used[token.chain] = max(p.used[token.chain], token.turn)
	}
	p.mu.Unlock()
	p.happened()
}

// token gives out tokens, to one at a time, and notes which.
func (p *turnstile) token(w *httptest.ResponseRecorder, form url.Values) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.give(w, form)
}

func (p *turnstile) give(w *httptest.ResponseRecorder, form url.Values) {
	given := askToken(p.simulator, form)
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	_ = json.Unmarshal(given.Body.Bytes(), &answer)
	old, known := p.tokens[form.Get("refresh_token")]
	if given.Code == http.StatusOK && known {
		next, again := p.tokens[answer.Refresh]
		if !again {
			next = issued{old.email, old.chain, old.turn + 1}
			p.tokens[answer.Refresh] = next
			p.latest[next.chain] = next.turn
			p.turned++
		}
		p.access[answer.Access] = next
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(given.Code)
	_, _ = w.WriteString(strings.Replace(given.Body.String(), `"expires_in":3599`, `"expires_in":`+p.life, 1))
}

// askToken posts a form to the token endpoint.
func askToken(provider http.Handler, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	provider.ServeHTTP(w, r)
	return w
}

// consent signs an account in, and returns the refresh token and the number of the sign-in.
func (p *turnstile) consent(t *testing.T, email string) (refresh string, chain int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refresh = consent(t, p.simulator, email)
	p.chains++
	p.tokens[refresh] = issued{email: email, chain: p.chains}
	return refresh, p.chains
}

// consent signs an account in at the simulator and returns the refresh token.
func consent(t *testing.T, provider http.Handler, email string) string {
	const back = "http://127.0.0.1/back"
	w := httptest.NewRecorder()
	page := url.Values{"client_id": {"id"}, "redirect_uri": {back}, "response_type": {"code"}, "login_hint": {email}}
	provider.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/o/oauth2/v2/auth?"+page.Encode(), nil))
	target, err := url.Parse(w.Header().Get("Location"))
	if err != nil {
		t.Error(err)
		return ""
	}
	given := askToken(provider, url.Values{"grant_type": {"authorization_code"}, "client_id": {"id"}, "client_secret": {"secret-of-the-client"},
		"redirect_uri": {back}, "code": {target.Query().Get("code")}})
	var answer struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(given.Body.Bytes(), &answer); err != nil || answer.Refresh == "" {
		t.Errorf("no sign-in for %s: %s", email, given.Body)
	}
	return answer.Refresh
}

func (p *turnstile) find(refresh string) issued {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens[refresh]
}

// state says which turn of a sign-in was given out last, and which used.
func (p *turnstile) state(chain int) (latest, used int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest[chain], p.used[chain]
}

// shutOff makes it give out nothing more, also to those whose question is still on its way, or
// opens it again.
func (p *turnstile) shutOff(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
}

func (p *turnstile) rotations() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turned
}

// takes reports whether the simulator would still take a token. It is asked as another client,
// which learns only whether the token is dead and spends nothing.
func (p *turnstile) takes(t *testing.T, refresh string) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := askToken(p.simulator, url.Values{"grant_type": {"refresh_token"}, "client_id": {"somebody-else"}, "client_secret": {"x"}, "refresh_token": {refresh}})
	return strings.Contains(w.Body.String(), "unauthorized_client")
}

// renew uses a token once more.
func (p *turnstile) renew(t *testing.T, refresh string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := httptest.NewRecorder()
	p.give(w, url.Values{"grant_type": {"refresh_token"}, "client_id": {"id"}, "client_secret": {"secret-of-the-client"}, "refresh_token": {refresh}})
	var answer struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Refresh == "" {
		t.Errorf("a token was not taken once more: %s", w.Body)
	}
	return answer.Refresh
}
