package sqlstore

import (
	"context"
	"sync"
)

// What calls leave behind for some hours is bounded in number or bytes as well: a client can make calls quickly.
const (
	maxSessions       = 100_000
	maxSignatureBytes = 256 << 20

	countSessions     = `SELECT count(*) FROM sessions`
	deleteSessions    = `DELETE FROM sessions WHERE (upstream, session, family) IN (SELECT upstream, session, family FROM sessions ORDER BY expires_us LIMIT $1)`
	signatureSize     = `octet_length(key) + octet_length(value) + octet_length(seal)`
	sumSignatures     = `SELECT CAST(coalesce(sum(` + signatureSize + `), 0) AS BIGINT) FROM signatures`
	selectFirstSigned = `SELECT key, ` + signatureSize + ` FROM signatures ORDER BY expires_us LIMIT $1`
	deleteSignature   = `DELETE FROM signatures WHERE key = $1`
	dropRequests      = `DELETE FROM key_requests WHERE paid_us < ` + databaseNow + ` - 86400000000`
)

// bounds is what a Store knows about tables that it has to bound.
type bounds struct {
	sessions       int64 // the most rows
	signatureLimit int64 // the most bytes

	mu         sync.Mutex
	signatures int64 // bytes, as far as they are known: at least what there is, but for other replicas
	counted    int   // how many more times that is good enough
}

// recount is how often Upkeep believes what it knows about signatures before it adds them up again: for an hour.
const recount = 60

// signed adds what is saved to what is known.
func (b *bounds) signed(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signatures += bytes
}

// boundSessions removes the oldest sessions if there are too many.
func (s *Store) boundSessions(ctx context.Context) (more bool, err error) {
	var rows int64
	if err := s.one(ctx, countSessions, nil, &rows); err != nil || rows <= s.bounds.sessions {
		return false, err
	}
	_, err = s.execute(ctx, deleteSessions, min(rows-s.bounds.sessions, upkeepRows))
	return rows-s.bounds.sessions > upkeepRows, err
}

// boundSignatures removes the oldest signatures if they have too many bytes.
func (s *Store) boundSignatures(ctx context.Context) (more bool, err error) {
	b := &s.bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counted--; b.counted < 0 || b.signatures > b.signatureLimit {
		if err := s.one(ctx, sumSignatures, nil, &b.signatures); err != nil {
			return false, err
		}
		b.counted = recount
	}
	over := b.signatures - b.signatureLimit
	if over <= 0 {
		return false, nil
	}
	freed := int64(0)
	_, err = s.upkeep(ctx, func(ctx context.Context, tx bulkTx) (int, error) {
		var keys []string
		err := tx.query(ctx, selectFirstSigned, []any{upkeepRows}, func(row scanner) error {
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
			err = tx.each(ctx, forEach(deleteSignature, keys))
		}
		return len(keys), err
	})
	b.signatures -= freed
	return err == nil && freed > 0 && freed < over, err
}

// boundRequests removes request counts that are too old to limit a key.
func (s *Store) boundRequests(ctx context.Context) (more bool, err error) {
	if s.Shared() {
		_, err = s.execute(ctx, dropRequests)
	}
	return false, err
}
