package headless

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/account/roster"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" {
		os.Exit(standin.Main(context.Background(), standin.Command{
			Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		}))
	}
	goleak.VerifyTestMain(m)
}

// fakeAccounts has the accounts that a test gives it, in a pool.
type fakeAccounts struct {
	pool *pool.Pool

	mu   sync.Mutex
	list []*fakeSource
}

func (f *fakeAccounts) set(list ...roster.Credential) {
	f.mu.Lock()
	f.list = nil
	var sources []pool.Source
	for _, c := range list {
		s := &fakeSource{c}
		f.list, sources = append(f.list, s), append(sources, s)
	}
	f.mu.Unlock()
	f.pool.SetSources(sources)
}

func (f *fakeAccounts) Choices() (list []roster.Choice) {
	for _, a := range f.pool.Status() {
		list = append(list, roster.Choice{Email: a.Email, Usable: perigee.UsableState(a.State)})
	}
	return list
}

func (f *fakeAccounts) Credential(_ context.Context, email string) (roster.Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.list {
		if s.Email == email {
			return s.Credential, nil
		}
	}
	return roster.Credential{}, errors.New("no such account")
}

func (f *fakeAccounts) Pool() *pool.Pool { return f.pool }

func (f *fakeAccounts) Refusal(email string) error {
	return f.pool.Refusal(pool.Request{Email: email})
}

func (f *fakeAccounts) Refused(string, perigee.Secret) bool { return false }

func (f *fakeAccounts) Unusable() string {
	if len(f.pool.Status()) == 0 {
		return "no account is signed in"
	}
	return ""
}

// A fakeSource is an account whose token is always the same.
type fakeSource struct{ roster.Credential }

func (s *fakeSource) SignIn() perigee.SignIn {
	return perigee.SignIn{Account: perigee.Account{Email: s.Email, Upstream: "desk", Enabled: true, ProjectID: s.Project, State: perigee.AccountReady}}
}

func (s *fakeSource) Token(context.Context) (perigee.Secret, error) { return s.Access, nil }

func (s *fakeSource) Refused(perigee.Secret) {}

func credential(email, project string) roster.Credential {
	end := time.Now().Add(time.Hour)
	return roster.Credential{Email: email, Project: project, Access: perigee.NewSecret("token of " + email), Expiry: end, Renew: end}
}

// A rig is a server with the stand-in, in front of the simulator.
type rig struct {
	*Server
	t        *testing.T
	upstream *Upstream
	cloud    *simulator.Server
	accounts *fakeAccounts

	mu     sync.Mutex
	bodies []string // of requests for answers that the cloud got
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cloud: sim, accounts: &fakeAccounts{pool: pool.New(pool.Options{})}}
	cloud := httptest.NewServer(http.HandlerFunc(r.serveCloud))
	t.Cleanup(func() {
		_ = sim.Close()
		cloud.Close()
	})
	opts := Options{
		Upstream: config.Upstream{Name: "desk", Kind: config.KindLangserver, Binary: StandIn, Profile: "auto", StartTimeout: time.Minute, Concurrency: 1},
		DataDir:  t.TempDir(), StandIn: []string{os.Args[0], "simulate", "langserver"}, AccountsOf: "desk",
		Accounts: func() Accounts { return r.accounts }, Feed: new(roster.Feed), Cloud: cloud.URL, Logger: testLogger(t), Now: time.Now,
		delays: delays{restartPause: time.Millisecond, settle: await.Limit, reuse: await.Limit},
	}
	if change != nil {
		change(&opts)
	}
	r.upstream = NewUpstream(opts)
	r.Server = r.upstream.server
	if err := r.upstream.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
		defer cancel()
		if err := r.upstream.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// wants waits until the status is as wanted.
func (r *rig) wants(what string, good func(supervisor.Status) bool) supervisor.Status {
	r.t.Helper()
	for {
		changed, status := r.Changed(), r.Status()
		if good(status) {
			return status
		}
		await.Receive(r.t, changed, what)
	}
}

func ready(s supervisor.Status) bool { return s.State == supervisor.Ready }

// data_dir and workspace may be relative to the directory in which perigee runs. The process runs
// in another one.
func TestRelativePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("project", 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) { o.DataDir, o.Upstream.Workspace = "./data", "project" })
	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	r.wants("a process", ready)
	if _, err := os.Stat(filepath.Join("data", "langserver", "desk", "home", "tmp")); err != nil {
		t.Error(err)
	}
}

// Answers name the account, for traces and usage.
func TestAnswersNameTheAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	u := r.upstream
	if u.Unusable() == "" {
		t.Error("usable without an account")
	}
	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	r.wants("a process", ready)
	if why := u.Unusable(); why != "" {
		t.Errorf("with an account: %s", why)
	}
	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{
			{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("[[text: hello]]")}}},
		}}, nil
	})
	account := ""
	for event, err := range u.Stream(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == perigee.EventStart {
			account = event.Account
		}
	}
	if account != "ada@example.com" {
		t.Errorf("got %q", account)
	}
}

// A failed process makes the upstream unusable until a call may start it again.
func TestUnusableAfterAFailure(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := newRig(t, func(o *Options) {
		o.Upstream.Env = map[string]string{"PERIGEE_STANDIN": "fault=crash-at-start"}
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	u := r.upstream
	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	r.wants("failed", func(s supervisor.Status) bool { return s.State == supervisor.Failed })
	if why := u.Unusable(); !strings.Contains(why, "panic") {
		t.Errorf("at once: %q", why)
	}
	later.Store(int64(time.Minute))
	if why := u.Unusable(); why != "" {
		t.Errorf("a minute later: %q", why)
	}
}

// A process that has failed with a refused token is started again with the next one, before a call
// may start it.
func TestAnotherTokenStartsAFailedProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Upstream.Env = map[string]string{"PERIGEE_STANDIN": "fault=crash-at-start"} })
	before := r.signIn("ada")
	r.accounts.set(before)
	r.Server.signIn.Check()
	failed := r.wants("failed", func(s supervisor.Status) bool { return s.State == supervisor.Failed })
	r.replaceToken(before.Access)
	r.accounts.set(r.signIn("ada"))
	r.Server.signIn.Check()
	r.wants("another start", func(s supervisor.Status) bool { return s.Restarts > failed.Restarts })
}

// The process runs while there is an account.
func TestTheProcessRunsWithAnAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	err := r.Wait(t.Context())
	if failed := perigee.AsError(err); failed.Class != perigee.ClassUnauthenticated || !strings.Contains(failed.Hint, "perigee login --upstream desk") {
		t.Fatalf("without an account: %v (%s)", err, failed.Hint)
	}
	if status := r.Status(); status.State != supervisor.Stopped || status.PID != 0 || status.Account != "" || status.Since.IsZero() {
		t.Errorf("without an account: %+v", status)
	}

	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	first := r.wants("a process", ready)
	if first.Account != "ada@example.com" || first.PID == 0 || first.Profile != "classic" {
		t.Errorf("with an account: %+v", first)
	}
	if models, err := r.client.Models(t.Context()); err != nil || len(models) == 0 {
		t.Errorf("models %v, %v", models, err)
	}

	r.accounts.set()
	r.Server.signIn.Check()
	if status := r.wants("no process", func(s supervisor.Status) bool { return s.State == supervisor.Stopped }); status.Account != "" || status.PID != 0 {
		t.Errorf("the account is gone: %+v", status)
	}
	if err := r.Wait(t.Context()); perigee.AsError(err).Class != perigee.ClassUnauthenticated {
		t.Errorf("the account is gone: %v", err)
	}

	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	if status := r.wants("another process", ready); status.PID == first.PID {
		t.Errorf("the account is back: %+v", status)
	}
}

// A process of profile hub may read its token only once. It is started again after each change, as
// soon as no call is running.
func TestHubIsRestartedWithEachToken(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=hub fault=reads-token-once", "generation=hub2 fault=reads-token-once"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *Options) {
				o.Upstream.Profile, o.Upstream.Env = "hub", map[string]string{standInSettings: settings}
			})
			r.accounts.set(r.signIn("ada"))
			r.Server.signIn.Check()
			first := r.wants("a process", ready)
			if first.Profile != "hub" || first.Version != standInVersion {
				t.Errorf("got %+v", first)
			}
			r.asks("ada@example.com")
			end := r.Begin()
			r.accounts.set(r.signIn("bob"))
			r.Server.signIn.Check()
			if status := r.wants("another account", func(s supervisor.Status) bool { return s.Account == "bob@example.com" }); status.PID != first.PID {
				t.Errorf("restarted during a call: %+v", status)
			}
			end()
			r.wants("another process", func(s supervisor.Status) bool { return ready(s) && s.PID != first.PID })
			r.asks("bob@example.com")
			if status := r.Status(); status.Restarts != 1 {
				t.Errorf("got %+v", status)
			}
		})
	}
}

// A new token, and another account, reach the process as it runs. With an account whose project is
// not known it is started again, as soon as no call is running.
func TestTokensAndAccountsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.accounts.set(r.signIn("ada"))
	r.Server.signIn.Check()
	first := r.wants("a process", ready)
	r.asks("ada@example.com")

	renewed := r.signIn("ada")
	r.accounts.set(renewed)
	r.Server.signIn.Check()
	r.asks("ada@example.com")

	other := r.signIn("bob")
	r.accounts.set(other)
	r.Server.signIn.Check()
	r.asks("bob@example.com") // with the project of bob, or the simulator would refuse it
	if status := r.Status(); status.PID != first.PID || status.Restarts != 0 || status.Account != "bob@example.com" {
		t.Errorf("with another account: %+v", status)
	}

	end := r.Begin()
	unknown := r.signIn("ada")
	unknown.Project = ""
	r.accounts.set(unknown)
	r.Server.signIn.Check()
	status := r.wants("another account", func(s supervisor.Status) bool { return s.Account == "ada@example.com" })
	if status.PID != first.PID {
		t.Errorf("restarted during a call: %+v", status)
	}
	before := len(r.cloud.Calls())
	end()
	r.wants("another process", func(s supervisor.Status) bool { return ready(s) && s.PID != first.PID })
	await.Until(t, "the models of the other process", func() bool {
		return slices.ContainsFunc(r.cloud.Calls()[before:], func(c simulator.Call) bool { return strings.HasSuffix(c.Path, ":fetchUserInfo") })
	})
	r.asks("ada@example.com")
	if status := r.Status(); status.Restarts != 1 {
		t.Errorf("with an unknown project: %+v", status)
	}
}

// signIn gets an access token of the simulator.
func (r *rig) signIn(name string) roster.Credential {
	r.t.Helper()
	answer, err := http.PostForm(r.opts.Cloud+"/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {"test"}, "client_secret": {"test"}, "refresh_token": {"sim-refresh-" + name}})
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&token); err != nil || token.Access == "" {
		r.t.Fatalf("no token: %v", err)
	}
	c := credential(name+"@example.com", "sim-project-"+name)
	c.Access = perigee.NewSecret(token.Access)
	return c
}

// asks has conversations until the simulator is called by an account. It must refuse no call.
func (r *rig) asks(account string) {
	r.t.Helper()
	before := len(r.cloud.Calls())
	await.Until(r.t, "a call of "+account, func() bool {
		r.ask("for " + account)
		return slices.ContainsFunc(r.cloud.Calls()[before:], func(c simulator.Call) bool {
			return strings.HasSuffix(c.Path, ":streamGenerateContent") && c.Account == account && c.Status == http.StatusOK
		})
	})
	for _, c := range r.cloud.Calls()[before:] {
		if c.Rule != "" {
			r.t.Errorf("the simulator refused %s of %s: %s", c.Path, c.Account, c.Rule)
		}
	}
}

// ask has the model repeat a text.
func (r *rig) ask(text string) {
	r.t.Helper()
	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{
			{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("[[text: " + text + "]]")}}},
		}}, nil
	})
	var got strings.Builder
	for event, err := range r.upstream.Stream(r.t.Context(), request) {
		if err != nil {
			r.t.Fatal(err)
		}
		if event.Kind == perigee.EventText {
			got.WriteString(event.Text)
		}
	}
	if got.String() != text {
		r.t.Errorf("got %q, want %q", got.String(), text)
	}
}

// A binary that cannot be used is a failure with a reason. After a minute a call tries again.
func TestABinaryThatCannotBeUsed(t *testing.T) { // not parallel: a file that was just written is busy while a program is started
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	binary := filepath.Join(t.TempDir(), "language_server")
	r := newRig(t, func(o *Options) {
		o.Upstream.Binary, o.Now = binary, clock
	})
	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	status := r.wants("a failure", func(s supervisor.Status) bool { return s.State == supervisor.Failed })
	if !strings.Contains(status.LastExit, binary) {
		t.Errorf("%+v", status)
	}
	failed := perigee.AsError(r.Wait(t.Context()))
	if failed.Class != perigee.ClassUnavailable || failed.Retry <= 0 || failed.Hint == "" {
		t.Errorf("%+v", failed)
	}

	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec '"+os.Args[0]+"' simulate langserver \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(t.Context()); err == nil {
		t.Error("tried again at once")
	}
	mu.Lock()
	now = now.Add(retryLaunch)
	mu.Unlock()
	if err := r.Wait(t.Context()); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

// TestACallNeverFindsTheProcessStopped has calls wait while the account comes and goes. Each gets
// the language server, or the reason why there is no account.
func TestACallNeverFindsTheProcessStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Upstream.Profile = "hub" })
	for range 3 {
		r.accounts.set(credential("ada@example.com", "p"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r.Server.signIn.Check()
		for {
			err := r.Wait(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil || strings.Contains(err.Error(), "is stopped") {
				t.Fatal(err)
			}
		}
		cancel()
		r.accounts.set()
		r.Server.signIn.Check()
		r.wants("stopped", func(s supervisor.Status) bool { return s.State == supervisor.Stopped })
	}
}
