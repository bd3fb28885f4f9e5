package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// A sumKey names a row of daily_usage: a UTC day and everything that usage is grouped by.
type sumKey struct {
	day                                   int64
	key, client, model, upstream, account string
}

func compareSumKeys(a, b sumKey) int {
	return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.key, b.key), cmp.Compare(a.client, b.client),
		cmp.Compare(a.model, b.model), cmp.Compare(a.upstream, b.upstream), cmp.Compare(a.account, b.account))
}

// A sum has the values of sumColumns for the calls of a sumKey, or the differences that a
// transaction makes to them.
type sum [18]int64

// A callCount has the values that one call adds to the sums.
type callCount struct {
	sumKey
	sum
}

// countOf returns the values that a call adds to the sums. An open call adds nothing yet.
func (s *Store) countOf(c *perigee.Call) (n callCount, ok bool) {
	if c.Outcome == perigee.OutcomeOpen {
		return n, false
	}
	text := s.db.Text // the key has to equal the one in the row
	n.sumKey = sumKey{c.Time.UnixMicro() / microsPerDay, text(c.Client.Key), text(c.Client.Name),
		text(cmp.Or(c.Model, c.ModelAsked)), text(c.Upstream), text(c.Account)}
	errors, long, u := int64(0), perigee.Usage{}, c.Usage
	if (c.Outcome == perigee.OutcomeFailed || c.Outcome == perigee.OutcomeCutOff) && c.ReplayOf == "" {
		errors = 1
	}
	if u.Input > perigee.LongPrompt && !u.Charged.Known {
		long = u
	}
	n.sum = sum{1, errors, u.Input, u.Cached, u.Output, u.Thinking, long.Input, long.Cached, long.Output,
		u.Written, u.WrittenHour, long.Written - long.WrittenHour}
	if u.Charged.Known {
		n.sum[10] = 0
		copy(n.sum[12:], []int64{1, nanos(u.Charged), u.Input, u.Cached, u.Written, u.Output})
	}
	return n, true
}

// The columns of daily_usage: of a sumKey, and of a sum.
const (
	sumKeyColumns = "day, client_key, client_name, model, upstream, account"
	sumColumns    = "calls, errors, input_tokens, cached_tokens, output_tokens, thinking_tokens, " +
		"long_input_tokens, long_cached_tokens, long_output_tokens, cache_write_tokens, cache_hour_tokens, long_cache_write_tokens, " +
		"charged_calls, charged_nano_usd, charged_input_tokens, charged_cached_tokens, charged_cache_write_tokens, charged_output_tokens"
)

// callSums are the columns of daily_usage, for one call.
const callSums = `time_us / ` + microsPerDayText + ` AS day, client_key, client_name,
	CASE WHEN model = '' THEN model_asked ELSE model END AS model, upstream, account,
	1 AS calls, CASE WHEN ` + failedCalls + ` AND replay_of = '' THEN 1 ELSE 0 END AS errors,
	input_tokens, cached_tokens, output_tokens, thinking_tokens,
	CASE WHEN ` + longCall + ` THEN input_tokens ELSE 0 END AS long_input_tokens,
	CASE WHEN ` + longCall + ` THEN cached_tokens ELSE 0 END AS long_cached_tokens,
	CASE WHEN ` + longCall + ` THEN output_tokens ELSE 0 END AS long_output_tokens,
	cache_write_tokens,
	CASE WHEN charged_nano_usd < 0 THEN cache_hour_tokens ELSE 0 END AS cache_hour_tokens,
	CASE WHEN ` + longCall + ` THEN cache_write_tokens - cache_hour_tokens ELSE 0 END AS long_cache_write_tokens,
	CASE WHEN ` + charged + ` THEN 1 ELSE 0 END AS charged_calls,
	CASE WHEN ` + charged + ` THEN charged_nano_usd ELSE 0 END AS charged_nano_usd,
	CASE WHEN ` + charged + ` THEN input_tokens ELSE 0 END AS charged_input_tokens,
	CASE WHEN ` + charged + ` THEN cached_tokens ELSE 0 END AS charged_cached_tokens,
	CASE WHEN ` + charged + ` THEN cache_write_tokens ELSE 0 END AS charged_cache_write_tokens,
	CASE WHEN ` + charged + ` THEN output_tokens ELSE 0 END AS charged_output_tokens`

// Conditions for calls that have sums of their own: calls that the provider has reported a cost of,
// and, without these, calls with more input tokens than perigee.LongPrompt.
const (
	charged  = "charged_nano_usd >= 0"
	longCall = "input_tokens > 200000 AND charged_nano_usd < 0"
)

// into returns where a row with callSums is scanned to.
func (n *callCount) into() []any {
	into := []any{&n.day, &n.key, &n.client, &n.model, &n.upstream, &n.account}
	for i := range n.sum {
		into = append(into, &n.sum[i])
	}
	return into
}

// sums are the differences that a transaction makes to daily_usage.
type sums map[sumKey]sum

// add adds a call, or with times -1 takes it out again.
func (m sums) add(n callCount, times int64) {
	s := m[n.sumKey]
	for i := range s {
		s[i] += times * n.sum[i]
	}
	m[n.sumKey] = s
}

var addSums = engine.AddUp("daily_usage", sumKeyColumns, sumKeyColumns+", "+sumColumns)

// writeSums adds the differences to the table. It is the last thing that a transaction does,
// because other replicas wait for these rows until it ends; and it takes them in one order, so that
// no two transactions wait for each other.
func (s *Store) writeSums(ctx context.Context, tx engine.Tx, m sums) error {
	maps.DeleteFunc(m, func(_ sumKey, s sum) bool { return s == sum{} })
	m, err := s.foldSums(ctx, tx, m)
	if err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(m), compareSumKeys)
	return tx.Each(ctx, engine.Bulk{Statement: addSums, Rows: len(keys), Args: func(i int, into []any) ([]any, error) {
		k := keys[i]
		into = append(into, k.day, k.key, k.client, k.model, k.upstream, k.account)
		for _, value := range m[k] {
			into = append(into, value)
		}
		return into, nil
	}})
}

// Callers choose the names of clients and models, and daily sums are never removed. So the number
// of sums per key and day is limited; calls beyond that are added up under otherName. The costs of
// a key, an account or an upstream stay exact.
const (
	maxDailySums = 1000
	otherName    = "(other)"
)

// A dailyKey is a day and a key. The number of sums is limited for each.
type dailyKey struct {
	day int64
	key string
}

// knownSums caches which rows daily_usage has.
type knownSums struct {
	mu    sync.Mutex
	limit int // for each dailyKey
	rows  map[dailyKey]map[sumKey]bool
}

// maxKnownDays is how many days and keys are remembered; saved calls are of today, or of a few
// hours ago.
const maxKnownDays = 256

const selectSums = `SELECT client_name, model, upstream, account FROM daily_usage WHERE day = $1 AND client_key = $2`

// foldSums returns the differences, after adding up under otherName those that would be one row too
// many for their key and day. A row that exists takes its own differences, and once a day is full
// it gets no more rows: later subtractions are made where the values were added.
func (s *Store) foldSums(ctx context.Context, tx engine.Tx, m sums) (sums, error) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	folded, looked := make(sums, len(m)), map[dailyKey]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(m), compareSumKeys) {
		room, err := s.roomFor(ctx, tx, k, looked)
		if err != nil {
			return nil, err
		}
		row := callCount{k, m[k]}
		if !room {
			row.client, row.model = otherName, otherName
		}
		folded.add(row, 1)
	}
	return folded, nil
}

// roomFor reports whether a sum has a row, or may get one. looked has the days that this
// transaction has looked at.
func (s *Store) roomFor(ctx context.Context, tx engine.Tx, k sumKey, looked map[dailyKey]bool) (bool, error) {
	day := dailyKey{k.day, k.key}
	rows := s.known.rows[day]
	full := len(rows) >= s.known.limit
	// Another replica may have added the row.
	if rows == nil || !rows[k] && full && s.Shared() && !looked[day] {
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
func readSums(ctx context.Context, tx engine.Tx, day dailyKey, rows map[sumKey]bool) error {
	return tx.Query(ctx, selectSums, []any{day.day, day.key}, func(row engine.Row) error {
		k := sumKey{day: day.day, key: day.key}
		err := row.Scan(&k.client, &k.model, &k.upstream, &k.account)
		rows[k] = true
		return err
	})
}
