package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/models"
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
	r.Pool = NewPool(opts)
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

// take borrows an account, which must succeed.
func (r *poolRig) take(want Want) Loan {
	r.t.Helper()
	l, err := r.Lend(r.t.Context(), want)
	if err != nil {
		r.t.Fatalf("lend for %+v: %v", want, err)
	}
	return l
}

// ask borrows an account, gives it back with a verdict and says which it was, with a + when it was the other pool.
func (r *poolRig) ask(want Want, v *Verdict) string {
	r.t.Helper()
	l := r.take(want)
	l.Done(v)
	return name(l)
}

func name(l Loan) string {
	if l.CLI() {
		return l.Email() + "+"
	}
	return l.Email()
}

// asks makes calls that are answered.
func (r *poolRig) asks(want Want, times int) (names string) {
	r.t.Helper()
	for range times {
		names += r.ask(want, nil)
	}
	return names
}

// refused is the error of a Lend that must fail.
func (r *poolRig) refused(want Want) *perigee.Error {
	r.t.Helper()
	l, err := r.Lend(r.t.Context(), want)
	if err == nil {
		r.t.Fatalf("%s was lent (%s)", l.Email(), l.Why())
	}
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok {
		r.t.Fatalf("%T: %v", err, err)
	}
	return e
}

func (r *poolRig) sees(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

var (
	flash  = Want{Model: "gemini-3-flash", Family: models.Gemini}
	opus   = Want{Model: "claude-opus-4-6-thinking", Family: models.Claude}
	oss    = Want{Model: "gpt-oss-120b-medium", Family: models.GPTOSS}
	banana = Want{Model: "gemini-3-pro-image", Family: models.Image}
)

func in(session string, w Want) Want { w.Session = session; return w }
func tried(times int, w Want) Want   { w.Tried = times; return w }

// verdict is what Classify would say, with a delay.
func verdict(kind Kind, delay time.Duration) *Verdict {
	m := meanings[kind]
	return &Verdict{Kind: kind, Blame: m.blame, NextHost: m.nextHost, Delay: delay,
		Error: &perigee.Error{Class: m.class, Message: m.says + ": as it said", Next: m.next, Retry: delay}}
}

// fault is trouble of the provider's own at all its endpoints.
func fault(kind Kind) *Verdict {
	v := verdict(kind, 0)
	v.Blame = ScopeProvider
	return v
}

func onlyAntigravity(o Options) Options {
	o.Pools = []string{PoolAntigravity}
	return o
}

// passes lets time pass in a synctest bubble.
func passes(d time.Duration) { <-time.After(d) }

func restOf(account Standing) (list string) {
	for _, c := range account.Cooldowns {
		list += fmt.Sprintf("[%s %s %s]", c.Family, c.Pool, c.Reason)
	}
	return list
}
