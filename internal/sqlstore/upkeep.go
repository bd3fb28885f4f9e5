package sqlstore

import (
	"context"
	"time"
)

// upkeepRows is how many rows one transaction of Upkeep changes: few enough that calls which are saved at the same time hardly wait.
const upkeepRows = 500

const (
	selectUncounted = `SELECT id, ` + callSums + ` FROM calls WHERE NOT counted AND outcome <> 'open' ORDER BY time_us LIMIT $1`
	markCounted     = `UPDATE calls SET counted = TRUE WHERE id = $1`
	selectOldCalls  = `SELECT id FROM calls WHERE time_us < $1 AND counted ORDER BY time_us LIMIT $2`
	deleteCall      = `DELETE FROM calls WHERE id = $1`
)

// Upkeep does a small part of what is to be done in the background, and says whether there is more to do at once: it adds calls
// to the daily sums that are not in them yet, and then removes calls that began before a time; a zero time removes none. Calls
// that are open, or not in the sums, are never removed. It also removes stored responses that have expired, and what is
// beyond the limits of responses, sessions, signatures and audit entries. Of replicas that do this at the same time one does it.
func (s *Store) Upkeep(ctx context.Context, before time.Time) (removed int, more bool, err error) {
	if err := s.writable("keep calls"); err != nil {
		return 0, false, err
	}
	summed, err := s.upkeep(ctx, s.countSome)
	if err == nil && !before.IsZero() {
		removed, err = s.upkeep(ctx, func(ctx context.Context, tx bulkTx) (int, error) { return s.removeSome(ctx, tx, before) })
	}
	more = max(summed, removed) == upkeepRows
	for _, keep := range []func(context.Context) (bool, error){
		s.keepOld, s.trimResponses, s.boundSessions, s.boundSignatures, s.boundRequests, s.boundAudit,
	} {
		if err == nil {
			var some bool
			some, err = keep(ctx)
			more = more || some
		}
	}
	return removed, more, s.explain("sum up and remove calls in", err)
}

// upkeep runs one piece of work in a transaction, if no other replica is at it.
func (s *Store) upkeep(ctx context.Context, work func(ctx context.Context, tx bulkTx) (int, error)) (changed int, err error) {
	err = s.inBulk(ctx, func(ctx context.Context, tx bulkTx) error {
		ours, err := s.engine.turn(ctx, tx, "upkeep", true)
		if err == nil && ours {
			changed, err = work(ctx, tx)
		}
		return err
	})
	return changed, err
}

// countSome adds some calls to the sums: those that were cut off, and those that an older perigee saved.
func (s *Store) countSome(ctx context.Context, tx bulkTx) (int, error) {
	var ids []string
	difference := sums{}
	err := tx.query(ctx, selectUncounted+s.engine.skipLocked(), []any{upkeepRows}, func(row scanner) error {
		var id string
		var n counted
		if err := row.Scan(append([]any{&id}, n.into()...)...); err != nil {
			return err
		}
		ids = append(ids, id)
		difference.add(n, 1)
		return nil
	})
	if err == nil {
		err = tx.each(ctx, forEach(markCounted, ids))
	}
	if err == nil {
		err = s.writeSums(ctx, tx, difference)
	}
	return len(ids), err
}

// removeSome removes some of the calls that began before a time.
func (s *Store) removeSome(ctx context.Context, tx bulkTx, before time.Time) (int, error) {
	var ids []string
	err := tx.query(ctx, selectOldCalls+s.engine.skipLocked(), []any{before.UnixMicro(), upkeepRows}, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err == nil {
		err = tx.each(ctx, forEach(deleteCall, ids))
	}
	return len(ids), err
}

// forEach is a statement with one argument, for many.
func forEach(statement string, args []string) bulk {
	return bulk{statement: statement, rows: len(args), args: func(i int, into []any) ([]any, error) { return append(into, args[i]), nil }}
}
