package roster

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
	"perigee/internal/testing/perigeetest/await"
)

// A rig is a roster with the provider's stand-in, and a clock that is moved by hand.
type rig struct {
	*Roster
	t        *testing.T
	provider *simulator.Server
	sealer   *gatedSealer
	passed   time.Duration
}

// A gatedSealer opens tokens. While a gate is set, it says that it was asked and waits for the gate
// to be closed.
type gatedSealer struct {
	sqlstore.Sealer
	opened atomic.Int64
	asked  chan struct{}
	gate   atomic.Pointer[chan struct{}]
	ended  <-chan struct{} // with the test
}

func (g *gatedSealer) Open(sealed string, owner ...string) (perigee.Secret, error) {
	g.opened.Add(1)
	if gate := g.gate.Load(); gate != nil {
		g.asked <- struct{}{}
		select {
		case <-*gate:
		case <-g.ended:
		}
	}
	return g.Sealer.Open(sealed, owner...)
}

func newRig(t *testing.T, emails ...string) *rig {
	t.Helper()
	d := &rig{t: t}
	start := time.Now()
	opts := Options{Now: func() time.Time { return start.Add(d.passed) }, UserAgent: "perigee/test", Feed: &Feed{}, Logger: slog.New(slog.DiscardHandler)}
	dir := t.TempDir()
	key, err := vault.Open(t.Context(), vault.Options{Dir: dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "perigee.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if d.provider, err = simulator.New(simulator.Options{Now: opts.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.provider.Close() })
	u := config.Upstream{Name: "gravity", Endpoints: []string{"https://gateway.example"}, OAuth: config.OAuth{
		TokenURL: "https://oauth2.googleapis.com/token", UserinfoURL: "https://www.googleapis.com/oauth2/v2/userinfo",
		ClientID: "client", ClientSecret: perigee.NewSecret("client-secret-of-the-test")}}
	d.sealer = &gatedSealer{Sealer: key, asked: make(chan struct{}, 1), ended: t.Context().Done()}
	opts.Transport = d.provider.Transport()
	if d.Roster, err = New(t.Context(), u, store.Accounts(d.sealer), opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	for _, email := range emails {
		name, _, _ := strings.Cut(email, "@")
		d.add(email, "sim-refresh-"+name)
	}
	return d
}

// add brings an account in, or signs it in anew.
func (d *rig) add(email, refresh string) {
	d.t.Helper()
	_, err := d.store.AddSignIns(d.t.Context(), []perigee.SignIn{{Account: perigee.Account{Email: email, Upstream: "gravity", Enabled: true, ProjectID: "p"},
		Refresh: perigee.NewSecret(refresh)}})
	if err == nil {
		err = d.load(d.t.Context())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *rig) remove(email string) {
	d.t.Helper()
	_, err := d.store.RemoveSignIn(d.t.Context(), "gravity", email)
	if err == nil {
		err = d.load(d.t.Context())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// stopped has a state stored.
func (d *rig) stopped(stop pool.Stop) {
	d.stops.add(stop)
	await.Return(d.t, d.stops.running.Wait, "the stop to be stored")
}

// only is the one account there is, as it is stored when everything that was found out about it is.
func (d *rig) only() perigee.SignIn {
	d.t.Helper()
	await.Return(d.t, d.stops.running.Wait, "the stops to be stored")
	list, err := d.store.SignIns(d.t.Context(), "gravity")
	if err != nil || len(list) != 1 {
		d.t.Fatalf("got %+v, %v", list, err)
	}
	return list[0]
}

func (d *rig) lend() pool.Lease {
	d.t.Helper()
	l, err := d.pool.Acquire(pool.Request{Model: "gemini-3-flash"}).Next(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

func banned() *providererr.Diagnosis {
	return &providererr.Diagnosis{Kind: providererr.KindBan, Scope: providererr.ScopeAccount, Error: perigee.Errorf(perigee.ClassForbidden, "the account is disabled")}
}

const ada = "ada@example.com"

// News about an account is kept, and news about a sign-in that was replaced meanwhile is not.
func TestOldNewsLeavesANewSignInAlone(t *testing.T) {
	d := newRig(t, ada)
	old := d.lend()
	d.add(ada, "sim-refresh-ada-2")
	old.Done(banned())
	if got := d.only(); got.State != perigee.AccountReady || !got.Refresh.Equal("sim-refresh-ada-2") {
		t.Errorf("the new sign-in is %s (%s)", got.State, got.Reason)
	}
	// The pool may know less than the store: another process has signed the account in.
	read := d.only().Generation
	if _, err := d.store.AddSignIns(t.Context(), []perigee.SignIn{{Account: perigee.Account{Email: ada, Upstream: "gravity"}, Refresh: perigee.NewSecret("sim-refresh-ada-3")}}); err != nil {
		t.Fatal(err)
	}
	d.stopped(pool.Stop{Email: ada, State: perigee.AccountBanned, Reason: "old", Generation: read})
	if got := d.only(); got.State != perigee.AccountReady {
		t.Errorf("the sign-in of another process is %s (%s)", got.State, got.Reason)
	}
	d.stopped(pool.Stop{Email: ada, State: perigee.AccountBanned, Reason: "new", Generation: d.only().Generation})
	if got := d.only(); got.State != perigee.AccountBanned || got.Reason != "new" {
		t.Errorf("what is true was not kept: %s (%s)", got.State, got.Reason)
	}
}

// The row of an account changes with its first call, in more ways than one, and that is no reason
// to miss the news.
func TestNewsAfterTheFirstCallIsKept(t *testing.T) {
	d := newRig(t)
	if _, err := d.store.AddSignIns(t.Context(), []perigee.SignIn{{Account: perigee.Account{Email: ada, Upstream: "gravity", Enabled: true, State: perigee.AccountUntested},
		Refresh: perigee.NewSecret("sim-refresh-ada")}}); err != nil {
		t.Fatal(err)
	}
	if err := d.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease := d.lend()
	if got := d.only(); got.State != perigee.AccountReady || got.ProjectID != "sim-project-ada" || lease.Account().Project != got.ProjectID {
		t.Fatalf("got %+v", got)
	}
	if got := d.pool.Status()[0].State; got != perigee.AccountReady {
		t.Errorf("the pool says that it is %s", got)
	}
	lease.Done(banned())
	if got := d.only(); got.State != perigee.AccountBanned {
		t.Errorf("it is %s", got.State)
	}
}

// A daemon that runs for months keeps no sources of accounts that were removed.
func TestRetiredSourcesAreLetGo(t *testing.T) {
	d := newRig(t, ada)
	for i := range 5 {
		d.add(ada, fmt.Sprint("sim-refresh-ada-", i))
	}
	if n := len(d.retired); n > 0 {
		t.Errorf("%d replaced ones are kept", n)
	}
	for i := range maxRetired + 5 {
		email := fmt.Sprintf("p%d@example.com", i)
		d.add(email, "sim-refresh-"+email)
		d.remove(email)
	}
	if n := len(d.retired); n > maxRetired {
		t.Errorf("%d removed ones are kept", n)
	}
	d.passed += retiredFor
	if err := d.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(d.retired); n > 0 {
		t.Errorf("%d are kept for ever", n)
	}
}

// quotaAsked is a QuotaReporter that sends on which account it was asked about.
type quotaAsked chan string

func (q quotaAsked) QuotaOf(_ context.Context, s pool.Source, _ bool) ([]perigee.QuotaRow, error) {
	q <- s.SignIn().Email
	return nil, nil
}

// A store that takes long to answer a load holds up no call: neither one that only needs a token
// nor one that also starts a look at the quota.
func TestCallsGoOnWhileTheStoreIsSlow(t *testing.T) {
	d := newRig(t, ada, "bob@example.com")
	asked := make(quotaAsked, 10)
	d.ReadQuotaFrom(asked, true)
	token := func() {
		t.Helper()
		lease, err := d.pool.Acquire(pool.Request{Model: "gemini-3-flash"}).Next(t.Context())
		if err == nil {
			_, err = lease.Token(t.Context())
			lease.Done(nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	gate, loaded := make(chan struct{}), make(chan error, 1)
	d.sealer.gate.Store(&gate)
	go func() { loaded <- d.load(t.Context()) }()
	await.Receive(t, d.sealer.asked, "the store") // the load is inside the store
	d.sealer.gate.Store(nil)
	calls := make(chan struct{})
	go func() {
		defer close(calls)
		token() // the first also starts a look at the quota
		token()
	}()
	await.Receive(t, calls, "calls that do not wait for the store")
	close(gate)
	if err := await.Receive(t, loaded, "the load"); err != nil {
		t.Error(err)
	}
	if email := await.Receive(t, asked, "a request for quota"); email != ada {
		t.Errorf("the quota of %s was read", email)
	}
}

// The call that meets a ban does not wait until it is stored, and closing the roster does. What a
// call finds out after that is stored, too.
func TestBanIsStoredOutsideTheCall(t *testing.T) {
	d := newRig(t, ada, "bob@example.com")
	lease := d.lend()
	gate := make(chan struct{})
	d.sealer.gate.Store(&gate)
	over := make(chan struct{})
	go func() { lease.Done(banned()); close(over) }()
	await.Receive(t, over, "the call, which does not wait for the store")
	await.Receive(t, d.sealer.asked, "the store") // the state is on its way to the store, which is slow
	d.sealer.gate.Store(nil)
	closed := make(chan struct{})
	go func() { d.Close(); close(closed) }()
	close(gate)
	await.Receive(t, closed, "the roster to close")
	state := func(email string) string {
		s, found, err := d.store.SignIn(t.Context(), "gravity", email)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return s.State
	}
	if got := state(ada); got != perigee.AccountBanned {
		t.Errorf("%s is %s", ada, got)
	}
	d.stops.add(pool.Stop{Email: "bob@example.com", State: perigee.AccountBanned, Generation: d.all()[1].SignIn().Generation})
	if got := state("bob@example.com"); got != perigee.AccountBanned {
		t.Errorf("after the end bob is %s", got)
	}
}

// An account that is added again soon takes over for the source that calls still use.
func TestRetiredSourceHandsOverForAWhile(t *testing.T) {
	d := newRig(t, ada)
	old := d.lend()
	token, err := old.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.remove(ada)
	d.passed += retiredFor / 2
	d.add(ada, "sim-refresh-ada")
	old.Refused(token)
	if _, err := old.Token(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(d.retired); n > 0 {
		t.Errorf("%d are kept although they are replaced", n)
	}
}

// A new sign-in does not wait for the pause that other accounts have caused.
func TestNewSignInsEndThePause(t *testing.T) {
	d := newRig(t, ada, "bob@example.com", "cyd@example.com")
	if err := d.provider.AddFaults(simulator.Fault{When: simulator.When{Path: "/token"}, Do: "invalid_grant", Times: 2}); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		if _, err := d.pool.Acquire(pool.Request{Model: "gemini-3-flash"}).Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	refused("2 accounts cannot be signed in for the same cause")
	refused("2 accounts were refused by the sign-in server for the same cause")
	var states []string
	for _, a := range d.pool.Status() {
		states = append(states, a.State)
	}
	if got := strings.Join(states, " "); got != "signed_out signed_out ready" {
		t.Errorf("they are %s", got)
	}
	d.add("dan@example.com", "sim-refresh-dan") // the provider does not know this account
	if got := d.lend().Account().Email; got != "cyd@example.com" {
		t.Errorf("lent %s", got)
	}
}

// A state that a call has found is in the store, in the source and in the pool.
func TestStopReachesStoreAndSource(t *testing.T) {
	d := newRig(t, ada)
	d.lend().Done(banned())
	kept, seen, status := d.only(), d.all()[0].SignIn(), d.status()[ada]
	for where, state := range map[string]string{"the store": kept.State, "the source": seen.State, "the pool": status.State} {
		if state != perigee.AccountBanned {
			t.Errorf("%s says %s", where, state)
		}
	}
	if kept.Reason != seen.Reason || kept.Reason != status.Reason || kept.Generation != seen.Generation {
		t.Errorf("the reasons are %q, %q and %q", kept.Reason, seen.Reason, status.Reason)
	}
}
