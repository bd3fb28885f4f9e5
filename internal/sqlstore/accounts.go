package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
)

// A Sealer keeps secrets from whoever reads the database. What it seals it opens again only for the same owner, so that
// a row cannot be passed off as another.
type Sealer interface {
	Seal(plain perigee.Secret, owner ...string) (sealed string, err error)
	Open(sealed string, owner ...string) (perigee.Secret, error)
}

// Accounts is the part of a Store that keeps sign-ins. Emails count in lower case: a person signs in once, however
// the address is written.
type Accounts struct {
	store  *Store
	sealer Sealer
}

var _ perigee.AccountStore = (*Accounts)(nil)

// Accounts returns the sign-ins of the database. Refresh tokens pass through sealer on their way in and out. It is
// valid until the Store is closed.
func (s *Store) Accounts(sealer Sealer) *Accounts { return &Accounts{store: s, sealer: sealer} }

// Shared says whether other processes may be using the same accounts.
func (a *Accounts) Shared() bool { return a.store.Shared() }

// Sessions returns what is known about the sessions of an upstream.
func (a *Accounts) Sessions(upstream string) *Sessions { return a.store.Sessions(upstream) }

const (
	selectAccounts = `SELECT upstream, email, refresh, project_id, enabled, state, reason, added_us, preferred, generation FROM accounts`
	orderAccounts  = ` ORDER BY preferred DESC, added_us, place`
	// What changes an account takes this row first, so that those who do so wait for each other here.
	nextGeneration = `UPDATE account_generation SET last = last + 1, changes = changes + 1 RETURNING last`
	countChange    = `UPDATE account_generation SET changes = changes + 1`
	selectChanges  = `SELECT changes FROM account_generation`
	insertAccount  = `INSERT INTO accounts
	(upstream, email, refresh, project_id, state, reason, changed_us, generation, enabled, added_us, place)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $8)`
	// Signing in again proves who one is; it changes nothing that was decided about the account here.
	renewAccount = `UPDATE accounts SET refresh = $3,
		project_id = CASE WHEN $4 = '' THEN project_id ELSE $4 END,
		state = $5, reason = $6, changed_us = $7, generation = $8
	WHERE upstream = $1 AND email = $2`
	changeAccount = `UPDATE accounts SET refresh = CASE WHEN $3 = '' THEN refresh ELSE $3 END,
		project_id = $4, state = CASE WHEN $3 = '' THEN state ELSE $5 END, reason = CASE WHEN $3 = '' THEN reason ELSE $6 END, changed_us = $7, generation = $8, enabled = $9, added_us = $10
	WHERE upstream = $1 AND email = $2 AND generation = $11`
	deleteAccount = `DELETE FROM accounts WHERE upstream = $1 AND email = $2`
)

// SignIns returns the accounts of an upstream, or of all when it is empty: those that are preferred, then the others in the order
// in which they were added. They have the cooldowns that are not over. An account whose refresh token cannot be opened is there all the same, so that it can be
// seen and removed: it has no token, is signed out, and says why. Its row stays as it is.
func (a *Accounts) SignIns(ctx context.Context, upstream string) ([]perigee.SignIn, error) {
	var where conditions
	if upstream != "" {
		where.add("upstream = ", upstream)
	}
	return a.find(ctx, where)
}

// SignIn returns one account, as SignIns would, and says whether there is one.
func (a *Accounts) SignIn(ctx context.Context, upstream, email string) (s perigee.SignIn, found bool, err error) {
	var where conditions
	where.add("upstream = ", upstream)
	where.add("email = ", fold(email))
	list, err := a.find(ctx, where)
	if err != nil || len(list) == 0 {
		return s, false, err
	}
	return list[0], true, nil
}

func (a *Accounts) find(ctx context.Context, where conditions) (list []perigee.SignIn, err error) {
	err = a.store.bounded(ctx, func(ctx context.Context) (err error) {
		list, err = a.signIns(ctx, where)
		return err
	})
	if err != nil {
		return nil, a.store.explain("read accounts from", err)
	}
	return list, nil
}

func (a *Accounts) signIns(ctx context.Context, where conditions) ([]perigee.SignIn, error) {
	// One transaction, so that an account and its cooldowns are of one moment.
	tx, err := a.store.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var list []perigee.SignIn
	rows, err := tx.QueryContext(ctx, selectAccounts+where.String()+orderAccounts, where.args...)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		s, err := a.scan(rows)
		list = append(list, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, a.addCooldowns(ctx, tx, list, where)
}

func (a *Accounts) scan(rows *sql.Rows) (s perigee.SignIn, err error) {
	var sealed string
	var added int64
	err = rows.Scan(&s.Upstream, &s.Email, &sealed, &s.ProjectID, &s.Enabled, &s.State, &s.Reason, &added, &s.Preferred, &s.Generation)
	if err != nil {
		return s, err
	}
	s.Added = time.UnixMicro(added).UTC()
	s.Refresh, err = a.sealer.Open(sealed, owner(s.Upstream, s.Email)...)
	if err != nil {
		s.Refresh, s.State, s.Reason = perigee.Secret{}, perigee.AccountSignedOut, err.Error()
	}
	return s, nil
}

// AddSignIns adds accounts, and gives those that are there already a new refresh token, state and reason, and a
// project if it names one; all or none. An account without a state is ready, one without a time was added now. Who is new is
// not preferred, whatever the list says, and who was preferred stays so: see PreferSignIn.
func (a *Accounts) AddSignIns(ctx context.Context, list []perigee.SignIn) (added []bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	list = slices.Clone(list)
	for i := range list {
		if err := complete(&list[i], a.store.now()); err != nil {
			return nil, err
		}
		if list[i].Refresh.IsZero() {
			return nil, perigee.Errorf(perigee.ClassInvalid, "account %s has no refresh token", list[i].Email)
		}
	}
	added = make([]bool, len(list))
	err = a.write(ctx, fmt.Sprintf("add %d accounts to", len(list)), func(ctx context.Context, tx *sql.Tx) error {
		for i := range list {
			var err error
			if added[i], err = a.addOne(ctx, tx, &list[i]); err != nil {
				return fmt.Errorf("account %s: %w", list[i].Email, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

func (a *Accounts) addOne(ctx context.Context, tx *sql.Tx, s *perigee.SignIn) (added bool, err error) {
	args, err := a.values(ctx, tx, s)
	if err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, renewAccount, args[:8]...)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, insertAccount, args...)
	return true, err
}

// ChangeSignIn writes everything of an account but its cooldowns and whether it is preferred, if its generation is still
// s.Generation; otherwise, also when it is gone, it returns perigee.ErrAccountChanged. It returns the new generation. An s without a refresh token
// leaves the one that is stored, and the state with it: who could not open it neither loses it nor knows better.
func (a *Accounts) ChangeSignIn(ctx context.Context, s perigee.SignIn) (generation int64, err error) {
	read := s.Generation
	if err := complete(&s, a.store.now()); err != nil {
		return 0, err
	}
	err = a.write(ctx, "change account "+s.Email+" in", func(ctx context.Context, tx *sql.Tx) error {
		args, err := a.values(ctx, tx, &s)
		if err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, changeAccount, append(args, read)...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return perigee.ErrAccountChanged
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.Generation, nil
}

// RemoveSignIn forgets an account with its cooldowns and says whether there was one.
func (a *Accounts) RemoveSignIn(ctx context.Context, upstream, email string) (removed bool, err error) {
	email = fold(email)
	err = a.write(ctx, "remove account "+email+" from", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, countChange); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, deleteAccount, upstream, email)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		removed = n > 0
		return err
	})
	return removed && err == nil, err
}

// Changes counts what was changed about accounts, cooldowns included, by whomever. While it stays the same there is
// nothing new to read.
func (s *Store) Changes(ctx context.Context) (changes int64, err error) {
	err = s.one(ctx, selectChanges, nil, &changes)
	return changes, s.explain("read changes of accounts from", err)
}

// values takes the next generation, seals the token and gives the values of a row as the statements count them.
func (a *Accounts) values(ctx context.Context, tx *sql.Tx, s *perigee.SignIn) ([]any, error) {
	if err := tx.QueryRowContext(ctx, nextGeneration).Scan(&s.Generation); err != nil {
		return nil, err
	}
	sealed := ""
	if !s.Refresh.IsZero() {
		var err error
		if sealed, err = a.sealer.Seal(s.Refresh, owner(s.Upstream, s.Email)...); err != nil {
			return nil, err
		}
	}
	return []any{s.Upstream, s.Email, sealed, s.ProjectID, s.State, s.Reason,
		a.store.now().UnixMicro(), s.Generation, s.Enabled, s.Added.UnixMicro()}, nil
}

// complete fills in what a sign-in may leave out, and refuses one that nobody could find again.
func complete(s *perigee.SignIn, now time.Time) error {
	s.Email = fold(s.Email)
	if s.Upstream == "" || s.Email == "" {
		return perigee.Errorf(perigee.ClassInvalid, "an account needs an upstream and an email, and this one has %q and %q", s.Upstream, s.Email)
	}
	if s.State == "" {
		s.State = perigee.AccountReady
	}
	if s.Added.IsZero() {
		s.Added = now
	}
	return nil
}

func fold(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// owner is what a refresh token is sealed for.
func owner(upstream, email string) []string { return []string{"accounts", upstream, email} }
