package sqlstore

import (
	"context"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// Responses were one row each, with the whole conversation in it, before they became trees. These rows stay until they expire.
const (
	selectOldResponse = `SELECT created_us, expires_us, input, output, response FROM responses
		WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	deleteOldResponse = `DELETE FROM responses WHERE id = $1`
	removeOldResponse = `DELETE FROM responses WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	oldResponseBytes  = `octet_length(input) + octet_length(output) + octet_length(response)`
	sumOldResponses   = `SELECT count(*), CAST(coalesce(sum(` + oldResponseBytes + `), 0) AS BIGINT) FROM responses`
	selectFirstOld    = `SELECT id, expires_us, ` + oldResponseBytes + ` FROM responses ORDER BY expires_us, id LIMIT $1`
)

// readOld reads a response from an old row into r.
func (s *Store) readOld(ctx context.Context, r *perigee.StoredResponse, args []any) (*perigee.StoredResponse, error) {
	var input, output, response string
	found, err := engine.One(ctx, s.db, selectOldResponse, args,
		engine.Micros(&r.Created), engine.Micros(&r.Expires), &input, &output, &response)
	if err == nil && !found {
		err = errNoResponse(r.ID)
	}
	if err != nil {
		return nil, err
	}
	r.Input, r.Output, r.Response = []byte(input), []byte(output), []byte(response)
	return r, nil
}

// removeOld removes an old row of a key, if there is one that has not expired.
func removeOld(ctx context.Context, tx engine.Tx, key, id string, now int64) (found bool, err error) {
	removed, err := tx.Exec(ctx, removeOldResponse, id, key, now)
	return removed > 0, err
}

// trimOld removes old rows that have expired, and the oldest ones until so many bytes are free.
func (s *Store) trimOld(ctx context.Context, over int64) (freed int64, removed int, err error) {
	now := s.now().UnixMicro()
	err = s.db.Transact(ctx, "remove stored responses in", func(ctx context.Context, tx engine.Tx) error {
		freed, removed = 0, 0
		ours, err := s.db.TryLock(ctx, tx, "stored responses")
		if err != nil || !ours {
			return err
		}
		var ids []string
		err = tx.Query(ctx, selectFirstOld, []any{trimRows}, func(row engine.Row) error {
			var id string
			var expires, size int64
			if err := row.Scan(&id, &expires, &size); err != nil {
				return err
			}
			if expires <= now || freed < over {
				ids = append(ids, id)
				freed += size
			}
			return nil
		})
		removed = len(ids)
		if err == nil {
			err = tx.Each(ctx, engine.ForEach(deleteOldResponse, ids))
		}
		return err
	})
	if err == nil {
		s.responses.oldBytes.Add(-freed)
	}
	return freed, removed, err
}

// keepOld counts the old rows and removes some of those that have expired. Once there are none, there never will be again,
// unless an older perigee shares the database.
func (s *Store) keepOld(ctx context.Context) (more bool, err error) {
	var rows, size int64
	if _, err := engine.One(ctx, s.db, sumOldResponses, nil, &rows, &size); err != nil {
		return false, err
	}
	s.responses.oldBytes.Store(size)
	if rows == 0 {
		return false, nil
	}
	_, removed, err := s.trimOld(ctx, 0)
	return removed == trimRows, err
}
