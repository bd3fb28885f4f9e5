package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/names"
)

// A control acts on the accounts of a house. A daemon's serves the admin routes; commands without a daemon have one of
// their own, through the back door.
type control struct{ house *house }

var _ perigee.Control = control{}

// rosters are the accounts of the upstreams that have any.
func (c control) rosters() []*roster {
	var list []*roster
	for _, room := range c.house.current.Load().rooms {
		if room.roster != nil {
			list = append(list, room.roster)
		}
	}
	return list
}

// roster finds the accounts of an upstream; of the only one that has accounts when it is not named.
func (c control) roster(upstream string) (*roster, error) {
	list := c.rosters()
	var known []string
	for _, r := range list {
		if r.upstream == upstream || upstream == "" && len(list) == 1 {
			return r, nil
		}
		known = append(known, r.upstream)
	}
	switch {
	case len(list) == 0:
		return nil, noRoster()
	case upstream == "":
		return nil, perigee.Errorf(perigee.ClassInvalid, "several upstreams have accounts: %s", strings.Join(known, ", ")).
			WithNext("say which with --upstream")
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no upstream %q has accounts", upstream).
		WithNext("these do: %s", strings.Join(known, ", "))
}

func noRoster() error {
	return perigee.Errorf(perigee.ClassNotFound, "no upstream that has accounts is configured").
		WithNext("add one of kind antigravity, or use kind gemini with an API key, which is recommended")
}

// Accounts lists the accounts by upstream in the order in which they are used, the preferred one first, and after them those of
// upstreams that are no longer configured.
func (c control) Accounts(ctx context.Context) ([]perigee.AccountRow, error) {
	rosters := c.rosters()
	if len(rosters) == 0 {
		return nil, nil
	}
	store, err := c.house.accounts(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := store.SignIns(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(stored, func(a, b perigee.SignIn) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Email, b.Email))
	})
	rank := c.ranks(ctx)
	var rows, others []perigee.AccountRow
	for _, r := range rosters {
		first := len(rows)
		standing := r.standing()
		for _, s := range stored {
			if s.Upstream != r.upstream {
				continue
			}
			a, known := standing[s.Email]
			if known {
				s.State, s.Cooldowns = a.State, a.Cooldowns
			}
			row := accountRow(s)
			if known {
				row.Reason = a.Reason
			}
			rows = append(rows, row)
		}
		slices.SortStableFunc(rows[first:], func(a, b perigee.AccountRow) int {
			switch {
			case a.Preferred:
				return -1
			case b.Preferred:
				return 1
			}
			return cmp.Compare(rank(a), rank(b))
		})
	}
	for _, s := range stored {
		if !slices.ContainsFunc(rosters, func(r *roster) bool { return r.upstream == s.Upstream }) {
			others = append(others, accountRow(s))
		}
	}
	return append(rows, others...), nil
}

func accountRow(s perigee.SignIn) perigee.AccountRow {
	row := perigee.AccountRow{Email: s.Email, Upstream: s.Upstream, Enabled: s.Enabled, Preferred: s.Preferred,
		ProjectID: s.ProjectID, State: s.State, Cooldowns: []perigee.CooldownRow{}}
	if !perigee.UsableState(s.State) {
		row.Reason = s.Reason
	}
	row.Unopened = s.Refresh.IsZero() // no account is stored without one
	for _, c := range s.Cooldowns {
		row.Cooldowns = append(row.Cooldowns, perigee.CooldownRow{Family: c.Family, Pool: c.Pool, Until: c.Until.UTC().Truncate(time.Second), Reason: c.Reason})
	}
	return row
}

// find returns the account of a name.
func (c control) find(ctx context.Context, name perigee.AccountName) (perigee.SignIn, error) {
	email := strings.ToLower(strings.TrimSpace(name.Email))
	if email == "" {
		return perigee.SignIn{}, perigee.Errorf(perigee.ClassInvalid, "no account is named").WithNext("name it by its email")
	}
	if len(c.rosters()) == 0 {
		return perigee.SignIn{}, noRoster()
	}
	store, err := c.house.accounts(ctx)
	if err != nil {
		return perigee.SignIn{}, err
	}
	list, err := store.SignIns(ctx, name.Upstream)
	if err != nil {
		return perigee.SignIn{}, err
	}
	var found []perigee.SignIn
	var known []string
	for _, s := range list {
		known = append(known, s.Email)
		if s.Email == email {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return perigee.SignIn{}, perigee.Errorf(perigee.ClassInvalid, "%s is an account of several upstreams", email).WithNext("say which with --upstream")
	}
	e := perigee.Errorf(perigee.ClassNotFound, "there is no account %s", email)
	if near := names.NearestAddress(email, known); near != "" {
		return perigee.SignIn{}, e.WithNext("did you mean %s?", near)
	}
	return perigee.SignIn{}, e.WithNext("see `perigee account list`")
}

// ranks tells which place an account has among those that would be used now. Those of which that is not known come last.
func (c control) ranks(ctx context.Context) func(perigee.AccountRow) int {
	choices, err := c.ExplainAccounts(ctx, "")
	if err != nil {
		choices = nil
	}
	places := map[perigee.AccountName]int{}
	for i, choice := range slices.Backward(choices) { // the first of several pools counts
		places[perigee.AccountName{Email: choice.Email, Upstream: choice.Upstream}] = i
	}
	return func(row perigee.AccountRow) int {
		if place, ok := places[perigee.AccountName{Email: row.Email, Upstream: row.Upstream}]; ok {
			return place
		}
		return len(choices)
	}
}

// edit changes an account, and lets those who lend it know.
func (c control) edit(ctx context.Context, name perigee.AccountName, edit func(*perigee.SignIn) bool) (perigee.SignIn, error) {
	found, err := c.find(ctx, name)
	if err != nil {
		return found, err
	}
	store, err := c.house.accounts(ctx)
	if err != nil {
		return found, err
	}
	changed, err := change(ctx, store, found.Upstream, found.Email, edit)
	if errors.Is(err, errNoAccount) {
		return changed, removedMeanwhile(found.Email)
	}
	if err != nil {
		return changed, fmt.Errorf("account %s: %w", found.Email, err)
	}
	return changed, c.reload(ctx, found.Upstream)
}

func removedMeanwhile(email string) error {
	return perigee.Errorf(perigee.ClassNotFound, "the account %s was removed meanwhile", email)
}

// reload lets those who lend the accounts of an upstream know that they have changed.
func (c control) reload(ctx context.Context, upstream string) error {
	for _, r := range c.rosters() {
		if r.upstream == upstream {
			return r.load(ctx)
		}
	}
	return nil
}

// EnableAccount says whether an account may be used. Who enables one wants it used, so what it rests from is forgotten, also
// when it was enabled before.
func (c control) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	changed, err := c.edit(ctx, name, func(s *perigee.SignIn) bool {
		s.Enabled = enabled
		switch {
		case !enabled || s.State == perigee.AccountSignedOut || perigee.UsableState(s.State):
		case s.State == perigee.AccountMisnamed:
			s.State, s.Reason = perigee.AccountUntested, "" // whose it is will be asked again
		default:
			s.State, s.Reason = perigee.AccountReady, ""
		}
		return true
	})
	if err != nil || !enabled {
		return accountRow(changed), err
	}
	for _, r := range c.rosters() {
		if r.upstream == changed.Upstream {
			err = r.pool.Clear(changed.Email)
		}
	}
	changed.Cooldowns = nil
	return accountRow(changed), err
}

// RemoveAccount forgets an account.
func (c control) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	found, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	store, err := c.house.accounts(ctx)
	if err != nil {
		return err
	}
	if _, err := store.RemoveSignIn(ctx, found.Upstream, found.Email); err != nil {
		return err
	}
	return c.reload(ctx, found.Upstream)
}

// UseAccount makes an account the preferred one of its upstream.
func (c control) UseAccount(ctx context.Context, name perigee.AccountName) error {
	found, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	r, err := c.roster(found.Upstream)
	if err != nil {
		return err
	}
	err = r.store.PreferSignIn(ctx, found.Upstream, found.Email)
	if errors.Is(err, perigee.ErrAccountChanged) {
		return removedMeanwhile(found.Email)
	}
	if err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	return r.pool.Use(found.Email)
}
