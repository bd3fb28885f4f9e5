package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/lib/match"
	"perigee/internal/store/sqlstore"
)

// A Control acts on the accounts of all upstreams. A daemon's serves the admin routes; commands
// without a daemon have one of their own.
type Control struct {
	Rosters func() []*Roster // of the upstreams in force that have accounts
	Router  func() Router    // in force
	Store   func(context.Context) (*sqlstore.Accounts, error)
	Now     func() time.Time
}

// A Router resolves models to upstreams.
type Router interface {
	Model(name string) string
	Upstreams(name string) []string
	// AccountsOf returns the name of the upstream that has the accounts for calls to an upstream;
	// it may be the same one.
	AccountsOf(upstream string) string
	// Within restricts a request for an account to the pools that calls to an upstream can use.
	Within(upstream string, req pool.Request) pool.Request
	Missing(ctx context.Context, model string) (unsure bool, err error)
}

// Roster finds the accounts of an upstream; of the only one that has accounts when it is not named.
func (c Control) Roster(upstream string) (*Roster, error) {
	list := c.Rosters()
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
			WithHint("name one with --upstream")
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no upstream %q has accounts", upstream).
		WithHint("these do: %s", strings.Join(known, ", "))
}

func noRoster() error {
	return perigee.Errorf(perigee.ClassNotFound, "no upstream that has accounts is configured").
		WithHint("add one of kind antigravity, or use kind gemini with an API key, which is recommended")
}

// Accounts lists the accounts by upstream in the order in which they are used, the preferred one
// first. Accounts of upstreams that are no longer configured come last.
func (c Control) Accounts(ctx context.Context) ([]perigee.AccountRow, error) {
	rosters := c.Rosters()
	if len(rosters) == 0 {
		return nil, nil
	}
	store, err := c.Store(ctx)
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
		status := r.status()
		for _, s := range stored {
			if s.Upstream != r.upstream {
				continue
			}
			a, known := status[s.Email]
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
		if !slices.ContainsFunc(rosters, func(r *Roster) bool { return r.upstream == s.Upstream }) {
			others = append(others, accountRow(s))
		}
	}
	return append(rows, others...), nil
}

func accountRow(s perigee.SignIn) perigee.AccountRow {
	row := perigee.AccountRow{Email: s.Email, Upstream: s.Upstream, Enabled: s.Enabled, Preferred: s.Preferred,
		ProjectID: s.ProjectID, State: s.State, Cooldowns: []perigee.Cooldown{}}
	if !perigee.UsableState(s.State) {
		row.Reason = s.Reason
	}
	row.Unopened = s.Refresh.IsZero() // no account is stored without one
	for _, c := range s.Cooldowns {
		c.Until = c.Until.UTC().Truncate(time.Second)
		row.Cooldowns = append(row.Cooldowns, c)
	}
	return row
}

// find returns the account of a name, and the store that has it.
func (c Control) find(ctx context.Context, name perigee.AccountName) (s perigee.SignIn, store *sqlstore.Accounts, err error) {
	email := strings.ToLower(strings.TrimSpace(name.Email))
	if email == "" {
		return s, nil, perigee.Errorf(perigee.ClassInvalid, "no account is named").WithHint("name it by its email")
	}
	if len(c.Rosters()) == 0 {
		return s, nil, noRoster()
	}
	if store, err = c.Store(ctx); err != nil {
		return s, nil, err
	}
	list, err := store.SignIns(ctx, name.Upstream)
	if err != nil {
		return s, nil, err
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
		return found[0], store, nil
	case len(found) > 1:
		return s, nil, perigee.Errorf(perigee.ClassInvalid, "%s is an account of several upstreams", email).
			WithHint("name one with --upstream")
	}
	e := perigee.Errorf(perigee.ClassNotFound, "there is no account %s", email)
	if near := match.NearestAddress(email, known); near != "" {
		return s, nil, e.WithHint("did you mean %s?", near)
	}
	return s, nil, e.WithHint("see `perigee account list`")
}

// ranks returns a function that ranks an account among the accounts that would be used now.
// Accounts of unknown rank come last.
func (c Control) ranks(ctx context.Context) func(perigee.AccountRow) int {
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

// edit changes an account in the store and in its roster.
func (c Control) edit(ctx context.Context, name perigee.AccountName, edit func(*perigee.SignIn) bool) (perigee.SignIn, error) {
	found, store, err := c.find(ctx, name)
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

// reload has the roster of an upstream read its accounts again.
func (c Control) reload(ctx context.Context, upstream string) error {
	for _, r := range c.Rosters() {
		if r.upstream == upstream {
			return r.load(ctx)
		}
	}
	return nil
}

// EnableAccount sets whether an account may be used. Enabling one ends its cooldowns, also
// when it was enabled before.
func (c Control) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	changed, err := c.edit(ctx, name, func(s *perigee.SignIn) bool {
		s.Enabled = enabled
		switch {
		case !enabled || s.State == perigee.AccountSignedOut || perigee.UsableState(s.State):
		case s.State == perigee.AccountMisnamed:
			s.State, s.Reason = perigee.AccountUntested, "" // the next use reads the email again
		default:
			s.State, s.Reason = perigee.AccountReady, ""
		}
		return true
	})
	if err != nil || !enabled {
		return accountRow(changed), err
	}
	for _, r := range c.Rosters() {
		if r.upstream == changed.Upstream {
			err = r.pool.Clear(changed.Email)
		}
	}
	changed.Cooldowns = nil
	return accountRow(changed), err
}

// RemoveAccount removes an account.
func (c Control) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	found, store, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	if _, err := store.RemoveSignIn(ctx, found.Upstream, found.Email); err != nil {
		return err
	}
	return c.reload(ctx, found.Upstream)
}

// UseAccount makes an account the preferred one of its upstream.
func (c Control) UseAccount(ctx context.Context, name perigee.AccountName) error {
	found, _, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	r, err := c.Roster(found.Upstream)
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
