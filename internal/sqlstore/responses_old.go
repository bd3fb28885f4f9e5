package sqlstore

import (
	"context"
	"time"

	"perigee"
)

// Responses were one row each, with the whole conversation in it, before they became trees. These rows stay until they expire.
const (
	selectOldResponse = `SELECT created_us, expires_us, input, output, response FROM responses WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	deleteOldResponse = `DELETE FROM responses WHERE id = $1`
	findOldResponse   = `SELECT count(*) FROM responses WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	oldResponseBytes  = `octet_length(input) + octet_length(output) + octet_length(response)`
	sumOldResponses   = `SELECT count(*), CAST(coalesce(sum(` + oldResponseBytes + `), 0) AS BIGINT) FROM responses`
	selectFirstOld    = `SELECT id, expires_us, ` + oldResponseBytes + ` FROM responses ORDER BY expires_us, id LIMIT $1`
)

// readOld reads a response from an old row into r.
func (s *Store) readOld(ctx context.Context, r *perigee.StoredResponse, args []any) (*perigee.StoredResponse, error) {
	var created, expires int64
	var input, output, response string
	if err := s.one(ctx, selectOldResponse, args, &created, &expires, &input, &output, &response); err != nil {
		return nil, err
	}
	r.Created, r.Expires = time.UnixMicro(created).UTC(), time.UnixMicro(expires).UTC()
	r.Input, r.Output, r.Response = []byte(input), []byte(output), []byte(response)
	return r, nil
}

// removeOld removes an old row of a key, if there is one that has not expired.
func removeOld(ctx context.Context, tx bulkTx, key, id string, now int64) (found bool, err error) {
	var rows int
	err = tx.query(ctx, findOldResponse, []any{id, key, now}, func(row scanner) error { return row.Scan(&rows) })
	if err == nil && rows > 0 {
		err = tx.each(ctx, once(deleteOldResponse, id))
	}
	return rows > 0, err
}

// trimOld removes old rows that have expired, and the oldest ones until so many bytes are free.
func (s *Store) trimOld(ctx context.Context, over int64) (freed int64, removed int, err error) {
	now := s.now().UnixMicro()
	err = s.inBulk(ctx, func(ctx context.Context, tx bulkTx) error {
		freed, removed = 0, 0
		ours, err := s.engine.turn(ctx, tx, "stored responses", true)
		if err != nil || !ours {
			return err
		}
		var ids []string
		err = tx.query(ctx, selectFirstOld, []any{trimRows}, func(row scanner) error {
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
			err = tx.each(ctx, forEach(deleteOldResponse, ids))
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
	if err := s.one(ctx, sumOldResponses, nil, &rows, &size); err != nil {
		return false, err
	}
	s.responses.oldBytes.Store(size)
	if rows == 0 {
		return false, nil
	}
	_, removed, err := s.trimOld(ctx, 0)
	return removed == trimRows, err
}
