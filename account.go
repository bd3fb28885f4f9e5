package perigee

import (
	"context"
	"errors"
	"time"
)

// An Account is a sign-in that an upstream can use.
type Account struct {
	Email     string
	Upstream  string
	Enabled   bool
	ProjectID string
	State     string
	Cooldowns []Cooldown
}

// A Cooldown is a time during which an account is not asked for a family of models.
type Cooldown struct {
	Family string    `json:"family"`
	Pool   string    `json:"pool"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// A SignIn is an account with what proves it: what a store keeps, sealed. Email and Upstream name
// it.
type SignIn struct {
	Account
	Refresh Secret    // the refresh token
	Reason  string    // why the account is in its state, for a person
	Added   time.Time // when it came into the pool: the order in which accounts are chosen
	// Preferred accounts are chosen first. An upstream has one at most.
	Preferred bool
	// Generation grows with every change of the row, so that a write can detect that the row has
	// changed since it was read.
	Generation int64
}

// The states of an account. Only the first two can be used, see UsableState.
const (
	AccountReady        = "ready"
	AccountUntested     = "untested"     // it was brought from elsewhere, and no refresh has shown yet that it works and whose it is
	AccountSignedOut    = "signed_out"   // the provider no longer takes its refresh token
	AccountVerification = "verification" // the provider wants the owner to prove something
	AccountBanned       = "banned"
	AccountMisnamed     = "misnamed" // its refresh token belongs to another account than its name says
)

// UsableState says whether an account in a state may be asked. One without a state is ready.
func UsableState(state string) bool {
	return state == "" || state == AccountReady || state == AccountUntested
}

// ErrAccountChanged is the error of a write to a row that was changed or removed since it was read.
var ErrAccountChanged = errors.New("the account was changed meanwhile")

// An AccountStore keeps accounts. Every write is durable when it returns.
type AccountStore interface {
	// SignIns returns the accounts of an upstream, or of all when it is empty: preferred accounts
	// first, then in the order in which they were added.
	SignIns(ctx context.Context, upstream string) ([]SignIn, error)
	// SignIn returns one account and says whether there is one.
	SignIn(ctx context.Context, upstream, email string) (s SignIn, found bool, err error)
	// AddSignIns adds accounts, and gives those that are there already a new refresh token and
	// state; all or none. It says for each whether it is new. Whether they are preferred is not its
	// business.
	AddSignIns(ctx context.Context, list []SignIn) (added []bool, err error)
	// ChangeSignIn writes everything of an account but its cooldowns and whether it is preferred,
	// if its generation is still s.Generation; otherwise, also when it is gone, it returns
	// ErrAccountChanged. It returns the new generation.
	ChangeSignIn(ctx context.Context, s SignIn) (generation int64, err error)
	// RemoveSignIn forgets an account and says whether there was one.
	RemoveSignIn(ctx context.Context, upstream, email string) (bool, error)
}

// A RefreshLeaser is an AccountStore that may be shared with other processes. Providers take it for
// theft when a refresh token that was replaced is used again, so everything that refreshes the same
// account takes turns.
type RefreshLeaser interface {
	// LeaseRefresh waits until the account is not being refreshed, here or in another process, and
	// holds the lease until release is called or the process ends. What was read of the account
	// before may be stale by then. A nil release without an error means that there is nothing to
	// wait for.
	LeaseRefresh(ctx context.Context, upstream, email string) (release func(), err error)
}
