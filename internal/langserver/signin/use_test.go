package signin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// use has a call use an account, and fails if it may not at once.
func (r *rig) use(email string) (release func()) {
	r.t.Helper()
	release, err := r.signIn.Use(r.t.Context(), email)
	if err != nil {
		r.t.Fatal(err)
	}
	return release
}

// A call has its account until it has been sent. The account stays until something else is asked
// for.
func TestCallsHaveTheirAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.expect("0 account ada@example.com 1")
		r.use("ada@example.com")()
		r.expect()
		release := r.use("bob@example.com")
		r.expect("0 account bob@example.com 1")
		release()
		release() // more than once is once
		r.signIn.Check()
		r.expect()
		r.sleep(50)
		r.expect()
		r.edit("bob@example.com", func(a *fake) { a.Usable = false })
		r.expect("50 account ada@example.com 1")
	})
}

// Calls with the same account go on side by side. One with another account waits for them, and
// those that come later for that.
func TestCallsWithDifferentAccountsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.take()
		first, second := r.use("ada@example.com"), r.use("ada@example.com")
		turns := make(chan func(), 2)
		for _, email := range []string{"bob@example.com", "ada@example.com"} {
			go func() { turns <- r.use(email) }()
			synctest.Wait()
		}
		first()
		r.expect()
		second()
		r.expect("0 account bob@example.com 1")
		(<-turns)()
		r.expect("0 account ada@example.com 1")
		(<-turns)()
	})
}

// A call that leaves makes room for the calls behind it.
func TestCallThatLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.take()
		defer r.use("ada@example.com")()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, err := r.signIn.Use(ctx, "bob@example.com"); left <- err }()
		synctest.Wait()
		same := make(chan func(), 1)
		go func() { same <- r.use("ada@example.com") }()
		synctest.Wait()
		cancel()
		if err := <-left; err != context.Canceled {
			t.Errorf("got %v", err)
		}
		(<-same)()
		r.expect()
	})
}

// What the owner changes takes effect when no call needs the account any more. A new token does at
// once.
func TestChangesWaitForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.take()
		release := r.use("ada@example.com")
		r.edit("ada@example.com", func(a *fake) { a.number++ })
		r.expect("0 token ada@example.com 2")
		r.prefer("bob@example.com")
		r.edit("ada@example.com", func(a *fake) { a.Usable = false })
		r.expect()
		release()
		r.expect("0 account bob@example.com 1")
		release = r.use("bob@example.com")
		r.edit("bob@example.com", func(a *fake) { a.Usable = false })
		r.expect()
		release()
		r.expect("0 none: none of all can be used; wait")
	})
}

// An account whose token cannot be renewed is not used, and the next call gets its turn.
func TestAccountWithoutATokenIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "ada@example.com", "bob@example.com")
		r.take()
		r.mu.Lock()
		r.hangs = true
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.signIn.Use(ctx, "bob@example.com"); err == nil {
			t.Error("used")
		}
		r.use("ada@example.com")()
		r.expect()
	})
}
