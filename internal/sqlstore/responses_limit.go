package sqlstore

import (
	"context"
	"errors"
	"time"
)

const (
	selectKept = `SELECT (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM response_totals),
		(SELECT coalesce(min(expires_us), 0) FROM stored_responses)`
	selectFirst = `SELECT id, client_key FROM stored_responses ORDER BY expires_us, id LIMIT $1`
)

// LimitResponses sets how many bytes stored responses may take in all; 0: any number. It takes effect with the next save, or
// with Upkeep.
func (s *Store) LimitResponses(limit int64) { s.responses.limit.Store(limit) }

// trimRows is how many responses one transaction removes: few enough that calls which are saved at the same time hardly wait.
const trimRows = 16

// keptState says whether something is to be removed.
type keptState struct {
	bytes int64
	first int64 // when the first response expires; 0: there is none
}

func readKept(ctx context.Context, tx bulkTx) (k keptState, err error) {
	err = tx.query(ctx, selectKept, nil, func(row scanner) error { return row.Scan(&k.bytes, &k.first) })
	return k, err
}

// trimAfterSave removes what a save has made too much, and what has expired: a few responses at most. What it cannot do is left
// to Upkeep.
func (s *Store) trimAfterSave(ctx context.Context, kept keptState) {
	if _, err := s.trim(ctx, kept); err != nil && !errors.Is(err, context.Canceled) {
		s.logger.Debug("stored responses cannot be removed", "error", err)
	}
}

// trimResponses removes responses that have expired, and the oldest ones as long as there are more bytes than the limit. It does
// a small part of that, and says whether there is more to do.
func (s *Store) trimResponses(ctx context.Context) (more bool, err error) {
	var kept keptState
	if err := s.one(ctx, selectKept, nil, &kept.bytes, &kept.first); err != nil {
		return false, err
	}
	return s.trim(ctx, kept)
}

func (s *Store) trim(ctx context.Context, kept keptState) (more bool, err error) {
	now, limit, old := s.now().UnixMicro(), s.responses.limit.Load(), s.responses.oldBytes.Load()
	over := limit > 0 && kept.bytes+old > limit
	expired := kept.first != 0 && kept.first <= now
	if over && old > 0 {
		freed, removed, err := s.trimOld(ctx, kept.bytes+old-limit)
		s.tellTrimmed(limit, removed, freed)
		return true, err
	}
	if !over && !expired {
		return false, nil
	}
	var freed int64
	var removed, early int
	err = s.inBulk(ctx, func(ctx context.Context, tx bulkTx) error {
		freed, removed, early = 0, 0, 0
		ours, err := s.engine.turn(ctx, tx, "stored responses", true)
		if err != nil || !ours {
			return err
		}
		ids, err := firstResponses(ctx, tx)
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
		s.tellTrimmed(limit, early, freed)
	}
	return removed == trimRows, err
}

type storedName struct{ id, key string }

// firstResponses are those that expire first.
func firstResponses(ctx context.Context, tx bulkTx) (list []storedName, err error) {
	err = tx.query(ctx, selectFirst, []any{trimRows}, func(row scanner) error {
		var n storedName
		err := row.Scan(&n.id, &n.key)
		list = append(list, n)
		return err
	})
	return list, err
}

// tellEvery is how often the log says that the limit removes responses.
const tellEvery = 24 * time.Hour

// tellTrimmed says in the log that responses are removed before they expire: when it starts, and then once a day.
func (s *Store) tellTrimmed(limit int64, removed int, freed int64) {
	if removed == 0 {
		return
	}
	s.responses.mu.Lock()
	defer s.responses.mu.Unlock()
	s.responses.removed += removed
	s.responses.freed += freed
	if now := s.now(); now.Sub(s.responses.told) >= tellEvery {
		s.logger.Info("store.responses is reached: the oldest stored responses are removed",
			"limit", limit, "removed", s.responses.removed, "bytes", s.responses.freed)
		s.responses.told, s.responses.removed, s.responses.freed = now, 0, 0
	}
}
