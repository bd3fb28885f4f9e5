package sqlstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// TestAccounts is what every engine must do with accounts.
func TestAccounts(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, a *Accounts)
	}{
		{"an account comes back as it was added", testAccountRoundTrip},
		{"accounts come in the order in which they were added", testAccountOrder},
		{"who is preferred comes first, and the others as they were added", testAccountPreferred},
		{"one account of each upstream is preferred", testAccountPreferredOnce},
		{"of many who prefer accounts one wins", testAccountPreferredRace},
		{"what else is changed about an account leaves the mark where it is", testAccountPreferredStays},
		{"signing in again renews the token and keeps what was decided", testAccountAgain},
		{"a list is added whole or not at all", testAccountsWhole},
		{"a change needs the generation that was read", testAccountChange},
		{"a removed account stays removed", testAccountRemoved},
		{"an account that is added anew is not the one before", testAccountAnew},
		{"of many who change one account one wins", testAccountRace},
		{"a change without a token keeps the token and the state", testAccountKeepsToken},
		{"everything that is changed is counted", testAccountChanges},
		{"a token that cannot be opened is a sign-in that says so", testAccountUnreadable},
		{"an email counts once, however it is written", testAccountEmail},
		{"cooldowns last until they are over", testCooldowns},
		{"cooldowns go with their account", testCooldownsOfRemoved},
		{"a canceled change changes nothing and the next one works", testAccountCanceled},
	}
	onNewerSchemas(t, func(t *testing.T, fresh fresh) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.run(t, openWith(t, fresh(t)).Accounts(boundSealer{})) })
		}
	})
}

// boundSealer encodes as hex and binds each secret to its owner.
type boundSealer struct{ lost string }

func (s boundSealer) Seal(plain perigee.Secret, owner ...string) (string, error) {
	return hex.EncodeToString([]byte(strings.Join(append(owner, plain.Reveal()), "\n"))), nil
}

func (s boundSealer) Open(sealed string, owner ...string) (perigee.Secret, error) {
	raw, err := hex.DecodeString(sealed)
	if err != nil {
		return perigee.Secret{}, err
	}
	plain, ok := strings.CutPrefix(string(raw), strings.Join(owner, "\n")+"\n")
	if !ok || s.lost != "" && slices.Contains(owner, s.lost) {
		return perigee.Secret{}, errors.New("sealed for somebody else")
	}
	return perigee.NewSecret(plain), nil
}

func signIn(email, token string) perigee.SignIn {
	return perigee.SignIn{Account: perigee.Account{Email: email, Upstream: "antigravity", Enabled: true, State: perigee.AccountReady},
		Refresh: perigee.NewSecret(token), Added: noon}
}

func mustAdd(t testing.TB, a *Accounts, list ...perigee.SignIn) []bool {
	t.Helper()
	added, err := a.AddSignIns(context.Background(), list)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func mustSignIns(t testing.TB, a *Accounts, upstream string) []perigee.SignIn {
	t.Helper()
	list, err := a.SignIns(context.Background(), upstream)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// theOnly returns the account there is.
func theOnly(t testing.TB, a *Accounts) perigee.SignIn {
	t.Helper()
	list := mustSignIns(t, a, "")
	if len(list) != 1 {
		t.Fatalf("there are %d accounts, want one", len(list))
	}
	return list[0]
}

func mustChange(t testing.TB, a *Accounts, s perigee.SignIn) int64 {
	t.Helper()
	generation, err := a.ChangeSignIn(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return generation
}

func mustRemove(t testing.TB, a *Accounts, email string) {
	t.Helper()
	if removed, err := a.RemoveSignIn(context.Background(), "antigravity", email); err != nil || !removed {
		t.Fatalf("remove %s: %v, %v", email, removed, err)
	}
}

func emails(list []perigee.SignIn) (names []string) {
	for _, s := range list {
		names = append(names, s.Email)
	}
	return names
}

func testAccountRoundTrip(t *testing.T, a *Accounts) {
	full := perigee.SignIn{
		Account: perigee.Account{Email: "ada@example.com", Upstream: "antigravity", ProjectID: "p-1", State: perigee.AccountVerification},
		Refresh: perigee.NewSecret("token"), Reason: "später – \"prove\" it", Added: noon.Add(123456 * time.Microsecond),
	}
	if added := mustAdd(t, a, full, perigee.SignIn{Account: perigee.Account{Email: "bob@example.com", Upstream: "desk"},
		Refresh: perigee.NewSecret("t")}); !slices.Equal(added, []bool{true, true}) {
		t.Errorf("added %v", added)
	}
	list := mustSignIns(t, a, "antigravity")
	if len(list) != 1 {
		t.Fatalf("got %v", emails(list))
	}
	if full.Generation = list[0].Generation; full.Generation == 0 || !reflect.DeepEqual(list[0], full) {
		t.Errorf("got  %+v\nwant %+v", list[0], full)
	}
	if bare := mustSignIns(t, a, "desk")[0]; bare.State != perigee.AccountReady || !bare.Added.Equal(noon) || bare.Enabled {
		t.Errorf("what was left out became %+v", bare)
	}
	if got := mustSignIns(t, a, "nowhere"); len(got) != 0 {
		t.Errorf("an upstream without accounts has %v", emails(got))
	}
	rest := perigee.Cooldown{Family: "claude", Pool: "cli", Until: noon.Add(time.Hour), Reason: "quota"}
	for upstream, email := range map[string]string{"antigravity": "ada@example.com", "desk": "bob@example.com"} {
		if err := a.SaveCooldown(context.Background(), upstream, email, rest); err != nil {
			t.Fatal(err)
		}
	}
	full.Cooldowns = []perigee.Cooldown{rest}
	if one, found, err := a.SignIn(context.Background(), "antigravity", " Ada@Example.com"); err != nil || !found || !reflect.DeepEqual(one, full) {
		t.Errorf("got  %+v, %v, %v\nwant %+v", one, found, err, full)
	}
	if one, found, err := a.SignIn(context.Background(), "antigravity", "bob@example.com"); err != nil || found {
		t.Errorf("an account of another upstream is found: %+v, %v", one, err)
	}
}

func testAccountOrder(t *testing.T, a *Accounts) {
	early := signIn("z@example.com", "t")
	early.Added = noon.Add(-time.Hour)
	mustAdd(t, a, signIn("c@example.com", "t"), signIn("a@example.com", "t"))
	mustAdd(t, a, signIn("b@example.com", "t"), early)
	mustAdd(t, a, signIn("c@example.com", "renewed"))
	want := []string{"z@example.com", "c@example.com", "a@example.com", "b@example.com"}
	for _, upstream := range []string{"", "antigravity"} {
		if got := emails(mustSignIns(t, a, upstream)); !slices.Equal(got, want) {
			t.Errorf("of %q: got %v, want %v", upstream, got, want)
		}
	}
}

func testAccountAgain(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	s := theOnly(t, a)
	s.Enabled, s.State, s.Reason, s.ProjectID = false, perigee.AccountSignedOut, "revoked", "p-1"
	mustChange(t, a, s)

	again := signIn("ada@example.com", "second")
	again.Added = noon.Add(time.Hour)
	if added := mustAdd(t, a, again); added[0] {
		t.Error("it counts as new")
	}
	got := theOnly(t, a)
	want := s
	want.Refresh, want.State, want.Reason, want.Generation = again.Refresh, perigee.AccountReady, "", got.Generation
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	again.ProjectID = "p-2"
	if mustAdd(t, a, again); theOnly(t, a).ProjectID != "p-2" {
		t.Error("a project that was given is not kept")
	}
	if _, err := a.ChangeSignIn(t.Context(), got); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("who read it before could change it: %v", err)
	}
}

func testAccountsWhole(t *testing.T, a *Accounts) {
	tests := map[string]perigee.SignIn{
		"no email":    signIn(" ", "t"),
		"no upstream": {Account: perigee.Account{Email: "a@example.com"}, Refresh: perigee.NewSecret("t")},
		"no token":    signIn("a@example.com", ""),
	}
	for name, bad := range tests {
		_, err := a.AddSignIns(t.Context(), []perigee.SignIn{signIn("ada@example.com", "t"), bad})
		wantClass(t, err, perigee.ClassInvalid)
		if list := mustSignIns(t, a, ""); len(list) != 0 {
			t.Errorf("%s: %v were added", name, emails(list))
		}
	}
	failing := a.store.Accounts(failingSealer{})
	if _, err := failing.AddSignIns(t.Context(), []perigee.SignIn{signIn("a@example.com", "t"), signIn("b@example.com", "t"), signIn("c@example.com", "t")}); err == nil {
		t.Error("no error")
	}
	if list := mustSignIns(t, a, ""); len(list) != 0 {
		t.Errorf("a list that broke off left %v", emails(list))
	}
	if added := mustAdd(t, a); added != nil {
		t.Errorf("nothing added gives %v", added)
	}
}

// failingSealer has no key for c@example.com.
type failingSealer struct{ boundSealer }

func (s failingSealer) Seal(plain perigee.Secret, owner ...string) (string, error) {
	if owner[len(owner)-1] == "c@example.com" {
		return "", errors.New("no key")
	}
	return s.boundSealer.Seal(plain, owner...)
}

func testAccountChange(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	read := theOnly(t, a)
	changed := perigee.SignIn{
		Account: perigee.Account{Email: read.Email, Upstream: read.Upstream, ProjectID: "p", State: perigee.AccountBanned},
		Refresh: perigee.NewSecret("second"), Reason: "terms", Added: read.Added, Generation: read.Generation,
	}
	generation := mustChange(t, a, changed)
	if generation <= read.Generation {
		t.Errorf("generation %d after %d", generation, read.Generation)
	}
	changed.Generation = generation
	if got := theOnly(t, a); !reflect.DeepEqual(got, changed) {
		t.Errorf("got  %+v\nwant %+v", got, changed)
	}
	if _, err := a.ChangeSignIn(t.Context(), read); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("a change of what is no longer there: %v", err)
	}
	if got := theOnly(t, a); !reflect.DeepEqual(got, changed) {
		t.Errorf("and it wrote %+v", got)
	}
}

func testAccountRemoved(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	read := theOnly(t, a)
	mustRemove(t, a, "ada@example.com")
	if _, err := a.ChangeSignIn(t.Context(), read); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("a late change: %v", err)
	}
	if err := a.SaveCooldown(t.Context(), "antigravity", "ada@example.com", perigee.Cooldown{Family: "f", Until: noon.Add(time.Hour)}); err != nil {
		t.Error(err)
	}
	if list := mustSignIns(t, a, ""); len(list) != 0 {
		t.Errorf("%v came back", emails(list))
	}
	if removed, err := a.RemoveSignIn(t.Context(), "antigravity", "ada@example.com"); removed || err != nil {
		t.Errorf("removed twice: %v, %v", removed, err)
	}
	for _, table := range []string{"accounts", "cooldowns"} {
		var rows int
		if err := a.store.db.Read.QueryRow("SELECT count(*) FROM " + table).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%s has %d rows, %v", table, rows, err)
		}
	}
}

// testAccountAnew has a late change come in after the account was removed and added again.
func testAccountAnew(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	read := theOnly(t, a)
	mustRemove(t, a, "ada@example.com")
	mustAdd(t, a, signIn("ada@example.com", "second"))
	read.Refresh = perigee.NewSecret("successor of first")
	if _, err := a.ChangeSignIn(t.Context(), read); !errors.Is(err, perigee.ErrAccountChanged) {
		t.Errorf("got %v", err)
	}
	if got := theOnly(t, a).Refresh.Reveal(); got != "second" {
		t.Errorf("the token is %q", got)
	}
}

func testAccountRace(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	for range 5 {
		read := theOnly(t, a)
		var wins []string
		var mu sync.Mutex
		var racing sync.WaitGroup
		for i := range 8 {
			racing.Go(func() {
				mine := read
				mine.Refresh = perigee.NewSecret(fmt.Sprint("token ", i))
				switch _, err := a.ChangeSignIn(context.Background(), mine); {
				case err == nil:
					mu.Lock()
					wins = append(wins, mine.Refresh.Reveal())
					mu.Unlock()
				case !errors.Is(err, perigee.ErrAccountChanged):
					t.Error(err)
				}
			})
		}
		await.Return(t, racing.Wait, "the changes")
		if got := theOnly(t, a).Refresh.Reveal(); len(wins) != 1 || got != wins[0] {
			t.Errorf("%q won and %q is stored", wins, got)
		}
	}
}

func testAccountKeepsToken(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	s := theOnly(t, a)
	s.Refresh, s.Enabled = perigee.Secret{}, false
	s.State, s.Reason = perigee.AccountSignedOut, "this replica has another key"
	mustChange(t, a, s)
	if got := theOnly(t, a); got.Refresh.Reveal() != "first" || got.Enabled || got.State != perigee.AccountReady || got.Reason != "" {
		t.Errorf("got %q, enabled %v, %s (%s)", got.Refresh.Reveal(), got.Enabled, got.State, got.Reason)
	}
}

func testAccountChanges(t *testing.T, a *Accounts) {
	last := int64(-1)
	changed := func(what string, want bool) {
		t.Helper()
		now, err := a.store.Changes(t.Context())
		if err != nil || (now > last) != want {
			t.Errorf("%s: %d after %d (%v)", what, now, last, err)
		}
		last = now
	}
	changed("at first", true)
	mustAdd(t, a, signIn("ada@example.com", "t"))
	changed("adding", true)
	s := theOnly(t, a)
	changed("reading", false)
	mustChange(t, a, s)
	changed("changing", true)
	if err := a.SaveCooldown(t.Context(), s.Upstream, s.Email, perigee.Cooldown{Family: "f", Until: noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	changed("resting", true)
	mustPrefer(t, a, s.Email)
	changed("preferring", true)
	mustRemove(t, a, s.Email)
	changed("removing", true)
}

func testAccountUnreadable(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "a"), signIn("bob@example.com", "b"))
	list := mustSignIns(t, a.store.Accounts(boundSealer{lost: "ada@example.com"}), "")
	if len(list) != 2 || list[1].Refresh.Reveal() != "b" {
		t.Fatalf("got %+v", list)
	}
	if s := list[0]; s.State != perigee.AccountSignedOut || s.Reason != "sealed for somebody else" || !s.Refresh.IsZero() {
		t.Errorf("got %+v", s)
	}
	// Exchanged rows are as unreadable as those of a lost key.
	if _, err := a.store.db.Write.Exec(`UPDATE accounts SET refresh = (SELECT refresh FROM accounts WHERE email = 'ada@example.com')`); err != nil {
		t.Fatal(err)
	}
	list = mustSignIns(t, a, "")
	if list[0].State != perigee.AccountReady || list[1].State != perigee.AccountSignedOut {
		t.Errorf("got %+v", list)
	}
}

func testAccountEmail(t *testing.T, a *Accounts) {
	added := mustAdd(t, a, signIn("Ada@Example.com ", "first"), signIn("ada@example.com", "second"))
	if got := theOnly(t, a); !slices.Equal(added, []bool{true, false}) || got.Email != "ada@example.com" || got.Refresh.Reveal() != "second" {
		t.Errorf("added %v, got %+v", added, got)
	}
	mustRemove(t, a, "ADA@example.com")
}

func testCooldowns(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "t"), signIn("bob@example.com", "t"))
	before := mustSignIns(t, a, "")
	hour := perigee.Cooldown{Family: "claude", Pool: "antigravity", Until: noon.Add(time.Hour), Reason: "quota"}
	other := perigee.Cooldown{Family: "gemini", Pool: "gemini-cli", Until: noon.Add(time.Minute), Reason: "rate"}
	save := func(c perigee.Cooldown) {
		t.Helper()
		if err := a.SaveCooldown(t.Context(), "antigravity", "Bob@example.com", c); err != nil {
			t.Fatal(err)
		}
	}
	save(hour)
	save(other)
	hour.Until, hour.Reason = noon.Add(2*time.Hour), "longer"
	save(hour)
	list := mustSignIns(t, a, "antigravity")
	if len(list[0].Cooldowns) != 0 || !reflect.DeepEqual(list[1].Cooldowns, []perigee.Cooldown{hour, other}) {
		t.Errorf("got %+v", list)
	}
	if list[1].Generation != before[1].Generation {
		t.Error("a cooldown changed the generation")
	}
	mustChange(t, a, list[1])
	mustAdd(t, a, signIn("bob@example.com", "again"))
	other.Until = noon
	save(other)
	if list = mustSignIns(t, a, ""); !reflect.DeepEqual(list[1].Cooldowns, []perigee.Cooldown{hour}) {
		t.Errorf("got %+v", list[1])
	}
	a.store.now = func() time.Time { return noon.Add(2 * time.Hour) }
	if list = mustSignIns(t, a, ""); len(list[1].Cooldowns) != 0 {
		t.Errorf("after it was over: %+v", list[1])
	}
}

func testCooldownsOfRemoved(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "t"))
	if err := a.SaveCooldown(t.Context(), "antigravity", "ada@example.com", perigee.Cooldown{Family: "f", Until: noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	mustRemove(t, a, "ada@example.com")
	mustAdd(t, a, signIn("ada@example.com", "t"))
	if got := theOnly(t, a); len(got.Cooldowns) != 0 {
		t.Errorf("it inherited %+v", got.Cooldowns)
	}
}

func testAccountCanceled(t *testing.T, a *Accounts) {
	mustAdd(t, a, signIn("ada@example.com", "first"))
	s := theOnly(t, a)
	s.Refresh = perigee.NewSecret("second")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.ChangeSignIn(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := theOnly(t, a).Refresh.Reveal(); got != "first" {
		t.Errorf("the token is %q", got)
	}
	mustChange(t, a, s)
}
