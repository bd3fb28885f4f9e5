package accounttests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// kinds are the upstreams that lease accounts, with the part of their configuration that differs.
// The language server that shares accounts does so with an upstream that uses two pools of quota,
// of which a language server uses one. The hub gets its tokens in a file.
var kinds = map[string]string{
	config.KindAntigravity: "kind: antigravity\n    endpoints: [%[1]s]\n    pools: [antigravity]",
	config.KindLangserver:  "kind: langserver\n    binary: simulator\n    cloud_url: %[1]s",
	"hub":                  "kind: langserver\n    binary: simulator\n    profile: hub\n    cloud_url: %[1]s",
	"shared": "kind: antigravity\n    endpoints: [%[1]s]\n" +
		"  - {name: headless, kind: langserver, accept_terms_risk: true, accounts_from: gravity, binary: simulator, cloud_url: '%[1]s'}\n" +
		"models: {routes: [{match: '*', to: [headless]}]}",
	"shared, one account": "kind: antigravity\n    endpoints: [%[1]s]\n" +
		"  - {name: headless, kind: langserver, accept_terms_risk: true, accounts_from: gravity, account: BOB@Example.com, binary: simulator, cloud_url: '%[1]s'}\n" +
		"models: {routes: [{match: '*', to: [headless]}]}",
	"shared, unknown account": "kind: antigravity\n    endpoints: [%[1]s]\n" +
		"  - {name: headless, kind: langserver, accept_terms_risk: true, accounts_from: gravity, account: zed@example.com, binary: simulator, cloud_url: '%[1]s'}\n" +
		"models: {routes: [{match: '*', to: [headless]}]}",
	"shared, before the owner": "kind: antigravity\n    endpoints: [%[1]s]\n" +
		"  - {name: headless, kind: langserver, accept_terms_risk: true, accounts_from: gravity, account: bob@example.com, binary: simulator, cloud_url: '%[1]s'}\n" +
		"models: {routes: [{match: '*', to: [headless, gravity]}]}",
}

// A kindRig is a daemon with the accounts ada and bob, and what became of the calls to it.
type kindRig struct {
	*accountRig
	log   *daemontest.Log
	story []string
	seen  int // calls of the provider that the story has
}

// answers is the host that the simulator sees in requests for answers to clients. The other calls
// of a language server have another one.
const answers = "answers.example"

// newKindRig builds one. refresh is the refresh token of ada.
func newKindRig(t *testing.T, kind, refresh string, faults ...simulator.Fault) *kindRig {
	t.Helper()
	var list []simulator.Account
	for _, name := range []string{"ada", "bob"} {
		list = append(list, simulator.Account{Email: name + "@example.com", RefreshToken: "sim-refresh-" + name, Project: "sim-project-" + name, Limits: unlimited})
	}
	provider := daemontest.NewSimulator(t, simulator.Options{Accounts: list}, faults...)
	url := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var envelope struct{ RequestID string }
		if json.Unmarshal(body, &envelope) == nil && strings.HasPrefix(envelope.RequestID, "agent") {
			r.Host = answers
		}
		provider.ServeHTTP(w, r)
	}))
	dir := daemontest.DataDir(t)
	daemontest.SignIn(t, dir, daemontest.SignedIn("ada@example.com", "sim-project-ada", refresh), daemontest.SignedIn("bob@example.com", "sim-project-bob", "sim-refresh-bob"))
	text := fmt.Sprintf(`
upstreams:
  - name: gravity
    accept_terms_risk: true
    oauth: {auth_url: %[1]s/o/oauth2/v2/auth, token_url: %[1]s/token, userinfo_url: %[1]s/oauth2/v2/userinfo, client_id: id, client_secret: secret-of-the-client}
    `+kinds[kind]+"\n", url)
	r := &kindRig{accountRig: &accountRig{t: t, provider: provider, src: daemontest.Sources(text, dir)}, log: new(daemontest.Log)}
	r.start()
	return r
}

func (r *kindRig) start() {
	r.t.Helper()
	r.gateway = daemontest.StartIn(r.t, r.src, func(o *daemon.Options) {
		o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
}

// logf adds a line to the story, in which times are left out.
func (r *kindRig) logf(format string, args ...any) {
	line := span.ReplaceAllString(fmt.Sprintf(format, args...), "…")
	r.story = append(r.story, strings.ReplaceAll(line, "`", "'"))
}

// span is a time that differs from run to run.
var span = regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms|h|m|s)(\d+(\.\d+)?(m|s))*|\d\d:\d\d:\d\d UTC|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

// ask asks a model, and tells the answer and the accounts that it took.
func (r *kindRig) ask(model string) {
	r.t.Helper()
	got, err := askIn(r.t.Context(), r.gateway.URL(), &dialectRigs[1], false, model, fmt.Sprint("question ", len(r.story), " [[text: the answer is here]]"))
	if err != nil {
		r.t.Fatal(err)
	}
	what := fmt.Sprint(got.status)
	if !got.answered() {
		var e struct{ Error struct{ Message string } }
		_ = json.Unmarshal([]byte(got.body), &e)
		what += " " + got.header.Get("X-Perigee-Class") + ": " + e.Error.Message
	}
	if got.header.Get("Retry-After") != "" {
		what += ", later"
	}
	r.logf("%s: %s [%s]", model, what, strings.Join(r.asked(), " "))
}

// asked are the accounts that answers were asked of since it was called last.
func (r *kindRig) asked() (names []string) {
	calls := slices.DeleteFunc(r.provider.Calls(), func(c simulator.Call) bool { return c.Host != answers })
	for _, c := range calls[r.seen:] {
		name, _, _ := strings.Cut(c.Account, "@")
		names = append(names, name)
	}
	r.seen = len(calls)
	return names
}

// states tells the accounts as account list has them.
func (r *kindRig) states() {
	r.t.Helper()
	var words []string
	for _, row := range r.accounts() {
		name, _, _ := strings.Cut(row.Email, "@")
		word := name + " " + row.State
		for _, c := range row.Cooldowns {
			word += fmt.Sprintf(" (%s %s)", strings.TrimSpace(c.Family+" "+c.Pool), c.Reason)
		}
		words = append(words, word)
	}
	r.logf("accounts: %s", strings.Join(words, ", "))
}

// explains tells what account explain says.
func (r *kindRig) explains(model string) {
	r.t.Helper()
	rows, err := r.control().ExplainAccounts(r.t.Context(), model)
	if err != nil {
		r.t.Fatal(err)
	}
	var words []string
	for _, row := range rows {
		name, _, _ := strings.Cut(row.Email, "@")
		why := strings.Replace(row.Why, ", 100% of its quota left", "", 1) // known if the figures have come yet
		words = append(words, name+" "+why)
	}
	r.logf("explain %s: %s", model, strings.Join(words, "; "))
}

// ready tells what GET /ready answers.
func (r *kindRig) ready() {
	r.t.Helper()
	status, body := r.gateway.Request(r.t, http.MethodGet, "/ready", "", "")
	var answer struct{ Reasons []string }
	_ = json.Unmarshal([]byte(body), &answer)
	r.logf("%s", strings.TrimSpace(fmt.Sprintf("ready: %d %s", status, strings.Join(answer.Reasons, ", "))))
}

// models tells whether the models are listed.
func (r *kindRig) models() {
	r.t.Helper()
	status, _ := r.gateway.Request(r.t, http.MethodGet, "/v1/models", "", "")
	r.logf("models: %d", status)
}

// restart starts another daemon with the same data.
func (r *kindRig) restart() {
	r.t.Helper()
	await.Receive(r.t, daemontest.Stopping(r.t.Context(), r.gateway), "the end of the daemon")
	r.start()
	r.logf("restarted")
}

// booked stops the daemon and tells the account of each call.
func (r *kindRig) booked() {
	r.t.Helper()
	calls, err := r.gateway.Stop(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortStableFunc(calls, func(a, b perigee.Call) int { return a.Time.Compare(b.Time) })
	var names []string
	for _, c := range calls {
		if c.Operation != perigee.OperationGenerate || c.Client.Name == "language-server" {
			continue
		}
		name, _, _ := strings.Cut(c.Account, "@")
		names = append(names, cmp.Or(name, "-"))
		for _, a := range c.Attempts {
			if strings.Contains(a.Why, "the only account") {
				r.t.Errorf("of two accounts, %s is called the only one", a.Account)
			}
		}
		if last := len(c.Attempts) - 1; c.Account != "" && (last < 0 || c.Attempts[last].Account != c.Account) {
			r.t.Errorf("%s is booked, but the attempts are %+v", c.Account, c.Attempts)
		}
	}
	r.logf("booked: %s", strings.Join(names, " "))
}

// refusing is a fault of requests for answers.
func refusing(do, account string) simulator.Fault {
	return simulator.Fault{Do: do, When: simulator.When{Host: answers, Account: account}}
}

func once(f simulator.Fault) simulator.Fault { f.Times = 1; return f }

func ofModel(f simulator.Fault, model string) simulator.Fault { f.When.Model = model; return f }

const (
	gemini = "gemini-3-flash"
	claude = "claude-sonnet-4-6"
)

// kindSteps are what scenarios consist of.
var kindSteps = map[string]func(*kindRig){
	"gemini":         func(r *kindRig) { r.ask(gemini) },
	"claude":         func(r *kindRig) { r.ask(claude) },
	"accounts":       (*kindRig).states,
	"explain-gemini": func(r *kindRig) { r.explains(gemini) },
	"explain-claude": func(r *kindRig) { r.explains(claude) },
	"ready":          (*kindRig).ready,
	"models":         (*kindRig).models,
	"restart":        (*kindRig).restart,
	"prefer-bob": func(r *kindRig) {
		if err := r.control().UseAccount(r.t.Context(), named("bob@example.com")); err != nil {
			r.t.Fatal(err)
		}
	},
	"enable-ada": func(r *kindRig) {
		if _, err := r.control().EnableAccount(r.t.Context(), named("ada@example.com"), true); err != nil {
			r.t.Fatal(err)
		}
	},
	"disable-ada": func(r *kindRig) {
		if _, err := r.control().EnableAccount(r.t.Context(), named("ada@example.com"), false); err != nil {
			r.t.Fatal(err)
		}
	},
}

// An accountScenario is trouble with accounts, and what has to become of it, whatever the kind of the upstream is.
type accountScenario struct {
	name    string
	faults  []simulator.Fault
	refresh string // token of ada; empty means the right one
	steps   string // names of kindSteps
	want    string
}

// TestAccountsOfBothKinds plays the same trouble with accounts to both kinds of upstreams that lease them, and to a language server that
// shares the accounts of another upstream. Answers, accounts that were asked, states, explanations and bookings have to be the same.
func TestAccountsOfBothKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.KindAntigravity, config.KindLangserver, "shared"} {
		for _, s := range accountScenarios {
			t.Run(kind+" "+s.name, func(t *testing.T) {
				t.Parallel()
				r := newKindRig(t, kind, cmp.Or(s.refresh, "sim-refresh-ada"), s.faults...)
				for _, step := range strings.Fields(s.steps) {
					kindSteps[step](r)
				}
				r.booked()
				if got, want := strings.Join(r.story, "\n"), strings.TrimSpace(s.want); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				if changes := strings.Count(r.log.String(), "language server signed in"); changes > 6 {
					t.Errorf("the account of the language server was changed %d times", changes)
				}
			})
		}
	}
}

var accountScenarios = []accountScenario{
	{name: "two accounts", steps: "gemini claude accounts explain-gemini ready", want: `
gemini-3-flash: 200 [ada]
claude-sonnet-4-6: 200 [ada]
accounts: ada ready, bob ready
explain gemini-3-flash: ada usable: it is the current account, and sticky selection stays with it; bob usable, if the accounts before it are not
ready: 200
booked: ada ada
`},
	{name: "429 long of one", faults: []simulator.Fault{refusing("quota_exhausted", "ada")}, steps: "gemini gemini accounts explain-gemini", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready (gemini antigravity quota), bob ready
explain gemini-3-flash: bob usable: it is the current account, and sticky selection stays with it; ada its quota is used up
booked: bob bob
`},
	{name: "429 short of one", faults: []simulator.Fault{once(refusing("rate_limit", "ada"))}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada ada]
gemini-3-flash: 200 [ada]
accounts: ada ready, bob ready
booked: ada ada
`},
	{name: "429 of all", faults: []simulator.Fault{refusing("quota_exhausted", "")}, steps: "gemini gemini gemini models accounts explain-gemini ready", want: `
gemini-3-flash: 429 exhausted: no account is usable for gemini-3-flash; of 2: 2 out of quota (back in …); wait until … UTC (…), or add another account with 'perigee login'; 'perigee account explain gemini-3-flash' says more, later [ada bob]
gemini-3-flash: 429 exhausted: no account is usable for gemini-3-flash; of 2: 2 out of quota (back in …); wait until … UTC (…), or add another account with 'perigee login'; 'perigee account explain gemini-3-flash' says more, later []
gemini-3-flash: 429 exhausted: no account is usable for gemini-3-flash; of 2: 2 out of quota (back in …); wait until … UTC (…), or add another account with 'perigee login'; 'perigee account explain gemini-3-flash' says more, later []
models: 200
accounts: ada ready (gemini antigravity quota), bob ready (gemini antigravity quota)
explain gemini-3-flash: ada its quota is used up; bob its quota is used up
ready: 200
booked: bob - -
`},
	{name: "429 without a time of one", faults: []simulator.Fault{refusing("bare_429", "ada")}, steps: "gemini gemini", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
booked: bob bob
`},
	{name: "one family exhausted", faults: []simulator.Fault{ofModel(refusing("quota_exhausted", "ada"), "gemini")}, steps: "claude gemini claude gemini accounts explain-claude", want: `
claude-sonnet-4-6: 200 [ada]
gemini-3-flash: 200 [ada bob]
claude-sonnet-4-6: 200 [ada]
gemini-3-flash: 200 [bob]
accounts: ada ready (gemini antigravity quota), bob ready
explain claude-sonnet-4-6: ada usable: it is the current account, and sticky selection stays with it; bob usable, if the accounts before it are not
booked: ada bob ada bob
`},
	{name: "ban", faults: []simulator.Fault{refusing("banned", "ada")}, steps: "gemini claude accounts explain-gemini ready", want: `
gemini-3-flash: 200 [ada bob]
claude-sonnet-4-6: 200 [bob]
accounts: ada banned, bob ready
explain gemini-3-flash: bob usable: it is the current account, and sticky selection stays with it; ada banned: the provider has disabled this account: This service has been disabled in this account for violation of Terms of Service; sign in to Antigravity itself with this account to see how to appeal, and use another account or upstream meanwhile; 'perigee account enable' enables it again
ready: 200
booked: bob bob
`},
	{name: "ban of all", faults: []simulator.Fault{refusing("banned", "")}, steps: "gemini gemini accounts ready", want: `
gemini-3-flash: 403 forbidden: the provider has disabled this account: This service has been disabled in this account for violation of Terms of Service; sign in to Antigravity itself with this account to see how to appeal, and use another account or upstream meanwhile; 'perigee account enable' enables it again [ada bob]
gemini-3-flash: 403 forbidden: no account is usable for gemini-3-flash; of 2: 2 banned; add another account with 'perigee login', or use another upstream []
accounts: ada banned, bob banned
ready: 503 no upstream can be used
booked: bob -
`},
	{name: "enabled again", faults: []simulator.Fault{once(refusing("banned", "ada")), refusing("banned", "bob")}, steps: "claude enable-ada models claude accounts ready", want: `
claude-sonnet-4-6: 403 forbidden: the provider has disabled this account: This service has been disabled in this account for violation of Terms of Service; sign in to Antigravity itself with this account to see how to appeal, and use another account or upstream meanwhile; 'perigee account enable' enables it again [ada bob]
models: 200
claude-sonnet-4-6: 200 [ada]
accounts: ada ready, bob banned
ready: 200
booked: bob ada
`},
	{name: "verification", faults: []simulator.Fault{refusing("validation_required", "ada")}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada verification, bob ready
booked: bob bob
`},
	{name: "401, then refresh", faults: []simulator.Fault{once(refusing("unauthorized", "ada"))}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada ada]
gemini-3-flash: 200 [ada]
accounts: ada ready, bob ready
booked: ada ada
`},
	{name: "401 of one", faults: []simulator.Fault{refusing("unauthorized", "ada")}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready ( unauthenticated), bob ready
booked: bob bob
`},
	{name: "revoked sign-in", refresh: "sim-refresh-nobody", steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [bob]
gemini-3-flash: 200 [bob]
accounts: ada signed_out, bob ready
booked: bob bob
`},
	{name: "forbidden", faults: []simulator.Fault{refusing("forbidden", "ada")}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready, bob ready
booked: bob bob
`},
	{name: "service disabled", faults: []simulator.Fault{refusing("service_disabled", "ada")}, steps: "gemini gemini accounts explain-gemini", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready (gemini antigravity project), bob ready
explain gemini-3-flash: bob usable: it is the current account, and sticky selection stays with it; ada its project sim-project-ada is refused
booked: bob bob
`},
	{name: "error 500 once", faults: []simulator.Fault{once(refusing("internal_500", "ada"))}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready, bob ready
booked: bob bob
`},
	{name: "error 500 of all", faults: []simulator.Fault{refusing("internal_500", "")}, steps: "gemini accounts", want: `
gemini-3-flash: 500 unavailable: the provider is unavailable: Internal error encountered; wait a little and try again, or use another upstream [ada bob]
accounts: ada ready, bob ready
booked: bob
`},
	{name: "unknown model", faults: []simulator.Fault{refusing("not_found", "ada")}, steps: "gemini gemini accounts", want: `
gemini-3-flash: 200 [ada bob]
gemini-3-flash: 200 [bob]
accounts: ada ready (gemini antigravity not_found: gemini-3-flash), bob ready
booked: bob bob
`},
	{name: "restart with a cooldown", faults: []simulator.Fault{refusing("quota_exhausted", "ada")}, steps: "gemini restart accounts gemini", want: `
gemini-3-flash: 200 [ada bob]
restarted
accounts: ada ready (gemini antigravity quota), bob ready
gemini-3-flash: 200 [bob]
booked: bob bob
`},
	{name: "restart with a ban", faults: []simulator.Fault{refusing("banned", "ada")}, steps: "gemini restart accounts gemini", want: `
gemini-3-flash: 200 [ada bob]
restarted
accounts: ada banned, bob ready
gemini-3-flash: 200 [bob]
booked: bob bob
`},
	{name: "the owner prefers another account", steps: "gemini prefer-bob gemini claude", want: `
gemini-3-flash: 200 [ada]
gemini-3-flash: 200 [bob]
claude-sonnet-4-6: 200 [bob]
booked: ada bob bob
`},
	{name: "the owner disables an account", steps: "gemini disable-ada gemini explain-gemini", want: `
gemini-3-flash: 200 [ada]
gemini-3-flash: 200 [bob]
explain gemini-3-flash: bob usable: it is the current account, and sticky selection stays with it; ada it is disabled; 'perigee account enable' changes that
booked: ada bob
`},
}

// A language server has one account at a time. Calls that need different accounts at the same time take turns, and each is sent with the
// account that is booked.
func TestCallsOfALanguageServerWithDifferentAccounts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{config.KindLangserver, "hub"} {
		t.Run(kind, func(t *testing.T) { t.Parallel(); mixAccounts(t, kind) })
	}
}

func mixAccounts(t *testing.T, kind string) {
	r := newKindRig(t, kind, "sim-refresh-ada", ofModel(refusing("quota_exhausted", "ada"), "gemini"))
	r.ask(claude)
	r.ask(gemini)
	var running sync.WaitGroup
	for i := range 12 {
		running.Go(func() {
			got, err := askIn(t.Context(), r.gateway.URL(), &dialectRigs[1], i%3 == 0, []string{gemini, claude}[i%2], fmt.Sprint("question ", i, " [[text: the answer is here]]"))
			if err != nil || !got.answered() {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	await.Return(t, running.Wait, "the answers")
	want := map[string]string{gemini: "bob@example.com", claude: "ada@example.com"}
	answered := 0
	for _, c := range r.provider.Calls() {
		if c.Host == answers && c.Status == http.StatusOK {
			answered++
			if c.Account != want[c.Model] {
				t.Errorf("%s was asked with %s", c.Model, c.Account)
			}
		}
	}
	calls, err := r.gateway.Stop(t.Context())
	booked := 0
	for _, c := range calls {
		if c.Operation == perigee.OperationGenerate && c.Client.Name != "language-server" {
			booked++
			if c.Account != want[c.Model] {
				t.Errorf("a call for %s is booked for %s", c.Model, c.Account)
			}
		}
	}
	if err != nil || answered != 14 || booked != 14 {
		t.Errorf("%d answers, %d calls (%v), want 14", answered, booked, err)
	}
}
