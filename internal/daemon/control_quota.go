package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/httpapi"
	"perigee/internal/route"
)

// quotaAtOnce is how many accounts are asked about at the same time.
const quotaAtOnce = 4

// Quota asks what the accounts in use have left. When none of them could be asked for a reason that is not theirs, such as
// a network that is down, that is the error.
func (c control) Quota(ctx context.Context) (perigee.QuotaList, error) {
	var list perigee.QuotaList
	var failed []error
	fresh := httpapi.ByOwner(ctx) // who asks again wants to know again, unlike a client that polls
	for _, r := range c.rosters() {
		for _, a := range r.quotas(ctx, fresh) {
			list.Rows = append(list.Rows, c.foresee(r.usedUp(a.rows))...)
			if a.problem != "" {
				list.Problems = append(list.Problems, perigee.AccountProblem{Email: a.email, Upstream: r.upstream, Why: a.problem})
			}
			if a.err != nil {
				failed = append(failed, a.err)
			}
		}
	}
	if ctx.Err() != nil {
		return perigee.QuotaList{}, ctx.Err()
	}
	return list, noneOfThem(list, failed)
}

// Models lists what can be asked.
func (c control) Models(ctx context.Context, upstream string) (list perigee.ModelList, err error) {
	plan := c.house.current.Load()
	if upstream != "" && !slices.ContainsFunc(plan.rooms, func(r room) bool { return r.config.Name == upstream }) {
		return list, perigee.Errorf(perigee.ClassNotFound, "no upstream %q", upstream)
	}
	found, failed, err := plan.router.ModelsOf(ctx, upstream)
	if err != nil {
		return list, allOf(err, failed)
	}
	for _, m := range found {
		list.Rows = append(list.Rows, perigee.ModelRow{
			ID: m.ID, Upstream: m.Upstream, Context: m.Context, Output: m.Output, Thinking: m.Thinking,
			AliasOf: m.AliasOf, Default: m.ID == plan.router.Default(),
		})
	}
	for _, f := range failed {
		list.Problems = append(list.Problems, perigee.UpstreamProblem{Upstream: f.Upstream, Why: f.Err.Error()})
	}
	return list, nil
}

// allOf is the error about upstreams of which none could be asked: the first one's, in the words of all.
func allOf(err error, failed []route.Failure) error {
	var words []string
	for _, f := range failed {
		if text := f.Err.Error(); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) < 2 {
		return err
	}
	e := *perigee.AsError(err)
	e.Message, e.Next = strings.Join(words, "; "), ""
	return &e
}

// A quotaAnswer is what came of asking about one account.
type quotaAnswer struct {
	email   string
	rows    []perigee.QuotaRow
	problem string // for a person; empty: there is none
	err     error  // of asking
}

// quotas asks about all accounts, several at a time.
func (r *roster) quotas(ctx context.Context, fresh bool) []quotaAnswer {
	sources, standing := r.everybody(), r.standing()
	answers := make([]quotaAnswer, len(sources))
	places := make(chan struct{}, quotaAtOnce)
	var asking sync.WaitGroup
	for i, s := range sources {
		a := &answers[i]
		a.email = s.SignIn().Email
		switch signIn := standing[a.email]; {
		case !signIn.Enabled:
			continue
		case !perigee.UsableState(signIn.State):
			a.problem = stateWords(signIn.State)
			continue
		}
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			a.ask(ctx, r, s, fresh)
		})
	}
	asking.Wait()
	standing = r.standing() // the answers may have changed it
	for i := range answers {
		if a := standing[answers[i].email]; a.Refused != "" {
			answers[i].problem = a.Reason + "; import the account again without a project, or sign in with `perigee login`, to have it looked up anew"
		}
	}
	return answers
}

// ask asks about one account, and not for long.
func (a *quotaAnswer) ask(ctx context.Context, r *roster, s *source, fresh bool) {
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

// noneOfThem is the error about accounts of which none could be asked, unless it is their own fault. They mostly fail for the
// same reason, so one of them stands for all.
func noneOfThem(list perigee.QuotaList, failed []error) error {
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

// usedUp shows what is known to be used up as such. The provider's figures lag behind its refusals; those that are newer have
// ended the rest.
func (r *roster) usedUp(rows []perigee.QuotaRow) []perigee.QuotaRow {
	seen := slices.Clone(rows)
	for i := range seen {
		row := &seen[i]
		if until, ok := r.pool.UsedUp(row.Account, row.Model, row.Pool); ok && row.Remaining > 0 {
			row.Remaining, row.ResetsAt, row.Windows = 0, until.Truncate(time.Second), nil
		}
	}
	return seen
}

// foresee adds when it will all be used up.
func (c control) foresee(rows []perigee.QuotaRow) []perigee.QuotaRow {
	now := c.house.opts.Now()
	seen := make([]perigee.QuotaRow, len(rows))
	for i, row := range rows {
		for _, w := range row.Windows {
			end := w.RunsOut(now)
			if !end.IsZero() && row.Remaining > 0 && (row.RunsOutAt.IsZero() || end.Before(row.RunsOutAt)) {
				row.RunsOutAt = end.UTC().Truncate(time.Second)
			}
		}
		seen[i] = row
	}
	return seen
}

// stateWords says what an account in a state needs.
func stateWords(state string) string {
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
