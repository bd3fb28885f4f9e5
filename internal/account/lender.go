package account

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/verdict"
)

// A Want says what an account is borrowed for. The zero value is for calls that ask no model.
type Want struct {
	Model   string
	Family  models.Family
	Session string  // calls of one session are best served by one account
	Witness Witness // nil: nobody wants to know
}

// A Witness hears of the accounts that a call was to get and did not, because the sign-in server gave no access token for them. It is
// told in the call's own goroutine.
type Witness interface {
	WithoutToken(l Loan, err error, took time.Duration)
}

// A Lender lends accounts to calls.
type Lender interface {
	// Borrow begins to lend accounts to a call. It costs nothing, and whoever has had enough just leaves it.
	Borrow(want Want) Borrowing
}

// A Borrowing is how one call gets one account after the other, until one of them is answered. What the call has met with those
// before decides whom it gets next.
type Borrowing interface {
	// Next waits for an account if that is worth it, and otherwise says why there is none, as a *perigee.Error with the time
	// after which there may be one. The loan before has to be given back first.
	Next(ctx context.Context) (Loan, error)
}

// A ProjectFinder is a Source or a Loan that can look up its project. FindProject is for when the provider has refused a
// project, or may have meant the project by what it said: it says whether the account has another one now.
type ProjectFinder interface {
	FindProject(ctx context.Context, refused string) bool
}

// A Loan is an account while a call has it.
type Loan interface {
	Email() string
	Project() string
	// CLI says that the account is used from its other pool, which takes a plainer envelope.
	CLI() bool
	// Why says why this account was chosen, for the call's trace; WhyOnly: there was nothing to choose.
	Why() string
	// Token returns an access token that is still good for a while.
	Token(ctx context.Context) (perigee.Secret, error)
	// Refused says that the provider did not take the token, so that Token gives another one.
	Refused(token perigee.Secret)
	// Answering says that an answer has begun, which may go on for long: the account is good, whatever becomes of the rest.
	Answering()
	// Done gives the account back, with what went wrong if something did. It is called once.
	Done(v *verdict.Verdict)
}
