package roster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
)

// quotaAtOnce is how many quota requests run at the same time.
const quotaAtOnce = 4

// Quota returns the remaining quota of the accounts in use. If every request fails for a reason
// that is not the account's, such as a network that is down, Quota returns that error.
func (c Control) Quota(ctx context.Context, fresh bool) (perigee.QuotaList, error) {
	var list perigee.QuotaList
	var failed []error
	for _, r := range c.Rosters() {
		for _, a := range r.readQuotas(ctx, fresh) {
			list.Rows = append(list.Rows, r.history.forecast(r.exhausted(a.rows), c.Now())...)
			if a.problem != "" {
				list.Problems = append(list.Problems, perigee.Problem{Email: a.email, Upstream: r.upstream, Why: a.problem})
			}
			if a.err != nil {
				failed = append(failed, a.err)
			}
		}
	}
	if ctx.Err() != nil {
		return perigee.QuotaList{}, ctx.Err()
	}
	return list, commonError(list, failed)
}

// A quotaAnswer is the result of the quota request for one account.
type quotaAnswer struct {
	email   string
	rows    []perigee.QuotaRow
	problem string // for a person; empty if there is none
	err     error  // of asking
}

// readQuotas asks about all accounts, several at a time.
func (r *Roster) readQuotas(ctx context.Context, fresh bool) []quotaAnswer {
	sources, status := r.all(), r.status()
	answers := make([]quotaAnswer, len(sources))
	eachSource(sources, func(i int, s *Source) {
		a := &answers[i]
		a.email = s.SignIn().Email
		switch signIn := status[a.email]; {
		case !signIn.Enabled:
		case !perigee.UsableState(signIn.State):
			a.problem = stateAdvice(signIn.State)
		default:
			a.ask(ctx, r, s, fresh)
		}
	})
	status = r.status() // the answers may have changed it
	for i := range answers {
		if a := status[answers[i].email]; a.Refused != "" {
			answers[i].problem = a.Reason +
				"; import the account again without a project, or sign in with `perigee login`, to have it looked up anew"
		}
	}
	return answers
}

// ask asks about one account, and not for long.
func (a *quotaAnswer) ask(ctx context.Context, r *Roster, s *Source, fresh bool) {
	ctx, cancel := context.WithTimeout(ctx, quotaTime)
	defer cancel()
	a.rows, a.err = r.quota(ctx, s, fresh)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.problem = fmt.Sprintf("the provider did not answer within %v", quotaTime)
	case a.err != nil:
		a.problem = strings.TrimPrefix(a.err.Error(), a.email+": ")
	}
}

// commonError returns the error if no account could be read for reasons that are not the accounts'
// own. They mostly fail for the same reason, so one error represents all.
func commonError(list perigee.QuotaList, failed []error) error {
	if len(list.Rows) > 0 {
		return nil
	}
	for _, err := range failed {
		e := *perigee.AsError(err)
		switch e.Class {
		case perigee.ClassUnauthenticated, perigee.ClassVerification, perigee.ClassForbidden:
			continue
		}
		e.Message, e.Cause = "no account could be asked: "+e.Message, err
		return &e
	}
	return nil
}

// exhausted marks quota that is known to be used up. The provider's figures lag behind its
// refusals; newer figures have already ended the other cooldowns.
func (r *Roster) exhausted(rows []perigee.QuotaRow) []perigee.QuotaRow {
	seen := slices.Clone(rows)
	for i := range seen {
		row := &seen[i]
		if until, ok := r.pool.Exhausted(row.Account, row.Model, row.Pool); ok && row.Remaining > 0 {
			row.Remaining, row.ResetsAt, row.Windows = 0, until.Truncate(time.Second), nil
		}
	}
	return seen
}

// stateAdvice describes the action that an account in a state needs.
func stateAdvice(state string) string {
	switch state {
	case perigee.AccountSignedOut:
		return "it is signed out; sign in again with `perigee login`"
	case perigee.AccountVerification:
		return "the provider wants it verified; `perigee account list` says how, and `perigee account enable` tries it again"
	case perigee.AccountBanned:
		return "the provider has disabled it"
	case perigee.AccountMisnamed:
		return "its refresh token belongs to another account; `perigee account list` says to which"
	}
	return "it is " + state
}
