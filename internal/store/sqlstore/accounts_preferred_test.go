package sqlstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

func mustPrefer(t testing.TB, a *Accounts, email string) {
	t.Helper()
	if err := a.PreferSignIn(context.Background(), "antigravity", email); err != nil {
		t.Fatal(err)
	}
}

// wantOrder checks the order of the accounts of an upstream, and that only the first one is
// preferred, if marked.
func wantOrder(t *testing.T, a *Accounts, upstream string, marked bool, want ...string) {
	t.Helper()
	list := mustSignIns(t, a, upstream)
	if got := emails(list); !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	for i, s := range list {
		if s.Preferred != (marked && i == 0) {
			t.Errorf("place %d, %s: preferred %v", i, s.Email, s.Preferred)
		}
	}
}

func testAccountPreferred(t *testing.T, a *Accounts) {
	late := signIn("d@example.com", "t")
	late.Added, late.Preferred = noon.Add(time.Hour), true
	mustAdd(t, a, signIn("a@example.com", "t"), signIn("b@example.com", "t"), signIn("c@example.com", "t"), late)
	wantOrder(t, a, "antigravity", false, "a@example.com", "b@example.com", "c@example.com", "d@example.com")
	mustPrefer(t, a, " C@Example.com")
	wantOrder(t, a, "antigravity", true, "c@example.com", "a@example.com", "b@example.com", "d@example.com")
	mustPrefer(t, a, "d@example.com")
	mustPrefer(t, a, "d@example.com") // twice is once
	wantOrder(t, a, "antigravity", true, "d@example.com", "a@example.com", "b@example.com", "c@example.com")
	if got := mustSignIns(t, a, "antigravity")[0].Added; !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("the time at which it was added became %v", got)
	}

	// An unknown account does not change which one is preferred.
	if err := a.PreferSignIn(t.Context(), "antigravity", "nobody@example.com"); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("got %v", err)
	}
	wantOrder(t, a, "antigravity", true, "d@example.com", "a@example.com", "b@example.com", "c@example.com")

	// The mark goes with its account, and does not come back with the address.
	mustRemove(t, a, "d@example.com")
	wantOrder(t, a, "antigravity", false, "a@example.com", "b@example.com", "c@example.com")
	mustAdd(t, a, late)
	wantOrder(t, a, "antigravity", false, "a@example.com", "b@example.com", "c@example.com", "d@example.com")
}

func testAccountPreferredOnce(t *testing.T, a *Accounts) {
	desk := signIn("b@example.com", "t")
	desk.Upstream = "desk"
	mustAdd(t, a, signIn("a@example.com", "t"), signIn("b@example.com", "t"), desk)
	mustPrefer(t, a, "b@example.com")
	if err := a.PreferSignIn(t.Context(), "desk", "b@example.com"); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, a, "antigravity", true, "b@example.com", "a@example.com")
	wantOrder(t, a, "desk", true, "b@example.com")
	if got := emails(mustSignIns(t, a, "")); !slices.Equal(got, []string{"b@example.com", "b@example.com", "a@example.com"}) {
		t.Errorf("of all upstreams: %v", got)
	}
	// The database itself sees to it.
	if _, err := a.store.db.Write.ExecContext(t.Context(), `UPDATE accounts SET preferred = TRUE`); err == nil {
		t.Error("two accounts of one upstream could be preferred")
	}
}

func testAccountPreferredRace(t *testing.T, a *Accounts) {
	names := []string{"a@example.com", "b@example.com", "c@example.com", "d@example.com"}
	for _, name := range names {
		mustAdd(t, a, signIn(name, "t"))
	}
	for range 5 {
		var racing sync.WaitGroup
		for _, name := range names {
			racing.Go(func() {
				if err := a.PreferSignIn(context.Background(), "antigravity", name); err != nil {
					t.Error(err)
				}
			})
		}
		await.Return(t, racing.Wait, "the changes")
		list := mustSignIns(t, a, "antigravity")
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == list[0].Email })
		wantOrder(t, a, "antigravity", true, append([]string{list[0].Email}, others...)...)
	}
}

// testAccountPreferredStays has a refresh that was under way while the mark moved: neither undoes
// the other.
func testAccountPreferredStays(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("a@example.com", "t"), signIn("b@example.com", "t"))
	mustPrefer(t, a, "a@example.com")
	list := mustSignIns(t, a, "antigravity")
	mustPrefer(t, a, "b@example.com")
	for _, s := range list {
		s.Refresh = perigee.NewSecret("rotated")
		mustChange(t, a, s)
	}
	wantOrder(t, a, "antigravity", true, "b@example.com", "a@example.com")
	s := mustSignIns(t, a, "antigravity")[0]
	s.Enabled, s.State = false, perigee.AccountSignedOut
	mustChange(t, a, s)
	mustAdd(t, a, signIn("b@example.com", "again"), signIn("a@example.com", "again"))
	wantOrder(t, a, "antigravity", true, "b@example.com", "a@example.com")
}
