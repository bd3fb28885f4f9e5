package pool

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
)

// A Request describes the call that needs an account. The zero value is for calls that ask no
// model.
type Request struct {
	Model          string
	Family         models.Family
	Session        string           // its calls stay on one account, which has their prompt cache
	OnTokenFailure TokenFailureFunc // nil if there is none

	// Restrictions of the caller to a part of the pool.

	// Email is the only account; empty for any. It does not affect the selection for other calls.
	Email string
	// Pool is the only pool of quota; empty for the pools in Options.Pools.
	Pool string
}

// A TokenFailureFunc is called for each account that was chosen for a call and not leased, because
// the sign-in server gave no access token for it. It runs in the goroutine of the call.
type TokenFailureFunc func(l Lease, err error, took time.Duration)

// An Acquisition gives one call one account after the other, until one of them is answered. The
// results of earlier leases decide which account is next.
type Acquisition interface {
	// Next waits for an account if one is back in time. Otherwise its error is a *perigee.Error
	// with the reason, and with the time after which there may be one. The previous lease has to be
	// done.
	Next(ctx context.Context) (Lease, error)
}

// A ProjectFinder is a Source or a Lease that can look up its project. FindProject is called after
// the provider has refused a project, or may have: it reports whether the account has another one
// now.
type ProjectFinder interface {
	FindProject(ctx context.Context, refused string) bool
}

// A Leased is the account of a lease.
type Leased struct {
	Email   string
	Project string
	CLI     bool   // it is used from PoolCLI, which takes a plainer envelope
	Why     string // it was chosen, for the trace of the call; WhyOnly if there was no choice
}

// A Lease is an account in use by a call.
type Lease interface {
	// Account returns the account; its project may change during the lease.
	Account() Leased
	// Token returns an access token that is still valid for a while.
	Token(ctx context.Context) (perigee.Secret, error)
	// Refused reports that the provider did not accept the token, so that Token returns another
	// one.
	Refused(token perigee.Secret)
	// Answering reports that an answer has begun, which may take long: the account works, whatever
	// the rest of the answer is.
	Answering()
	// Done ends the lease with its result; nil means success. It is called once. If the pool has
	// more information than the answer, it corrects the diagnosis, so that the call does not try
	// further accounts for the same cause.
	Done(v *providererr.Diagnosis)
}
