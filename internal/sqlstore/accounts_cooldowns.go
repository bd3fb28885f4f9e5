package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"perigee"
)

const (
	// Nothing happens when the account is gone.
	saveCooldown = `INSERT INTO cooldowns (upstream, email, family, pool, until_us, reason)
	SELECT upstream, email, $3, $4, CAST($5 AS BIGINT), $6 FROM accounts WHERE upstream = $1 AND email = $2
	ON CONFLICT (upstream, email, family, pool) DO UPDATE SET until_us = excluded.until_us, reason = excluded.reason`
	dropCooldowns   = `DELETE FROM cooldowns WHERE until_us <= $1`
	selectCooldowns = `SELECT upstream, email, family, pool, until_us, reason FROM cooldowns`
	orderCooldowns  = ` ORDER BY upstream, email, family, pool`
)

// SaveCooldown keeps a cooldown of an account until it is over, in place of the one that there was for the same family and
// pool; one that is over already ends it. It does not change the account's generation. For an account that is not there it
// does nothing. Unlike other writes it may be lost when the power goes, as it can be learned again.
func (a *Accounts) SaveCooldown(ctx context.Context, upstream, email string, c perigee.Cooldown) error {
	if err := a.store.writable("save cooldown of " + email); err != nil {
		return err
	}
	email = fold(email)
	return a.store.explain("save cooldown of "+email+" in", a.store.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, countChange); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, saveCooldown, upstream, email, c.Family, c.Pool, c.Until.UnixMicro(), c.Reason); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, dropCooldowns, a.store.now().UnixMicro())
		return err
	}))
}

// addCooldowns gives each account of the list, which was selected by where, its cooldowns.
func (a *Accounts) addCooldowns(ctx context.Context, tx *sql.Tx, list []perigee.SignIn, where conditions) error {
	type name struct{ upstream, email string }
	places := make(map[name]int, len(list))
	for i := range list {
		places[name{list[i].Upstream, list[i].Email}] = i
	}
	where.add("until_us > ", a.store.now().UnixMicro())
	rows, err := tx.QueryContext(ctx, selectCooldowns+where.String()+orderCooldowns, where.args...)
	return eachRow(rows, err, func(rows *sql.Rows) error {
		var n name
		var c perigee.Cooldown
		var until int64
		if err := rows.Scan(&n.upstream, &n.email, &c.Family, &c.Pool, &until, &c.Reason); err != nil {
			return err
		}
		c.Until = time.UnixMicro(until).UTC()
		if i, ok := places[n]; ok {
			list[i].Cooldowns = append(list[i].Cooldowns, c)
		}
		return nil
	})
}
