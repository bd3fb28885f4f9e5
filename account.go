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

// A SignIn is an account with its refresh token, which stores encrypt. Email and Upstream identify
// it.
type SignIn struct {
	Account
	Refresh Secret    // the refresh token
	Reason  string    // why the account is in its state, as text for people
	Added   time.Time // when it was added; accounts are chosen in this order
	// Preferred accounts are chosen first. An upstream has one at most.
	Preferred bool
	// Generation increases with every change of the row, so that a write can detect that the row
	// has changed since it was read.
	Generation int64
}

// The states of an account. Only the first two are usable; see UsableState.
const (
	AccountReady        = "ready"
	AccountUntested     = "untested"     // imported; no refresh has confirmed it yet
	AccountSignedOut    = "signed_out"   // the provider no longer accepts its refresh token
	AccountVerification = "verification" // the provider requires the owner to verify the account
	AccountBanned       = "banned"
	AccountMisnamed     = "misnamed" // its refresh token belongs to another account
)

// UsableState reports whether an account in this state may be used. The empty state is ready.
func UsableState(state string) bool {
	return state == "" || state == AccountReady || state == AccountUntested
}

// ErrAccountChanged is the error of a write to a row that was changed or removed since it was read.
var ErrAccountChanged = errors.New("the account was changed meanwhile")

// An AccountStore reads and changes accounts one by one. Every write is durable when it returns.
type AccountStore interface {
	// SignIn returns one account. If there is none, found is false and err is nil.
	SignIn(ctx context.Context, upstream, email string) (s SignIn, found bool, err error)
	// ChangeSignIn writes all fields of an account except its cooldowns and Preferred, and returns
	// its new generation. If the account was removed, or its generation is not s.Generation, it
	// returns ErrAccountChanged.
	ChangeSignIn(ctx context.Context, s SignIn) (generation int64, err error)
}

// A RefreshLeaser is an AccountStore that may be shared with other processes. Providers treat the
// use of a replaced refresh token as theft, so refreshes of one account must not overlap.
type RefreshLeaser interface {
	// LeaseRefresh waits until the account is not being refreshed, here or in another process, and
	// holds the lease until release is called or the process ends. Data of the account that was
	// read before may be stale by then. A nil release without an error means that the account does
	// not need a lease.
	LeaseRefresh(ctx context.Context, upstream, email string) (release func(), err error)
}
