package sqlstore

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Names of clients and models are what callers say they are, and daily sums are never removed. So a key has so many sums a day
// at most; what comes after those is added up under otherName. What a key, an account or an upstream has cost stays exact.
const (
	maxDailySums = 1000
	otherName    = "(other)"
)

// A dailyKey is what the number of sums is limited for.
type dailyKey struct {
	day int64
	key string
}

// knownSums are the rows of daily_usage as far as they were looked at.
type knownSums struct {
	mu    sync.Mutex
	limit int // for each dailyKey
	rows  map[dailyKey]map[sumKey]bool
}

// maxKnownDays is how many days and keys are remembered; saved calls are of today, or of a few hours ago.
const maxKnownDays = 256

const selectSums = `SELECT client_name, model, upstream, account FROM daily_usage WHERE day = $1 AND client_key = $2`

// foldSums returns the differences with those added up under otherName that would be one row too many for their key and day. A
// row that is there already takes what it is about, and once a day is full it gets no more rows: what is taken out of the sums
// later is taken from where it was added.
func (s *Store) foldSums(ctx context.Context, tx bulkTx, m sums) (sums, error) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	folded, looked := make(sums, len(m)), map[dailyKey]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(m), compareSumKeys) {
		room, err := s.roomFor(ctx, tx, k, looked)
		if err != nil {
			return nil, err
		}
		row := counted{k, m[k]}
		if !room {
			row.client, row.model = otherName, otherName
		}
		folded.add(row, 1)
	}
	return folded, nil
}

// roomFor says whether a sum has a row, or may get one. looked has the days that this transaction has looked at.
func (s *Store) roomFor(ctx context.Context, tx bulkTx, k sumKey, looked map[dailyKey]bool) (bool, error) {
	day := dailyKey{k.day, k.key}
	rows := s.known.rows[day]
	full := len(rows) >= s.known.limit
	if rows == nil || !rows[k] && full && s.Shared() && !looked[day] { // another replica may have added the row
		if rows == nil {
			rows = map[sumKey]bool{}
		}
		if err := readSums(ctx, tx, day, rows); err != nil {
			return false, err
		}
		if s.known.rows == nil || len(s.known.rows) >= maxKnownDays {
			s.known.rows = map[dailyKey]map[sumKey]bool{}
		}
		s.known.rows[day], looked[day] = rows, true
	}
	if !rows[k] && len(rows) < s.known.limit {
		rows[k] = true
	}
	return rows[k], nil
}

// readSums adds the rows that a key has for a day.
func readSums(ctx context.Context, tx bulkTx, day dailyKey, rows map[sumKey]bool) error {
	return tx.query(ctx, selectSums, []any{day.day, day.key}, func(row scanner) error {
		k := sumKey{day: day.day, key: day.key}
		err := row.Scan(&k.client, &k.model, &k.upstream, &k.account)
		rows[k] = true
		return err
	})
}
