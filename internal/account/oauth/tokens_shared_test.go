package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// leasing is a memory that several Tokens share as replicas share a database.
type leasing struct {
	*memory
	turn   chan struct{}
	broken error
}

func newLeasing(list ...perigee.SignIn) *leasing {
	return &leasing{memory: newMemory(list...), turn: make(chan struct{}, 1)}
}

func (l *leasing) LeaseRefresh(ctx context.Context, _, _ string) (func(), error) {
	if l.broken != nil {
		return nil, l.broken
	}
	select {
	case l.turn <- struct{}{}:
		return func() {
			select {
			case <-l.turn:
			default:
				panic("the lease was released twice")
			}
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// thefts counts the refresh tokens that come to the provider more than once, which it would take
// for theft.
type thefts struct {
	next http.RoundTripper
	mu   sync.Mutex
	used map[string]int
}

func (th *thefts) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("grant_type") == "refresh_token" {
			th.mu.Lock()
			th.used[form.Get("refresh_token")]++
			th.mu.Unlock()
		}
	}
	return th.next.RoundTrip(req)
}

// watch makes a client whose refreshes are counted.
func (r *rig) watch() (*Client, *thefts) {
	th := &thefts{next: r.options.Transport, used: map[string]int{}}
	options := r.options
	options.Transport = th
	return NewClient(options), th
}

// storm has replicas that lose their access tokens at the same time, again and again.
func storm(t *testing.T, r *rig, rounds int, th *thefts, replicas ...*Tokens) {
	t.Helper()
	for range rounds {
		var all sync.WaitGroup
		for _, tokens := range replicas {
			for range 4 { // one refresh for all waiting calls
				all.Go(func() {
					token, err := tokens.Token(t.Context())
					if err != nil || !r.works(token) {
						t.Errorf("got a token that does not work, or %v", err)
					}
				})
			}
		}
		await.Return(t, all.Wait, "the replicas")
		for _, tokens := range replicas {
			tokens.Refused(tokens.token.access)
		}
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	for token, times := range th.used {
		if times > 1 {
			t.Errorf("%s was used %d times", token, times)
		}
	}
	if want := rounds * len(replicas); len(th.used) != want {
		t.Errorf("%d refreshes, want %d", len(th.used), want)
	}
}

func TestReplicasNeverUseARefreshTokenTwice(t *testing.T) {
	r := newRig(t, simulator.Script{RotateRefreshTokens: true})
	client, th := r.watch()
	store := newLeasing(ada())
	one, two := NewTokens(client, store, store.only()), NewTokens(client, store, store.only())
	defer one.Close()
	defer two.Close()
	storm(t, r, 10, th, one, two)
	if _, err := client.Refresh(t.Context(), store.only().Refresh); err != nil {
		t.Errorf("what is stored in the end is not accepted: %v", err)
	}
}

func TestNoTurnNoRefresh(t *testing.T) {
	r := newRig(t, simulator.Script{RotateRefreshTokens: true})
	client, th := r.watch()
	store := newLeasing(ada())
	tokens := NewTokens(client, store, store.only())
	defer tokens.Close()
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.broken = perigee.Errorf(perigee.ClassUnavailable, "the database is away")
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Errorf("a token that is good is not given out: %v", err)
	}
	tokens.Refused(tokens.token.access)
	_, err := tokens.Token(t.Context())
	wantClass(t, err, perigee.ClassUnavailable)
	if len(th.used) != 1 {
		t.Errorf("%d refreshes although the rotated token could not have been kept", len(th.used))
	}
	store.broken = nil
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// What a replica hears of another's rotation leaves its own access token alone, and counts at its
// next refresh.
func TestAdoptKeepsTheAccessToken(t *testing.T) {
	r := newRig(t, simulator.Script{RotateRefreshTokens: true})
	client, th := r.watch()
	store := newLeasing(ada())
	one, two := NewTokens(client, store, store.only()), NewTokens(client, store, store.only())
	defer one.Close()
	defer two.Close()
	first, err := one.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.Adopt(store.only())
	if again, err := one.Token(t.Context()); err != nil || again != first || len(th.used) != 2 {
		t.Errorf("another access token, or %v, after %d refreshes", err, len(th.used))
	}
	if !one.SignIn().Refresh.Equal(store.only().Refresh.Reveal()) {
		t.Error("the rotated token was not taken over")
	}
	old := store.only()
	old.Generation--
	old.Refresh = perigee.NewSecret("older")
	one.Adopt(old)
	if one.SignIn().Refresh.Equal("older") {
		t.Error("something older was taken over")
	}
}

// An account that was signed out here comes back with the sign-in that another replica was given.
func TestAdoptEndsARefusal(t *testing.T) {
	r := newRig(t, simulator.Script{})
	store := newLeasing(ada())
	store.edit(func(s *perigee.SignIn) { s.Refresh = perigee.NewSecret("revoked") })
	tokens := NewTokens(r.client, store, store.only())
	defer tokens.Close()
	for range 2 {
		_, err := tokens.Token(t.Context())
		if refusal, ok := errors.AsType[*Refusal](err); !ok {
			t.Fatalf("got %v (%v)", err, refusal)
		}
	}
	store.edit(func(s *perigee.SignIn) {
		s.Refresh, s.State = perigee.NewSecret("sim-refresh-ada"), perigee.AccountReady
	})
	tokens.Adopt(store.only())
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReplicasOnPostgres is the same storm with the real store, each replica with connections of
// its own.
func TestReplicasOnPostgres(t *testing.T) {
	address := dbtest.Postgres(t)
	r := newRig(t, simulator.Script{RotateRefreshTokens: true})
	client, th := r.watch()
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	key, err := vault.Open(t.Context(), vault.Options{Given: perigee.NewSecret(base64.StdEncoding.EncodeToString(raw))})
	if err != nil {
		t.Fatal(err)
	}
	var accounts []*sqlstore.Accounts
	for range 3 {
		store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: perigee.NewSecret(address)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		accounts = append(accounts, store.Accounts(key))
	}
	if _, err := accounts[0].AddSignIns(t.Context(), []perigee.SignIn{ada()}); err != nil {
		t.Fatal(err)
	}
	only := func(a *sqlstore.Accounts) perigee.SignIn {
		list, err := a.SignIns(t.Context(), "")
		if err != nil || len(list) != 1 {
			t.Fatalf("got %v, %v", list, err)
		}
		return list[0]
	}
	var replicas []*Tokens
	for _, a := range accounts {
		tokens := NewTokens(client, a, only(a))
		defer tokens.Close()
		replicas = append(replicas, tokens)
	}
	storm(t, r, 20, th, replicas...)
	if _, err := client.Refresh(t.Context(), only(accounts[2]).Refresh); err != nil {
		t.Errorf("what is stored in the end is not accepted: %v", err)
	}
}
