package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perigee"
)

// quotaAtOnce is how many accounts are asked about at the same time.
const quotaAtOnce = 4

// Quota asks what the accounts in use have left.
func (c control) Quota(ctx context.Context) (perigee.QuotaList, error) {
	var list perigee.QuotaList
	for _, r := range c.rosters() {
		sources := r.everybody()
		answers := make([][]perigee.QuotaRow, len(sources))
		problems := make([]string, len(sources))
		places := make(chan struct{}, quotaAtOnce)
		var asking sync.WaitGroup
		for i, s := range sources {
			signIn := s.SignIn()
			switch {
			case !signIn.Enabled:
				continue
			case signIn.State != perigee.AccountReady:
				problems[i] = signIn.Email + ": " + stateWords(signIn.State)
				continue
			}
			places <- struct{}{}
			asking.Go(func() {
				defer func() { <-places }()
				ctx, cancel := context.WithTimeout(ctx, quotaTime)
				defer cancel()
				rows, err := r.quota(ctx, s)
				switch {
				case errors.Is(ctx.Err(), context.DeadlineExceeded):
					problems[i] = fmt.Sprintf("%s: the provider did not answer within %v", signIn.Email, quotaTime)
				case err != nil:
					problems[i] = err.Error()
				}
				answers[i] = rows
			})
		}
		asking.Wait()
		for i := range sources {
			list.Rows = append(list.Rows, c.foresee(answers[i])...)
			if problems[i] != "" {
				list.Problems = append(list.Problems, problems[i])
			}
		}
	}
	if ctx.Err() != nil {
		return perigee.QuotaList{}, ctx.Err()
	}
	return list, nil
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
	}
	return "it is " + state
}
