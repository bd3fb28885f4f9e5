package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
)

// fakeSource is a sign-in whose token is always good, unless err says otherwise.
type fakeSource struct {
	mu      sync.Mutex
	signIn  perigee.SignIn
	err     error
	refused int
}

func newSource(name string) *fakeSource {
	return &fakeSource{signIn: perigee.SignIn{Account: perigee.Account{
		Email: name, Upstream: "antigravity", Enabled: true, ProjectID: "project-" + name, State: perigee.AccountReady}, Generation: 7}}
}

func (s *fakeSource) SignIn() perigee.SignIn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signIn
}

func (s *fakeSource) Token(ctx context.Context) (perigee.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return perigee.Secret{}, s.err
	}
	return perigee.NewSecret("token of " + s.signIn.Email), ctx.Err()
}

func (s *fakeSource) Refused(perigee.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
}

func (s *fakeSource) change(f func(*perigee.SignIn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.signIn)
}

func (s *fakeSource) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// poolRig is a pool with accounts that are called a, b, c …
type poolRig struct {
	*Pool
	t       testing.TB
	sources []*fakeSource
	states  []string // what OnState was told
}

func newPoolRig(t testing.TB, accounts int, opts Options) *poolRig {
	r := &poolRig{t: t}
	opts.OnState = func(s Stop) { r.states = append(r.states, s.Email+" "+s.State) }
	r.Pool = New(opts)
	for i := range accounts {
		r.sources = append(r.sources, newSource(string(rune('a'+i))))
	}
	r.announce()
	return r
}

// announce tells the pool that accounts have changed.
func (r *poolRig) announce() {
	var list []Source
	for _, s := range r.sources {
		list = append(list, s)
	}
	r.SetSources(list)
}

func (r *poolRig) enable(i int, on bool) {
	r.sources[i].change(func(s *perigee.SignIn) { s.Enabled = on })
	r.announce()
}

// A caller is a call that may ask several accounts.
type caller struct {
	Acquisition
	t testing.TB
}

func (r *poolRig) caller(want Request) caller { return caller{r.Acquire(want), r.t} }

// take borrows an account, which must succeed.
func (b caller) take() Lease {
	b.t.Helper()
	l, err := b.Next(b.t.Context())
	if err != nil {
		b.t.Fatalf("lend: %v", err)
	}
	return l
}

// ask borrows an account, gives it back with a verdict and says which it was, with a + when it was
// the other pool.
func (b caller) ask(v *providererr.Diagnosis) string {
	b.t.Helper()
	l := b.take()
	l.Done(v)
	return name(l)
}

// refused is the error of a Next that must fail.
func (b caller) refused() *perigee.Error {
	b.t.Helper()
	l, err := b.Next(b.t.Context())
	if err == nil {
		b.t.Fatalf("%s was lent (%s)", l.Account().Email, l.Account().Why)
	}
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok {
		b.t.Fatalf("%T: %v", err, err)
	}
	return e
}

// The same for calls that ask one account.
func (r *poolRig) take(want Request) Lease {
	r.t.Helper()
	return r.caller(want).take()
}

func (r *poolRig) ask(want Request, v *providererr.Diagnosis) string {
	r.t.Helper()
	return r.caller(want).ask(v)
}

func (r *poolRig) refused(want Request) *perigee.Error {
	r.t.Helper()
	return r.caller(want).refused()
}

func name(l Lease) string {
	if l.Account().CLI {
		return l.Account().Email + "+"
	}
	return l.Account().Email
}

// asks makes calls that are answered.
func (r *poolRig) asks(want Request, times int) (names string) {
	r.t.Helper()
	for range times {
		names += r.ask(want, nil)
	}
	return names
}

func (r *poolRig) sees(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

var (
	flash  = Request{Model: "gemini-3-flash", Family: models.Gemini}
	opus   = Request{Model: "claude-opus-4-6-thinking", Family: models.Claude}
	oss    = Request{Model: "gpt-oss-120b-medium", Family: models.GPTOSS}
	banana = Request{Model: "gemini-3-pro-image", Family: models.Image}
)

func in(session string, w Request) Request { w.Session = session; return w }

// judged is what Classify would say, with a delay.
func judged(kind providererr.Kind, delay time.Duration) *providererr.Diagnosis {
	v := providererr.New(kind, "as it said", delay, time.Now())
	v.Delay, v.Error.Retry = delay, delay
	return &v
}

// fault is trouble of the provider's own at all its endpoints.
func fault(kind providererr.Kind) *providererr.Diagnosis {
	v := judged(kind, 0)
	v.Scope = providererr.ScopeProvider
	return v
}

func onlyAntigravity(o Options) Options {
	o.Pools = []string{PoolAntigravity}
	return o
}

// passes lets time pass in a synctest bubble.
func passes(d time.Duration) { <-time.After(d) }

func restOf(account Status) (list string) {
	for _, c := range account.Cooldowns {
		list += fmt.Sprintf("[%s %s %s]", c.Family, c.Pool, c.Reason)
	}
	return list
}
