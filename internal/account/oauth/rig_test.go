package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is the provider's stand-in with a client of ours.
type rig struct {
	t        *testing.T
	provider *simulator.Server
	client   *Client
	options  Options
	pace     time.Duration // how long the way to the provider takes

	mu   sync.Mutex
	sent []*url.URL // what went to the provider, in order
}

func newRig(t *testing.T, script simulator.Script) *rig {
	t.Helper()
	provider, err := simulator.New(simulator.Options{Script: &script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	r := &rig{t: t, provider: provider}
	transport := provider.Transport()
	r.options = Options{
		AuthURL: "https://accounts.google.com/o/oauth2/v2/auth", TokenURL: "https://oauth2.googleapis.com/token",
		UserinfoURL: "https://www.googleapis.com/oauth2/v2/userinfo",
		ClientID:    "client", ClientSecret: perigee.NewSecret("client-secret-of-the-test"), Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			r.mu.Lock()
			r.sent = append(r.sent, req.URL)
			r.mu.Unlock()
			if r.pace > 0 {
				pass(r.pace)
			}
			return transport.RoundTrip(req)
		}),
	}
	r.client = NewClient(r.options)
	return r
}

// asked is how many calls there were to a path, whatever came of them.
func (r *rig) asked(path string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.sent {
		if strings.HasSuffix(u.Path, path) {
			n++
		}
	}
	return n
}

func (r *rig) fault(path, do string, times int) {
	r.t.Helper()
	r.faults(simulator.Fault{When: simulator.When{Path: path}, Do: do, Times: times})
}

func (r *rig) faults(faults ...simulator.Fault) {
	r.t.Helper()
	if err := r.provider.AddFaults(faults...); err != nil {
		r.t.Fatal(err)
	}
}

// access is an access token for the account of a refresh token.
func (r *rig) access(refresh string) perigee.Secret {
	r.t.Helper()
	grant, err := r.client.Refresh(r.t.Context(), perigee.NewSecret(refresh))
	if err != nil {
		r.t.Fatal(err)
	}
	return grant.Access
}

// works reports whether the provider takes an access token.
func (r *rig) works(access perigee.Secret) bool {
	_, err := r.client.Email(context.Background(), access)
	return err == nil
}

func wantClass(t *testing.T, err error, class perigee.Class) *perigee.Error {
	t.Helper()
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || e.Class != class {
		t.Fatalf("got error %v, want one of class %s", err, class)
	}
	for _, secret := range []string{"client-secret-of-the-test", "sim-refresh", "sim-access", "sim-code"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error gives a secret away: %v", err)
		}
	}
	return e
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// memory is an AccountStore whose writes a test can hold up or break.
type memory struct {
	mu     sync.Mutex
	list   []perigee.SignIn
	last   int64
	writes int
	broken error         // what ChangeSignIn answers; nil means it works
	before func()        // runs before each ChangeSignIn, without the lock
	hold   chan struct{} // ChangeSignIn waits for it to close
}

func newMemory(list ...perigee.SignIn) *memory {
	m := &memory{}
	for i := range list {
		m.last++
		list[i].Generation = m.last
	}
	m.list = list
	return m
}

func (m *memory) SignIn(_ context.Context, upstream, email string) (perigee.SignIn, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.list {
		if s.Upstream == upstream && s.Email == email {
			return s, true, nil
		}
	}
	return perigee.SignIn{}, false, nil
}

func (m *memory) ChangeSignIn(ctx context.Context, s perigee.SignIn) (int64, error) {
	if m.before != nil {
		m.before()
	}
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if m.broken != nil {
		return 0, m.broken
	}
	i := slices.IndexFunc(m.list, func(o perigee.SignIn) bool {
		return o.Upstream == s.Upstream && o.Email == s.Email && o.Generation == s.Generation
	})
	if i < 0 {
		return 0, perigee.ErrAccountChanged
	}
	m.last++
	s.Generation = m.last
	m.list[i] = s
	return s.Generation, nil
}

func (m *memory) RemoveSignIn(_ context.Context, upstream, email string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.list)
	m.list = slices.DeleteFunc(m.list, func(s perigee.SignIn) bool { return s.Upstream == upstream && s.Email == email })
	return len(m.list) < n, nil
}

// edit changes the only account behind everybody's back.
func (m *memory) edit(change func(*perigee.SignIn)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.list[0].Generation = m.last
	change(&m.list[0])
}

func (m *memory) only() perigee.SignIn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list[0]
}

func ada() perigee.SignIn {
	return perigee.SignIn{Account: perigee.Account{Email: "ada@example.com", Upstream: "antigravity", Enabled: true, State: perigee.AccountReady},
		Refresh: perigee.NewSecret("sim-refresh-ada")}
}

// pass lets time go by in a bubble.
func pass(d time.Duration) { <-time.After(d) }
