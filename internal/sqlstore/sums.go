package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"perigee"
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

// A sum is what the calls of a sumKey add up to, or the difference that a transaction makes to it.
type sum struct{ calls, errors, input, cached, output, thinking int64 }

// A counted is what one call adds to the sums.
type counted struct {
	sumKey
	sum
}

// countOf is what a call adds to the sums. An open call adds nothing yet.
func (s *Store) countOf(c *perigee.Call) (n counted, ok bool) {
	if c.Outcome == perigee.OutcomeOpen {
		return n, false
	}
	text := s.engine.text // the key has to be what the row has
	n.sumKey = sumKey{c.Time.UnixMicro() / microsPerDay, text(c.Client.Key), text(c.Client.Name), text(cmp.Or(c.Model, c.ModelAsked)),
		text(c.Upstream), text(c.Account)}
	n.sum = sum{calls: 1, input: c.Usage.Input, cached: c.Usage.Cached, output: c.Usage.Output, thinking: c.Usage.Thinking}
	if c.Outcome == perigee.OutcomeFailed || c.Outcome == perigee.OutcomeCutOff {
		n.errors = 1
	}
	return n, true
}

// callSums are the columns of daily_usage, for one call.
const callSums = `time_us / ` + microsPerDayText + ` AS day, client_key, client_name, CASE WHEN model = '' THEN model_asked ELSE model END AS model, upstream, account,
	1 AS calls, CASE WHEN ` + failedCalls + ` THEN 1 ELSE 0 END AS errors,
	input_tokens, cached_tokens, output_tokens, thinking_tokens`

// into returns where a row with callSums is scanned to.
func (n *counted) into() []any {
	return []any{&n.day, &n.key, &n.client, &n.model, &n.upstream, &n.account,
		&n.calls, &n.errors, &n.input, &n.cached, &n.output, &n.thinking}
}

// sums are the differences that a transaction makes to daily_usage.
type sums map[sumKey]sum

// add adds a call, or with times -1 takes it out again.
func (m sums) add(n counted, times int64) {
	s := m[n.sumKey]
	s.calls += times * n.calls
	s.errors += times * n.errors
	s.input += times * n.input
	s.cached += times * n.cached
	s.output += times * n.output
	s.thinking += times * n.thinking
	m[n.sumKey] = s
}

const addSums = `INSERT INTO daily_usage AS d (day, client_key, client_name, model, upstream, account,
		calls, errors, input_tokens, cached_tokens, output_tokens, thinking_tokens)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
	ON CONFLICT (day, client_key, client_name, model, upstream, account) DO UPDATE SET
		calls = d.calls + excluded.calls, errors = d.errors + excluded.errors,
		input_tokens = d.input_tokens + excluded.input_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens,
		output_tokens = d.output_tokens + excluded.output_tokens, thinking_tokens = d.thinking_tokens + excluded.thinking_tokens`

// writeSums adds the differences to the table. It is the last thing that a transaction does, because other replicas wait for these
// rows until it ends; and it takes them in one order, so that no two transactions wait for each other.
func (s *Store) writeSums(ctx context.Context, tx bulkTx, m sums) error {
	maps.DeleteFunc(m, func(_ sumKey, s sum) bool { return s == sum{} })
	m, err := s.foldSums(ctx, tx, m)
	if err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(m), compareSumKeys)
	return tx.each(ctx, bulk{statement: addSums, rows: len(keys), args: func(i int, into []any) ([]any, error) {
		k, s := keys[i], m[keys[i]]
		return append(into, k.day, k.key, k.client, k.model, k.upstream, k.account,
			s.calls, s.errors, s.input, s.cached, s.output, s.thinking), nil
	}})
}
