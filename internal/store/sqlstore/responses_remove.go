package sqlstore

import (
	"context"

	"perigee/internal/store/sqlstore/engine"
)

const (
	selectRow = `SELECT client_key, items, members, bytes, expires_us FROM stored_responses WHERE id = $1`
	deleteRow = `DELETE FROM stored_responses WHERE id = $1`
	// selectEnd reads the end of a list that nothing else refers to, from the last segment on.
	selectEnd = `WITH RECURSIVE path (place, id, parent, bytes) AS (
		SELECT 0, id, parent, length(body) FROM response_items WHERE id = $1 AND refs = 1
		UNION ALL SELECT path.place + 1, i.id, i.parent, length(i.body) FROM path
			JOIN response_items AS i ON i.id = path.parent WHERE i.refs = 1
	) SELECT place, id, parent, bytes FROM path`
	deleteItem   = `DELETE FROM response_items WHERE id = $1`
	releaseItem  = `UPDATE response_items SET refs = refs - 1 WHERE id = $1`
	forgetTotals = `DELETE FROM response_totals WHERE client_key = $1 AND responses = 0`
)

// selectKnown returns a query for some segments by id.
func selectKnown(some int) string {
	return `SELECT id, named FROM response_items WHERE id IN (` + engine.Places(some) + `)`
}

// responsesOf returns the lock for the stored responses of a key: trees are shared among the
// responses of a key, never among keys.
func responsesOf(key string) string { return "responses of " + key }

// A responseRow is a response as far as it has to be known to remove it.
type responseRow struct {
	key            string
	items, members []byte
	bytes          int64
	expires        int64
}

// findRow reads the row of a response; nil if there is none.
func (s *Store) findRow(ctx context.Context, tx engine.Tx, id string) (found *responseRow, err error) {
	err = tx.Query(ctx, selectRow, []any{id}, func(row engine.Row) error {
		found = &responseRow{}
		return row.Scan(&found.key, &found.items, &found.members, &found.bytes, &found.expires)
	})
	return found, err
}

// dropRow removes the segments that only this response had, subtracts it from the totals, and
// returns the bytes that are free now. Its row is gone, or replaced, already.
func (s *Store) dropRow(ctx context.Context, tx engine.Tx, row *responseRow) (freed int64, err error) {
	removed := total{responses: -1, bytes: -row.bytes}
	for _, end := range [][]byte{row.items, row.members} {
		if err := removed.dropList(ctx, tx, end); err != nil {
			return 0, err
		}
	}
	if err := removed.write(ctx, tx, row.key); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, forgetTotals, row.key)
	return -removed.bytes, err
}

// dropList removes one reference to a segment, and removes it and those before it that nothing
// refers to any more.
func (d *total) dropList(ctx context.Context, tx engine.Tx, end []byte) error {
	if len(end) == 0 {
		return nil
	}
	var ids [][]byte
	rest, place := end, -1 // the segment before the last of them
	err := tx.Query(ctx, selectEnd, []any{end}, func(row engine.Row) error {
		var at int
		var id, parent []byte
		var size int64
		if err := row.Scan(&at, &id, &parent, &size); err != nil {
			return err
		}
		if at > place {
			place, rest = at, parent
		}
		ids = append(ids, id)
		d.items--
		d.bytes -= size + itemOverhead
		return nil
	})
	if err != nil {
		return err
	}
	err = tx.Each(ctx, engine.ForEach(deleteItem, ids))
	if err == nil && len(rest) > 0 {
		_, err = tx.Exec(ctx, releaseItem, rest)
	}
	return err
}

// DeleteResponse removes the response that a key has saved under an id. Responses that continue it
// are not changed.
func (s *Store) DeleteResponse(ctx context.Context, key, id string) error {
	now, text := s.now().UnixMicro(), s.db.Text
	return s.db.Transact(ctx, "delete response "+id+" from", func(ctx context.Context, tx engine.Tx) error {
		_, found, err := s.remove(ctx, tx, text(key), text(id), func(row *responseRow) bool { return row.expires > now })
		if err == nil && !found {
			err = errNoResponse(id)
		}
		return err
	})
}

// remove removes a response of a key if it exists and is wanted, and returns the number of bytes
// freed.
func (s *Store) remove(
	ctx context.Context, tx engine.Tx, key, id string, wanted func(*responseRow) bool,
) (freed int64, found bool, err error) {
	if err := s.db.Lock(ctx, tx, responsesOf(key)); err != nil {
		return 0, false, err
	}
	row, err := s.findRow(ctx, tx, id)
	if err != nil || row == nil || row.key != key || !wanted(row) {
		return 0, false, err
	}
	if _, err := tx.Exec(ctx, deleteRow, id); err != nil {
		return 0, false, err
	}
	freed, err = s.dropRow(ctx, tx, row)
	return freed, err == nil, err
}
