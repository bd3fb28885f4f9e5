package pool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/simulator"
	"perigee/internal/upstream/antigravity"
)

// signedIn is an account of the simulator with an access token.
type signedIn struct {
	signIn perigee.SignIn
	token  perigee.Secret
}

func (s *signedIn) SignIn() perigee.SignIn                        { return s.signIn }
func (s *signedIn) Token(context.Context) (perigee.Secret, error) { return s.token, nil }
func (s *signedIn) Refused(perigee.Secret)                        {}

// generating are the calls that ask a model, so that signing in works.
var generating = simulator.When{Path: "enerateContent"}

// An upstreamRig is the antigravity upstream in front of the simulator, with a pool between them.
type upstreamRig struct {
	t        *testing.T
	upstream *antigravity.Upstream
	pool     *pool.Pool
	sources  []pool.Source
	states   []string
}

func newUpstreamRig(t *testing.T, script simulator.Script, opts pool.Options) *upstreamRig {
	t.Helper()
	d := &upstreamRig{t: t}
	provider, err := simulator.New(simulator.Options{Script: &script, Seed: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	transport := provider.Transport()
	t.Cleanup(func() { transport.CloseIdleConnections(); _ = provider.Close() })
	opts.OnState = func(s pool.Stop) { d.states = append(d.states, s.Email+" "+s.State) }
	d.pool = pool.New(opts)
	for _, a := range script.Accounts {
		d.sources = append(d.sources, &signedIn{token: access(t, transport, a.RefreshToken), signIn: perigee.SignIn{Account: perigee.Account{
			Email: a.Email, Upstream: "gravity", Enabled: true, ProjectID: a.Project, State: perigee.AccountReady}}})
	}
	d.pool.SetSources(d.sources)
	d.upstream = antigravity.New(antigravity.Options{Name: "gravity", Endpoints: []string{"https://daily.example", "https://prod.example"},
		Accounts: d.pool, UserAgent: antigravity.UserAgent("", "test"), Transport: transport})
	t.Cleanup(func() { _ = d.upstream.Close() })
	return d
}

func access(t *testing.T, transport http.RoundTripper, refresh string) perigee.Secret {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {"id"}, "client_secret": {"secret"}}
	resp, err := (&http.Client{Transport: transport}).PostForm("https://oauth2.example/token", form)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var grant struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&grant); err != nil || grant.AccessToken == "" {
		t.Fatal("no token", err)
	}
	return perigee.NewSecret(grant.AccessToken)
}

// ask makes a call and returns its error.
func (d *upstreamRig) ask(model, session string) error {
	d.t.Helper()
	body := `{"contents":[{"role":"user","parts":[{"text":"hello from ` + session + `"}]}]}`
	req, err := dialect.DecodeRequest(perigee.Origin{ID: "call", Body: []byte(body)}, model, true)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, err := range d.upstream.Stream(d.t.Context(), req) {
		if err != nil {
			return err
		}
	}
	return nil
}

func people(limits simulator.Limits) []simulator.Account {
	var list []simulator.Account
	for _, name := range []string{"ada", "bob", "cyd", "dan"} {
		list = append(list, simulator.Account{Email: name + "@example.com", RefreshToken: "sim-refresh-" + name, Project: "sim-project-" + name, Limits: limits})
	}
	return list
}

func (d *upstreamRig) resting() (list []string) {
	for _, a := range d.pool.Status() {
		for _, c := range a.Cooldowns {
			list = append(list, strings.TrimSuffix(a.Email, "@example.com")+" "+c.Family+" "+c.Pool)
		}
	}
	return list
}

func TestProviderIsAskedUntilAllPoolsAreEmpty(t *testing.T) {
	d := newUpstreamRig(t, simulator.Script{Accounts: people(simulator.Limits{FiveHour: 3})[:2]}, pool.Options{})
	for i := range 2 * 2 * 3 { // accounts, pools, calls
		if err := d.ask("gemini-3-flash", "one"); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	e := perigee.AsError(d.ask("gemini-3-flash", "one"))
	if e.Class != perigee.ClassExhausted || e.Retry.Hours() < 4.9 || !strings.Contains(e.Message, "2 out of quota") {
		t.Errorf("%s after %s: %v", e.Class, e.Retry, e)
	}
	want := []string{"ada gemini antigravity", "ada gemini gemini-cli", "bob gemini antigravity", "bob gemini gemini-cli"}
	if got := d.resting(); !slices.Equal(got, want) {
		t.Errorf("resting: %q", got)
	}
	if err := d.ask("claude-sonnet-4-6", "one"); err != nil {
		t.Errorf("another group: %v", err)
	}
}

func TestProviderThatLocksAccountsGetsTwoAtMost(t *testing.T) {
	script := simulator.Script{Accounts: people(simulator.Limits{}), Faults: []simulator.Fault{{When: generating, Do: "banned"}}}
	d := newUpstreamRig(t, script, pool.Options{})
	if e := perigee.AsError(d.ask("gemini-3-flash", "one")); e == nil || e.Class != perigee.ClassForbidden {
		t.Errorf("%v", e)
	}
	if got := strings.Join(d.states, ", "); got != "ada@example.com banned, bob@example.com banned" {
		t.Errorf("states: %s", got)
	}
}

func TestProviderThatRefusesTheClientCoolsNoAccount(t *testing.T) {
	script := simulator.Script{Accounts: people(simulator.Limits{}), Faults: []simulator.Fault{{When: generating, Do: "bare_429"}}}
	d := newUpstreamRig(t, script, pool.Options{})
	for range 3 {
		if e := perigee.AsError(d.ask("gemini-3-flash", "one")); e == nil || e.Class != perigee.ClassIdentity {
			t.Errorf("%v", e)
		}
	}
	if got := d.resting(); len(got) > 0 {
		t.Errorf("resting: %q", got)
	}
}

func TestProviderInTroubleMovesNoAccount(t *testing.T) {
	script := simulator.Script{Accounts: people(simulator.Limits{}), Faults: []simulator.Fault{
		{When: generating, Do: "capacity", Times: 10}, {When: generating, Do: "internal_500", Times: 10}}}
	d := newUpstreamRig(t, script, pool.Options{})
	for range 8 {
		_ = d.ask("gemini-3-flash", "one")
	}
	if got := d.resting(); len(got) > 0 {
		t.Errorf("resting: %q", got)
	}
	if first := d.pool.Explain(pool.Request{Model: "gemini-3-flash"})[0]; first.Email != "ada@example.com" || !first.Chosen {
		t.Errorf("%+v", first)
	}
}

func TestModelThatSomeAccountsLackIsAskedOfOthers(t *testing.T) {
	script := simulator.Script{Accounts: people(simulator.Limits{}),
		Models: map[string]simulator.ModelOverride{"gemini-3-flash": {Accounts: []string{"bob@example.com"}}}}
	d := newUpstreamRig(t, script, pool.Options{})
	for range 3 {
		if err := d.ask("gemini-3-flash", "one"); err != nil {
			t.Error(err)
		}
	}
	if got := d.resting(); !slices.Equal(got, []string{"ada gemini antigravity"}) {
		t.Errorf("resting: %q", got)
	}
}

// losing is an account that the sign-in server no longer takes, once its token has run out.
type losing struct {
	pool.Source
	refused bool
}

func (l *losing) Refused(perigee.Secret) { l.refused = true }

func (l *losing) Token(ctx context.Context) (perigee.Secret, error) {
	if l.refused {
		return perigee.Secret{}, &signedOut{providererr.Diagnosis{Kind: providererr.KindSignedOut, Scope: providererr.ScopeAccount,
			Error: perigee.Errorf(perigee.ClassUnauthenticated, "signed out")}}
	}
	return l.Source.Token(ctx)
}

type signedOut struct{ providererr.Diagnosis }

func (s *signedOut) Error() string { return s.Diagnosis.Error.Error() }

// A token that the provider does not take any more is renewed in the middle of the call; when that
// is refused, too, the account is stopped, and another one answers.
func TestAccountThatLosesItsSignInDuringACallGivesWay(t *testing.T) {
	d := newUpstreamRig(t, simulator.Script{Accounts: people(simulator.Limits{FiveHour: -1, Weekly: -1})[:2], Faults: []simulator.Fault{
		{When: simulator.When{Path: "enerateContent", Account: "ada@example.com"}, Do: "unauthorized"}}}, pool.Options{})
	d.sources[0] = &losing{Source: d.sources[0]}
	d.pool.SetSources(d.sources)
	if err := d.ask("gemini-3-flash", "one"); err != nil {
		t.Errorf("not answered: %v", err)
	}
	if want := []string{"ada@example.com signed_out"}; !slices.Equal(d.states, want) {
		t.Errorf("states: %q, want %q", d.states, want)
	}
}
