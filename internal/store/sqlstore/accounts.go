package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// A Sealer encrypts secrets before they are stored. It decrypts them only for the same owner, so
// that a row cannot be passed off as another.
type Sealer interface {
	Seal(plain perigee.Secret, owner ...string) (sealed string, err error)
	Open(sealed string, owner ...string) (perigee.Secret, error)
}

// Accounts is the part of a Store that keeps sign-ins. Emails count in lower case: a person signs
// in once, however the address is written.
type Accounts struct {
	store  *Store
	sealer Sealer
}

var (
	_ perigee.AccountStore  = (*Accounts)(nil)
	_ perigee.RefreshLeaser = (*Accounts)(nil)
)

// Accounts returns the sign-ins of the database. Refresh tokens pass through sealer on their way in
// and out. It is valid until the Store is closed.
func (s *Store) Accounts(sealer Sealer) *Accounts { return &Accounts{store: s, sealer: sealer} }

// Shared reports whether other processes may be using the same accounts.
func (a *Accounts) Shared() bool { return a.store.Shared() }

// Sessions returns the sessions of an upstream.
func (a *Accounts) Sessions(upstream string) *Sessions { return a.store.Sessions(upstream) }

const (
	// An account has a row for each of its cooldowns that are not over, or one without.
	selectAccounts = `SELECT a.upstream, a.email, a.refresh, a.project_id, a.enabled, a.state, a.reason, a.added_us,
		a.preferred, a.generation,
		coalesce(c.family, ''), coalesce(c.pool, ''), coalesce(c.until_us, 0), coalesce(c.reason, '')
	FROM accounts AS a LEFT JOIN cooldowns AS c ON c.upstream = a.upstream AND c.email = a.email AND c.until_us > $1`
	orderAccounts = ` ORDER BY a.preferred DESC, a.added_us, a.place, c.family, c.pool`
	// Every transaction that changes an account updates this row first, so such transactions wait
	// for each other here.
	nextGeneration = `UPDATE account_generation SET last = last + 1, changes = changes + 1 RETURNING last`
	countChange    = `UPDATE account_generation SET changes = changes + 1`
	selectChanges  = `SELECT changes FROM account_generation`
	insertAccount  = `INSERT INTO accounts
	(upstream, email, refresh, project_id, state, reason, changed_us, generation, enabled, added_us, place)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $8)`
	// Signing in again renews the token; enabled and preferred are unchanged.
	renewAccount = `UPDATE accounts SET refresh = $3,
		project_id = CASE WHEN $4 = '' THEN project_id ELSE $4 END,
		state = $5, reason = $6, changed_us = $7, generation = $8
	WHERE upstream = $1 AND email = $2`
	changeAccount = `UPDATE accounts SET refresh = CASE WHEN $3 = '' THEN refresh ELSE $3 END, project_id = $4,
		state = CASE WHEN $3 = '' THEN state ELSE $5 END, reason = CASE WHEN $3 = '' THEN reason ELSE $6 END,
		changed_us = $7, generation = $8, enabled = $9, added_us = $10
	WHERE upstream = $1 AND email = $2 AND generation = $11`
	deleteAccount = `DELETE FROM accounts WHERE upstream = $1 AND email = $2`
	// The mark is removed first: the unique index allows one at any time.
	unmarkOthers = `UPDATE accounts SET preferred = FALSE WHERE upstream = $1 AND email <> $2 AND preferred`
	markAccount  = `UPDATE accounts SET preferred = TRUE WHERE upstream = $1 AND email = $2`
	// Nothing happens when the account is gone.
	saveCooldown = `INSERT INTO cooldowns (upstream, email, family, pool, until_us, reason)
	SELECT upstream, email, $3, $4, CAST($5 AS BIGINT), $6 FROM accounts WHERE upstream = $1 AND email = $2
	ON CONFLICT (upstream, email, family, pool) DO UPDATE SET until_us = excluded.until_us, reason = excluded.reason`
	dropCooldowns = `DELETE FROM cooldowns WHERE until_us <= $1`
)

// SignIns returns the accounts of an upstream, or of all when it is empty: preferred accounts
// first, then in the order in which they were added. They have the cooldowns that are not over. An
// account with a refresh token that cannot be decrypted is returned all the same, so that it can be
// seen and removed: it has no token, is signed out, and has the cause as its reason. Its row is not
// changed.
func (a *Accounts) SignIns(ctx context.Context, upstream string) ([]perigee.SignIn, error) {
	return a.find(ctx, upstream, "")
}

// SignIn returns one account, as SignIns would, and reports whether there is one.
func (a *Accounts) SignIn(ctx context.Context, upstream, email string) (s perigee.SignIn, found bool, err error) {
	list, err := a.find(ctx, upstream, fold(email))
	if err != nil || len(list) == 0 {
		return s, false, err
	}
	return list[0], true, nil
}

func (a *Accounts) find(ctx context.Context, upstream, email string) (list []perigee.SignIn, err error) {
	defer a.store.db.Explain("read accounts from", &err)
	where := conditions{args: []any{a.store.now().UnixMicro()}}
	if upstream != "" {
		where.add("a.upstream = ", upstream)
	}
	if email != "" {
		where.add("a.email = ", email)
	}
	// One statement, so that an account and its cooldowns are of one moment.
	err = a.store.db.Query(ctx, selectAccounts+where.String()+orderAccounts, where.args, func(row engine.Row) error {
		var s perigee.SignIn
		var c perigee.Cooldown
		var sealed string
		err := row.Scan(&s.Upstream, &s.Email, &sealed, &s.ProjectID, &s.Enabled, &s.State, &s.Reason,
			engine.Micros(&s.Added), &s.Preferred, &s.Generation, &c.Family, &c.Pool, engine.Micros(&c.Until), &c.Reason)
		if err != nil {
			return err
		}
		if n := len(list); n == 0 || list[n-1].Upstream != s.Upstream || list[n-1].Email != s.Email {
			if s.Refresh, err = a.sealer.Open(sealed, owner(s.Upstream, s.Email)...); err != nil {
				s.Refresh, s.State, s.Reason = perigee.Secret{}, perigee.AccountSignedOut, err.Error()
			}
			list = append(list, s)
		}
		if last := &list[len(list)-1]; c.Until.UnixMicro() != 0 {
			last.Cooldowns = append(last.Cooldowns, c)
		}
		return nil
	})
	return list, err
}

// change runs work in a transaction that has reached the disk when it returns: a provider may
// already have invalidated the token that the new one replaces, so a power cut must not restore the
// old one.
func (a *Accounts) change(ctx context.Context, doing string, work func(ctx context.Context, tx engine.Tx) error) error {
	err := a.store.db.TransactDurably(ctx, doing, work)
	if errors.Is(err, perigee.ErrAccountChanged) {
		return perigee.ErrAccountChanged
	}
	return err
}

// changeOne runs a statement that has to change a row; otherwise it returns
// perigee.ErrAccountChanged.
func changeOne(ctx context.Context, tx engine.Tx, statement string, args ...any) error {
	changed, err := tx.Exec(ctx, statement, args...)
	if err == nil && changed == 0 {
		err = perigee.ErrAccountChanged
	}
	return err
}

// AddSignIns adds accounts, and gives those that are there already a new refresh token, state and
// reason, and a project if it names one; all or none. An account without a state is ready, one
// without a time was added now. A new account is not preferred, even if the list has it so, and a
// preferred one stays so: see PreferSignIn. added[i] reports whether list[i] is new.
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
	err = a.change(ctx, fmt.Sprintf("add %d accounts to", len(list)), func(ctx context.Context, tx engine.Tx) error {
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

func (a *Accounts) addOne(ctx context.Context, tx engine.Tx, s *perigee.SignIn) (added bool, err error) {
	args, err := a.values(ctx, tx, s)
	if err != nil {
		return false, err
	}
	if renewed, err := tx.Exec(ctx, renewAccount, args[:8]...); err != nil || renewed > 0 {
		return false, err
	}
	_, err = tx.Exec(ctx, insertAccount, args...)
	return true, err
}

// ChangeSignIn writes everything of an account but its cooldowns and whether it is preferred, if
// its generation is still s.Generation; otherwise, also when it is gone, it returns
// perigee.ErrAccountChanged. It returns the new generation. If s has no refresh token, the stored
// token and state are not changed, so a caller that could not decrypt the token does not lose it.
func (a *Accounts) ChangeSignIn(ctx context.Context, s perigee.SignIn) (generation int64, err error) {
	read := s.Generation
	if err := complete(&s, a.store.now()); err != nil {
		return 0, err
	}
	err = a.change(ctx, "change account "+s.Email+" in", func(ctx context.Context, tx engine.Tx) error {
		args, err := a.values(ctx, tx, &s)
		if err != nil {
			return err
		}
		return changeOne(ctx, tx, changeAccount, append(args, read)...)
	})
	if err != nil {
		return 0, err
	}
	return s.Generation, nil
}

// RemoveSignIn removes an account with its cooldowns and reports whether there was one.
func (a *Accounts) RemoveSignIn(ctx context.Context, upstream, email string) (removed bool, err error) {
	email = fold(email)
	err = a.change(ctx, "remove account "+email+" from", func(ctx context.Context, tx engine.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		rows, err := tx.Exec(ctx, deleteAccount, upstream, email)
		removed = rows > 0
		return err
	})
	return removed && err == nil, err
}

// PreferSignIn makes an account the preferred one of its upstream, in place of the previous one. If
// it does not exist, PreferSignIn changes nothing and returns perigee.ErrAccountChanged. The
// generation does not change, so a concurrent token refresh of the account is not disturbed.
func (a *Accounts) PreferSignIn(ctx context.Context, upstream, email string) error {
	email = fold(email)
	return a.change(ctx, "prefer account "+email+" in", func(ctx context.Context, tx engine.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, unmarkOthers, upstream, email); err != nil {
			return err
		}
		return changeOne(ctx, tx, markAccount, upstream, email)
	})
}

// SaveCooldown keeps a cooldown of an account until it is over, in place of the one that there was
// for the same family and pool; one that is over already ends it. It does not change the account's
// generation. For an account that is not there it does nothing. Unlike other writes it may be lost
// when the power goes, as it can be learned again.
func (a *Accounts) SaveCooldown(ctx context.Context, upstream, email string, c perigee.Cooldown) error {
	email = fold(email)
	return a.store.db.Transact(ctx, "save cooldown of "+email+" in", func(ctx context.Context, tx engine.Tx) error {
		if _, err := tx.Exec(ctx, countChange); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, saveCooldown, upstream, email, c.Family, c.Pool, c.Until.UnixMicro(), c.Reason); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, dropCooldowns, a.store.now().UnixMicro())
		return err
	})
}

// LeaseRefresh waits until neither this process nor another replica refreshes an account, and
// blocks them until release is called. The lease of a process that is killed ends. In a store that
// may not write release is nil.
func (a *Accounts) LeaseRefresh(ctx context.Context, upstream, email string) (release func(), err error) {
	email = fold(email)
	defer a.store.db.Explain("wait for the turn to refresh "+email+" in", &err)
	return a.store.db.Lease(ctx, upstream, email)
}

// Changes counts the changes of accounts, cooldowns included, by any process. While it stays the
// same there is nothing new to read.
func (s *Store) Changes(ctx context.Context) (changes int64, err error) {
	defer s.db.Explain("read changes of accounts from", &err)
	_, err = engine.One(ctx, s.db, selectChanges, nil, &changes)
	return changes, err
}

// values takes the next generation, encrypts the token and gives the values of a row as the
// statements count them.
func (a *Accounts) values(ctx context.Context, tx engine.Tx, s *perigee.SignIn) ([]any, error) {
	if _, err := engine.One(ctx, tx, nextGeneration, nil, &s.Generation); err != nil {
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

// complete fills in defaults of a sign-in, and refuses one without an upstream or email.
func complete(s *perigee.SignIn, now time.Time) error {
	s.Email = fold(s.Email)
	if s.Upstream == "" || s.Email == "" {
		return perigee.Errorf(perigee.ClassInvalid, "an account needs an upstream and an email, and this one has %q and %q",
			s.Upstream, s.Email)
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

// owner returns the names that a refresh token is encrypted for.
func owner(upstream, email string) []string { return []string{"accounts", upstream, email} }
