package sqlstore

import (
	"context"
	"errors"
	"time"

	"perigee/internal/store/sqlstore/engine"
)

const (
	selectKept = `SELECT (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM response_totals),
		(SELECT coalesce(min(expires_us), 0) FROM stored_responses)`
	selectFirst = `SELECT id, client_key FROM stored_responses ORDER BY expires_us, id LIMIT $1`
)

// LimitResponses sets how many bytes stored responses may take in all; 0 for any number. It takes
// effect with the next save, or with Upkeep.
func (s *Store) LimitResponses(limit int64) { s.responses.limit.Store(limit) }

// trimRows is how many responses one transaction removes: few enough that calls which are saved at
// the same time hardly wait.
const trimRows = 16

// responseState decides whether responses are removed.
type responseState struct {
	bytes int64
	first int64 // when the first response expires; 0 if there is none
}

// trimAfterSave removes a few responses that have expired, or exceed the limit after a save. Upkeep
// removes further ones.
func (s *Store) trimAfterSave(ctx context.Context, kept responseState) {
	if _, err := s.trim(ctx, kept); err != nil && !errors.Is(err, context.Canceled) {
		s.logger.Debug("stored responses cannot be removed", "error", err)
	}
}

// trimResponses removes responses that have expired, and the oldest ones as long as there are more
// bytes than the limit. It does a small part of that, and reports whether there is more to do.
func (s *Store) trimResponses(ctx context.Context) (more bool, err error) {
	var kept responseState
	if _, err := engine.One(ctx, s.db, selectKept, nil, &kept.bytes, &kept.first); err != nil {
		return false, err
	}
	return s.trim(ctx, kept)
}

func (s *Store) trim(ctx context.Context, kept responseState) (more bool, err error) {
	now, limit := s.now().UnixMicro(), s.responses.limit.Load()
	over := limit > 0 && kept.bytes > limit
	expired := kept.first != 0 && kept.first <= now
	if !over && !expired {
		return false, nil
	}
	var freed int64
	var removed, early int
	err = s.db.Transact(ctx, "remove stored responses in", func(ctx context.Context, tx engine.Tx) error {
		freed, removed, early = 0, 0, 0
		ours, err := s.db.TryLock(ctx, tx, "stored responses")
		if err != nil || !ours {
			return err
		}
		ids, err := engine.List(ctx, tx, selectFirst, []any{trimRows}, func(n *storedName) []any { return []any{&n.id, &n.key} })
		for _, r := range ids {
			if err != nil {
				break
			}
			isOver := limit > 0 && kept.bytes-freed > limit
			n, found, failed := s.remove(ctx, tx, r.key, r.id, func(row *responseRow) bool { return isOver || row.expires <= now })
			err = failed
			if found {
				freed += n
				removed++
				if isOver {
					early++
				}
			}
		}
		return err
	})
	if err == nil {
		s.logTrimmed(limit, early, freed)
	}
	return removed == trimRows, err
}

type storedName struct{ id, key string }

// logEvery is how often it is logged that the limit removes responses.
const logEvery = 24 * time.Hour

// logTrimmed logs that responses are removed before they expire: the first time, and then once a
// day.
func (s *Store) logTrimmed(limit int64, removed int, freed int64) {
	if removed == 0 {
		return
	}
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	s.responses.removed += removed
	s.responses.freed += freed
	if now := s.now(); now.Sub(s.responses.logged) >= logEvery {
		s.logger.Info("store.responses is reached: the oldest stored responses are removed",
			"limit", limit, "removed", s.responses.removed, "bytes", s.responses.freed)
		s.responses.logged, s.responses.removed, s.responses.freed = now, 0, 0
	}
}
