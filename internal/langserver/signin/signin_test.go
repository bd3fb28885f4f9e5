package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/account/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lifetime = time.Hour
	ahead    = 5 * time.Minute
)

// A rig has accounts whose tokens live for an hour and are refreshed within a second, and the
// changes that a SignIn reports.
type rig struct {
	t       *testing.T
	start   time.Time
	skipped time.Duration // by which the wall clock ran ahead
	signIn  *SignIn

	mu       sync.Mutex
	accounts []*fake
	notify   func(upstream string)
	changes  []string
	asked    int   // for a credential
	down     error // of every refresh
	hangs    bool  // every refresh
}

type fake struct {
	roster.Choice
	project string
	number  int // of tokens
	expiry  time.Time
	ahead   bool // a refresh is under way
}

func newRig(t *testing.T, email string, emails ...string) *rig {
	r := &rig{t: t, start: time.Now()}
	for _, e := range emails {
		r.accounts = append(r.accounts, &fake{Choice: roster.Choice{Email: e, Usable: true}, project: "project-" + e})
	}
	r.signIn = New(Options{Name: "gravity", Accounts: func() Accounts { return r }, Feed: r, Email: email, Changed: r.changed, Now: r.now})
	r.signIn.Start()
	t.Cleanup(r.signIn.Close)
	synctest.Wait()
	return r
}

func (r *rig) now() time.Time { return time.Now().Add(r.skipped) }

func (r *rig) Subscribe(notify func(upstream string)) (cancel func()) {
	r.notify = notify
	return func() {}
}

func (r *rig) Choices() (list []roster.Choice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.accounts {
		list = append(list, a.Choice)
	}
	return list
}

func (r *rig) find(email string) *fake {
	for _, a := range r.accounts {
		if a.Email == email {
			return a
		}
	}
	return nil
}

// Credential renews tokens as accounts do, in the time of a bubble.
func (r *rig) Credential(ctx context.Context, email string) (roster.Credential, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	a, now := r.find(email), r.now()
	switch {
	case a == nil:
		return roster.Credential{}, errors.New("there is no such account")
	case !now.Before(a.expiry) && r.hangs:
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return roster.Credential{}, ctx.Err()
	case !now.Before(a.expiry) && r.down != nil:
		return roster.Credential{}, r.down
	case !now.Before(a.expiry):
		a.number, a.expiry = a.number+1, now.Add(lifetime)
	case !now.Before(a.expiry.Add(-ahead)) && !a.ahead && r.down == nil:
		a.ahead = true
		time.AfterFunc(time.Second, func() {
			r.edit(email, func(a *fake) { a.number, a.expiry, a.ahead = a.number+1, r.now().Add(lifetime), false })
		})
	}
	access := perigee.NewSecret(fmt.Sprintf("%s %d", email, a.number))
	return roster.Credential{Email: email, Project: a.project, Access: access, Expiry: a.expiry, Renew: a.expiry.Add(-ahead)}, nil
}

func (r *rig) Refusal(email string) error {
	return perigee.Errorf(perigee.ClassForbidden, "none of %s can be used", cmp.Or(email, "all")).WithHint("wait")
}

// edit changes an account and reports that.
func (r *rig) edit(email string, edit func(*fake)) {
	r.mu.Lock()
	edit(r.find(email))
	r.mu.Unlock()
	r.notify("gravity")
}

func (r *rig) prefer(email string) {
	r.mu.Lock()
	for _, a := range r.accounts {
		a.Preferred = a.Email == email
	}
	r.mu.Unlock()
	r.notify("gravity")
	synctest.Wait()
}

// changed notes a change as "MINUTE account EMAIL NUMBER", or "MINUTE token …", or "MINUTE none:
// REASON".
func (r *rig) changed(c Change) {
	r.signIn.mu.Lock()
	reason := r.signIn.reason
	r.signIn.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	what := "token " + c.Access.Reveal()
	switch {
	case c.Email == "":
		what = "none: " + reason.Error()
	case c.Account:
		what = "account " + c.Access.Reveal()
	}
	if c.Email != "" && (c.Project != "project-"+c.Email || !c.Expiry.After(r.now())) {
		r.t.Errorf("%s is for %q until %v", what, c.Project, c.Expiry)
	}
	r.changes = append(r.changes, fmt.Sprintf("%d %s", int(r.now().Sub(r.start).Minutes()), what))
}

// expect compares the changes since the last time.
func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		r.t.Errorf("got  %q\nwant %q", got, want)
	}
}

// take returns the changes since the last time.
func (r *rig) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := r.changes
	r.changes = nil
	return changes
}

// count is how often a credential was asked for.
func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// sleep lets minutes of a bubble pass.
func (r *rig) sleep(minutes int) {
	time.Sleep(time.Duration(minutes) * time.Minute)
	synctest.Wait()
}

func TestTokensAreRenewedFiveMinutesBeforeTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.expect("0 account ada@example.com 1")
		r.sleep(54)
		if r.count() != 2 { // for a token, and whether it is still the newest
			t.Errorf("asked %d times for one token", r.count())
		}
		r.expect()
		r.sleep(2)
		r.expect("55 token ada@example.com 2")
		r.sleep(24 * 60)
		if n := len(r.take()); n < 25 || n > 27 {
			t.Errorf("%d tokens in a day", n)
		}
		if r.count() > 8*27 {
			t.Errorf("asked %d times in a day", r.count())
		}
	})
}

func TestOwnerChoosesTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com", "eve@example.com")
		r.expect("0 account ada@example.com 1")
		r.prefer("bob@example.com")
		r.expect("0 account bob@example.com 1")
		r.edit("bob@example.com", func(a *fake) { a.Usable = false })
		r.expect("0 account ada@example.com 1")
		r.edit("bob@example.com", func(a *fake) { a.Usable = true })
		r.expect() // the one in use stays, as in the pool
		r.prefer("")
		r.prefer("bob@example.com")
		r.expect("0 account bob@example.com 1")
		r.prefer("") // the one in use stays
		r.expect()
		r.mu.Lock()
		r.accounts = r.accounts[2:]
		r.mu.Unlock()
		r.notify("other")
		r.expect()
		r.notify("gravity")
		r.expect("0 account eve@example.com 1")
		asked := r.count()
		r.edit("eve@example.com", func(a *fake) {})
		r.expect()
		r.sleep(50)
		if r.count() != asked+2 {
			t.Errorf("asked %d times, want %d", r.count(), asked+2)
		}
	})
}

// An account whose tokens are refused is left for another one, even if the owner prefers it, and
// used if there is no other.
func TestAccountWithRefusedTokensIsChosenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.prefer("ada@example.com")
		r.expect("0 account ada@example.com 1")
		refused := func(a *fake) { a.Refused, a.Cooling = true, true }
		r.edit("ada@example.com", refused)
		r.expect("0 account bob@example.com 1")
		r.edit("bob@example.com", func(a *fake) { a.Usable = false })
		r.expect("0 account ada@example.com 1")
	})
}

func TestAccountsInACooldownAreChosenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.expect("0 none: no account is signed in to gravity; run perigee login --upstream gravity")
		r.mu.Lock()
		for _, e := range []string{"ada@example.com", "bob@example.com"} {
			r.accounts = append(r.accounts, &fake{Choice: roster.Choice{Email: e, Usable: true, Cooling: e == "ada@example.com"}, project: "project-" + e})
		}
		r.mu.Unlock()
		r.notify("gravity")
		r.expect("0 account bob@example.com 1")
	})
}

func TestReasonIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "Ada@example.com", "bob@example.com")
		r.expect("0 none: gravity has no account Ada@example.com; run perigee login --upstream gravity --email Ada@example.com")
		if _, err := r.signIn.Current(t.Context()); perigee.AsError(err).Class != perigee.ClassUnauthenticated {
			t.Errorf("got %v", err)
		}
		r.mu.Lock()
		r.accounts = append(r.accounts, &fake{Choice: roster.Choice{Email: "ada@example.com"}, project: "project-ada@example.com"})
		r.mu.Unlock()
		r.edit("ada@example.com", func(*fake) {})
		r.expect("0 none: none of ada@example.com can be used; wait")
		r.edit("ada@example.com", func(*fake) {})
		r.expect() // nothing new
		r.edit("ada@example.com", func(a *fake) { a.Usable = true })
		r.expect("0 account ada@example.com 1")
		if c, err := r.signIn.Current(t.Context()); err != nil || c.Email != "ada@example.com" {
			t.Errorf("got %v, %v", c, err)
		}
	})
}

// A call that comes as soon as an account can be used gets it, and not the reason why there was
// none.
func TestAccountThatHasJustComeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com")
		r.edit("ada@example.com", func(a *fake) { a.Usable = false })
		r.take()
		if _, err := r.signIn.Current(t.Context()); perigee.AsError(err).Class != perigee.ClassForbidden {
			t.Errorf("got %v", err)
		}
		r.mu.Lock()
		r.find("ada@example.com").Usable = true // what reports it is on its way
		r.mu.Unlock()
		if c, err := r.signIn.Current(t.Context()); err != nil || c.Email != "ada@example.com" {
			t.Errorf("got %v, %v", c, err)
		}
		r.expect("0 account ada@example.com 1")
	})
}

func TestTokenIsKeptWhileTheNetworkIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com")
		r.expect("0 account ada@example.com 1")
		r.mu.Lock()
		r.down = perigee.Errorf(perigee.ClassUnavailable, "the network is down")
		r.mu.Unlock()
		r.sleep(59)
		if _, err := r.signIn.Current(t.Context()); err != nil {
			t.Error(err)
		}
		asked := r.count()
		r.sleep(121)
		r.expect()
		if n := r.count() - asked; n < 20 || n > 60 {
			t.Errorf("asked %d times in two hours", n)
		}
		if _, err := r.signIn.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "the network is down") {
			t.Errorf("got %v", err)
		}
		r.mu.Lock()
		r.down = nil
		r.mu.Unlock()
		r.sleep(6)
		if got := r.take(); len(got) != 1 || !strings.HasSuffix(got[0], "token ada@example.com 2") {
			t.Errorf("got %q", got)
		}
	})
}

func TestAnotherAccountIsUsedIfTheProviderRejectsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com")
		r.expect("0 account ada@example.com 1")
		r.mu.Lock()
		r.down = perigee.Errorf(perigee.ClassUnauthenticated, "the refresh token is not accepted")
		r.accounts = append(r.accounts, &fake{Choice: roster.Choice{Email: "bob@example.com", Usable: true}, project: "project-bob@example.com",
			number: 7, expiry: time.Now().Add(2 * time.Hour)})
		r.mu.Unlock()
		r.sleep(61)
		r.expect("60 account bob@example.com 7")
		r.mu.Lock()
		r.accounts = r.accounts[:1]
		r.mu.Unlock()
		r.edit("ada@example.com", func(*fake) {})
		r.expect("61 none: the refresh token is not accepted")
		r.edit("ada@example.com", func(a *fake) { a.Usable = false })
		r.expect("61 none: none of all can be used; wait")
	})
}

// A timer stands still while the machine sleeps; the clock does not.
func TestOverdueTokenIsRenewedBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com")
		r.expect("0 account ada@example.com 1")
		r.skipped = 8 * time.Hour
		c, err := r.signIn.Current(t.Context())
		if err != nil || !c.Access.Equal("ada@example.com 2") || !c.Expiry.After(r.now()) {
			t.Errorf("got %q until %v, %v", c.Access.Reveal(), c.Expiry, err)
		}
		r.expect("480 token ada@example.com 2")
	})
}

func TestCloseEndsARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.mu.Lock()
		r.hangs = true
		r.accounts = append(r.accounts, &fake{Choice: roster.Choice{Email: "ada@example.com", Usable: true}})
		r.changes = nil
		r.mu.Unlock()
		r.edit("ada@example.com", func(*fake) {})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.signIn.Current(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		r.signIn.Close()
		r.expect()
	})
}
