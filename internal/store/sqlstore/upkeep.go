package sqlstore

import (
	"context"
	"sync"
	"time"

	"perigee/internal/store/sqlstore/engine"
)

// upkeepRows is how many rows one transaction of Upkeep changes: few enough that calls which are
// saved at the same time hardly wait.
const upkeepRows = 500

const (
	selectUncounted = `SELECT id FROM calls WHERE NOT counted AND outcome <> 'open' ORDER BY time_us LIMIT $1`
	markCounted     = `UPDATE calls SET counted = TRUE WHERE id IN (SELECT id FROM picked) RETURNING ` + callSums
	selectOldCalls  = `SELECT id FROM calls WHERE time_us < $1 AND counted ORDER BY time_us LIMIT $2`
	deleteCalls     = `DELETE FROM calls WHERE id IN (SELECT id FROM picked)`
)

// Upkeep does a small part of the background work, and returns whether there is more to do at once:
// it adds calls to the daily sums that are not in them yet, and then removes calls that began
// before a time; a zero time removes none. Calls that are open, or not in the sums, are never
// removed. It also removes stored responses that have expired, and rows beyond the limits of
// responses, sessions, signatures and audit entries. Of replicas that do this at the same time one
// does it.
func (s *Store) Upkeep(ctx context.Context, before time.Time) (removed int, more bool, err error) {
	defer s.db.Explain(upkeepDoing, &err)
	summed, err := s.countSome(ctx, upkeepRows)
	if err == nil && !before.IsZero() {
		removed, err = s.upkeep(ctx, func(ctx context.Context, tx engine.Tx) (int, error) { return s.removeSome(ctx, tx, before) })
	}
	more = max(summed, removed) == upkeepRows
	for _, keep := range []func(context.Context) (bool, error){
		s.trimResponses, s.boundSessions, s.boundSignatures, s.boundRequests, s.boundAudit, s.indexCalls,
	} {
		if err == nil {
			var some bool
			some, err = keep(ctx)
			more = more || some
		}
	}
	return removed, more, err
}

const upkeepDoing = "sum up and remove rows in"

// pickedRows names the rows of a query in the statement that follows. It is materialized, so that
// the query runs once.
func pickedRows(query string) string { return `WITH picked AS MATERIALIZED (` + query + `) ` }

// upkeep runs one piece of work in a transaction, if no other replica is at it.
func (s *Store) upkeep(ctx context.Context, work func(ctx context.Context, tx engine.Tx) (int, error)) (changed int, err error) {
	err = s.db.Transact(ctx, upkeepDoing, func(ctx context.Context, tx engine.Tx) error {
		ours, err := s.db.TryLock(ctx, tx, "upkeep")
		if err == nil && ours {
			changed, err = work(ctx, tx)
		}
		return err
	})
	return changed, err
}

// countSome adds up to a number of calls to the sums, and returns how many they were.
func (s *Store) countSome(ctx context.Context, rows int) (int, error) {
	return s.upkeep(ctx, func(ctx context.Context, tx engine.Tx) (int, error) {
		calls, err := engine.List(ctx, tx, pickedRows(selectUncounted+s.db.SkipLocked)+markCounted, []any{rows}, (*callCount).into)
		difference := sums{}
		for _, n := range calls {
			difference.add(n, 1)
		}
		if err == nil {
			err = s.writeSums(ctx, tx, difference)
		}
		return len(calls), err
	})
}

// A counting has the limits of counting calls.
type counting struct {
	// rows is how many calls one transaction of CountCalls adds to the sums.
	rows int
	// many is how many calls Usage adds up by itself without delay.
	many int
}

var defaultCounting = counting{rows: 2000, many: 10_000}

const countUncounted = `SELECT count(*) FROM (SELECT 1 FROM calls WHERE NOT counted LIMIT $1) AS uncounted`

// ManyUncounted reports whether so many calls are not in the daily sums that Usage is slow.
func (s *Store) ManyUncounted(ctx context.Context) (many bool, err error) {
	defer s.db.Explain("read calls from", &err)
	var calls int
	_, err = engine.One(ctx, s.db, countUncounted, []any{s.counting.many + 1}, &calls)
	return calls > s.counting.many, err
}

// CountCalls does the part of Upkeep that adds calls to the daily sums, all of it. Each transaction
// is kept: if CountCalls is interrupted, the next one continues, and other processes can do the same
// at the same time. It pauses for a quarter of the time: another process that writes, such as a
// daemon that starts, looks ten times a second whether it can, and gives up after five seconds.
func (s *Store) CountCalls(ctx context.Context) (err error) {
	defer s.db.Explain(upkeepDoing, &err)
	for {
		began := time.Now()
		counted, err := s.countSome(ctx, s.counting.rows)
		if err != nil || counted < s.counting.rows {
			return err
		}
		select {
		case <-time.After(time.Since(began) / 3):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// removeSome removes some of the calls that began before a time.
func (s *Store) removeSome(ctx context.Context, tx engine.Tx, before time.Time) (int, error) {
	removed, err := tx.Exec(ctx, pickedRows(selectOldCalls+s.db.SkipLocked)+deleteCalls, before.UnixMicro(), upkeepRows)
	return int(removed), err
}

// Limits in number or bytes for rows that calls leave behind for some hours: a client can make
// calls quickly.
const (
	maxSessions       = 100_000
	maxSignatureBytes = 256 << 20

	deleteSessions = `DELETE FROM sessions WHERE (upstream, session, family) IN (
		SELECT upstream, session, family FROM sessions ORDER BY expires_us DESC LIMIT $1 OFFSET $2)`
	signatureSize     = `octet_length(key) + octet_length(value) + octet_length(seal)`
	sumSignatures     = `SELECT CAST(coalesce(sum(` + signatureSize + `), 0) AS BIGINT) FROM signatures`
	selectFirstSigned = `SELECT key, ` + signatureSize + ` FROM signatures ORDER BY expires_us LIMIT $1`
	deleteSignature   = `DELETE FROM signatures WHERE key = $1`
	dropRequests      = `DELETE FROM key_requests WHERE paid_us < ` + databaseNow + ` - 86400000000`
)

// bounds is the state of a Store about tables with limits.
type bounds struct {
	sessions       int64 // the most rows
	signatureLimit int64 // the most bytes

	mu         sync.Mutex
	signatures int64 // bytes: at least the number without other replicas' rows
	counted    int   // how many more times Upkeep uses that number; see recount
}

// recount is how often Upkeep uses the number of bytes before it adds signatures up again: for an
// hour.
const recount = 60

// addSignatures counts signatures that were saved.
func (b *bounds) addSignatures(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signatures += bytes
}

// boundSessions removes the oldest sessions if there are too many.
func (s *Store) boundSessions(ctx context.Context) (more bool, err error) {
	removed, err := s.db.Exec(ctx, upkeepDoing, deleteSessions, upkeepRows, s.bounds.sessions)
	return removed == upkeepRows, err
}

// boundSignatures removes the oldest signatures if they have too many bytes.
func (s *Store) boundSignatures(ctx context.Context) (more bool, err error) {
	b := &s.bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counted--; b.counted < 0 || b.signatures > b.signatureLimit {
		if _, err := engine.One(ctx, s.db, sumSignatures, nil, &b.signatures); err != nil {
			return false, err
		}
		b.counted = recount
	}
	over := b.signatures - b.signatureLimit
	if over <= 0 {
		return false, nil
	}
	freed := int64(0)
	_, err = s.upkeep(ctx, func(ctx context.Context, tx engine.Tx) (int, error) {
		var keys []string
		err := tx.Query(ctx, selectFirstSigned, []any{upkeepRows}, func(row engine.Row) error {
			var key string
			var size int64
			err := row.Scan(&key, &size)
			if freed < over {
				freed += size
				keys = append(keys, key)
			}
			return err
		})
		if err == nil {
			err = tx.Each(ctx, engine.ForEach(deleteSignature, keys))
		}
		return len(keys), err
	})
	b.signatures -= freed
	return err == nil && freed > 0 && freed < over, err
}

// boundRequests removes request counts that are too old to limit a key.
func (s *Store) boundRequests(ctx context.Context) (more bool, err error) {
	if s.Shared() {
		_, err = s.db.Exec(ctx, upkeepDoing, dropRequests)
	}
	return false, err
}
