package sqlstore

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// Calls that a filter selects can be far apart: the last call of a model may be a million calls
// ago. So a query with a filter reads the newest calls first, in the order of time, and more of them
// as long as they have a good part of what it wants. It finds older ones in an index by names. Only
// SQLite has these indexes. Upkeep makes them, because that takes seconds for a million calls; until
// then older calls are read in the order of time, too.

const (
	recentCalls = 2000        // how many calls are read in the order of time at first
	maxListed   = 1000        // the highest limit for which the indexes are used
	namesTime   = time.Second // how long calls are looked for by names, of which there can be too many
)

// A listing is the state of a Store about these queries.
type listing struct {
	recent  int           // recentCalls
	time    time.Duration // namesTime
	indexed atomic.Bool   // whether this Store has made the indexes, or found them
}

// callNames are the columns that calls are listed by, in the order of the indexes. No statement
// compares the first one with a single value, so that no other query chooses these indexes.
//
// pairNames are read from the daily sums. Their index changes when a sum is added, so that it costs
// little to save a call.
var (
	modelNames = []string{"client_name", "model_asked", "model"}
	pairNames  = []string{"account", "client_key"}
	callNames  = slices.Concat(modelNames, pairNames)
)

// The indexes by names: of all calls, of those that count as errors, and of daily sums.
const (
	callsByNames  = "calls_by_client"
	failedByNames = "calls_failed_by_client"
	sumsByNames   = "daily_usage_by_account"
)

// callIndexes are the statements that make the indexes.
var callIndexes = func() []string {
	columns := " ON calls (" + strings.Join(callNames, ", ") + ", time_us, replay_of"
	return []string{
		"CREATE INDEX IF NOT EXISTS " + callsByNames + columns + ")",
		"CREATE INDEX IF NOT EXISTS " + failedByNames + columns + ", outcome) WHERE " + failedCalls,
		"CREATE INDEX IF NOT EXISTS " + sumsByNames + " ON daily_usage (" + strings.Join(pairNames, ", ") + ")",
	}
}()

// indexCalls makes the indexes by names, once. That takes about 5 s if there are a million calls,
// and clients that have a response stored would wait for it. So a writer interrupts it, and the next
// Upkeep tries again.
func (s *Store) indexCalls(ctx context.Context) (more bool, err error) {
	if s.Shared() || s.listing.indexed.Load() {
		return false, nil
	}
	for _, statement := range callIndexes {
		if done, err := s.db.ExecYielding(ctx, upkeepDoing, statement); err != nil || !done {
			return false, err
		}
	}
	s.listing.indexed.Store(true)
	return false, nil
}

// mayBeFarApart reports whether a query has a filter for which there are indexes.
func (s *Store) mayBeFarApart(q perigee.CallQuery) bool {
	return !s.Shared() && q.ID == "" && q.Prefix == "" && q.Limit <= maxListed &&
		(q.Errors || q.Sent || q.Model+q.Client+q.Account+q.Key != "")
}

// sparseCalls returns the calls of a query that mayBeFarApart. where has the condition of
// q.Before.
func (s *Store) sparseCalls(ctx context.Context, where conditions, q perigee.CallQuery) (calls []perigee.Call, err error) {
	var end int64 // the time of the oldest call that was read
	for window := s.listing.recent * (1 + q.Limit/200); ; window *= 4 {
		query := `SELECT time_us FROM calls` + where.String() + newestFirst + `1 OFFSET ` + strconv.Itoa(window-1)
		older, err := engine.One(ctx, s.db, query, where.args, &end)
		if err != nil {
			return nil, err
		}
		recent := q
		if older = older && (q.Since.IsZero() || q.Since.UnixMicro() < end); older {
			recent.Since = time.UnixMicro(end)
		}
		s.filter(&where, recent)
		some, err := s.readCalls(ctx, where, q.Limit)
		if err != nil {
			return nil, err
		}
		calls, q.Limit = append(calls, some...), q.Limit-len(some)
		if !older || q.Limit == 0 {
			return calls, nil
		}
		where = conditions{}
		where.add("time_us < ", end)
		if 3*len(some) < q.Limit {
			break
		}
	}
	ids, found, err := s.findByNames(ctx, q, end)
	if err != nil {
		return nil, err
	}
	s.filter(&where, q)
	if found {
		list, err := json.Marshal(ids)
		if err != nil {
			return nil, err
		}
		where = conditions{parts: []string{"id IN (" + s.db.Listed + ")"}, args: []any{string(list)}}
	}
	rest, err := s.readCalls(ctx, where, q.Limit)
	return append(calls, rest...), err
}

const selectIndexes = `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name IN ('` + callsByNames + `', '` + failedByNames + `', '` + sumsByNames + `')`

// findByNames returns the ids of the newest calls that a query selects among those that began
// before a time. It reports false if it cannot use the indexes: there are none yet, or there are so
// many combinations of names that it takes too long.
func (s *Store) findByNames(ctx context.Context, q perigee.CallQuery, before int64) (ids []string, ok bool, err error) {
	var indexes int
	if _, err := engine.One(ctx, s.db, selectIndexes, nil, &indexes); err != nil || indexes < len(callIndexes) {
		return nil, false, err
	}
	limited, cancel := context.WithTimeout(ctx, s.listing.time)
	defer cancel()
	pairs, err := s.fittingPairs(limited, q)
	if err == nil && pairs > 0 {
		query, args := namesQuery(q, before, pairs <= fewPairs)
		ids, err = engine.List(limited, s.db, query, args, func(id *string) []any { return []any{id} })
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, false, nil
	}
	return ids, err == nil, err
}

// fewPairs is how many pairs of account and key are looked up for each client and model.
const fewPairs = 8

// fittingPairs returns how many pairs of account and key fit a query; more than fewPairs if there
// are more, the query has no filter for them, or the daily sums lack many calls.
func (s *Store) fittingPairs(ctx context.Context, q perigee.CallQuery) (pairs int, err error) {
	if q.Account+q.Key == "" {
		return fewPairs + 1, nil
	}
	if many, err := s.ManyUncounted(ctx); err != nil || many {
		return fewPairs + 1, err
	}
	var all conditions
	tables, query := pairTables(nameFilters(q, &all))
	_, err = engine.One(ctx, s.db, `WITH RECURSIVE `+strings.Join(tables, ", ")+` SELECT count(*) FROM (`+query+` LIMIT `+all.arg(fewPairs+1)+`)`, all.args, &pairs)
	return pairs, err
}

// pairTables returns tables with the pairs of account and key that fit, and the query for them: those
// of the daily sums, and of calls that are not in the sums.
func pairTables(fits map[string]string) (tables []string, query string) {
	tables, query = stepTables("keys", ` FROM daily_usage AS c INDEXED BY `+sumsByNames+` WHERE TRUE`, pairNames, fits)
	return tables, query + ` UNION SELECT account, client_key FROM calls WHERE NOT counted` + fits["account"] + fits["client_key"]
}

// namesQuery returns the statement of findByNames.
//
// It steps through the combinations of names in an index of calls. If few pairs of account and key
// fit, it steps through client and models alone, and looks for each pair. Only the newest entries of
// the combinations that fit are read.
func namesQuery(q perigee.CallQuery, before int64, few bool) (query string, args []any) {
	index, rows := callsByNames, "TRUE"
	if q.Errors {
		index, rows = failedByNames, failedCalls
	}
	from := ` FROM calls AS c INDEXED BY ` + index + ` WHERE ` + rows
	var all conditions // numbers the arguments
	fits := nameFilters(q, &all)
	equal := ``
	for _, column := range callNames {
		equal += ` AND c.` + column + ` = n.` + column
	}
	entries := equal + ` AND c.time_us < ` + all.arg(before)
	if !q.Since.IsZero() {
		entries += ` AND c.time_us >= ` + all.arg(q.Since.UnixMicro())
	}
	if q.Sent {
		entries += ` AND c.replay_of = ''`
	}
	limit := all.arg(q.Limit)
	// nth is the time of the nth newest entry; NULL if there are fewer.
	nth := func(n, from string) string {
		return `(SELECT c.time_us` + from + ` ORDER BY c.time_us DESC LIMIT 1 OFFSET ` + n + ` - 1)`
	}
	// newest has up to 20 entries of each combination. If they are at least as many as the limit,
	// their nth time is the bound of found, and otherwise the nth time of each combination. Entries
	// at the bound are all kept, because their ids decide.
	join := ` FROM fitting AS n CROSS JOIN calls AS c INDEXED BY ` + index + ` WHERE ` + rows + entries + ` AND c.time_us >= coalesce(`
	tables, fitting := stepTables("names", from, callNames, fits)
	if few {
		models, ofModels := stepTables("models", from, modelNames, fits)
		pairs, ofPairs := pairTables(fits)
		tables = append(models, pairs...)
		fitting = `SELECT * FROM (SELECT * FROM (` + ofModels + `) CROSS JOIN (` + ofPairs + `)) AS n WHERE EXISTS (SELECT 1` + from + entries + `)`
	}
	tables = append(tables, `fitting AS MATERIALIZED (`+fitting+`)`,
		`newest AS MATERIALIZED (SELECT c.time_us`+join+nth("20", from+entries)+`, `+earliest+`))`,
		`found AS MATERIALIZED (SELECT c.time_us, c.rowid AS place`+join+nth(limit, ` FROM newest AS c`)+`, `+nth(limit, from+entries)+`, `+earliest+`))`)
	return `WITH RECURSIVE ` + strings.Join(tables, ", ") + ` SELECT id FROM calls WHERE rowid IN (SELECT place FROM found
		WHERE time_us >= coalesce(` + nth(limit, ` FROM found AS c`) + `, ` + earliest + `))` + newestFirst + limit, all.args
}

// stepTables returns tables with the combinations of the columns in an index that fit, and the query
// for them. from selects the entries of the index, as c.
//
// The tables step from one name to the next in the index instead of reading all entries. Each has
// the combinations of the first columns, among those in the table before that fit, and a NULL after
// the last name of each.
func stepTables(name, from string, columns []string, fits map[string]string) (tables []string, query string) {
	given, equal := ` FROM (SELECT 1) AS n`, ``
	for i, column := range columns {
		table, first := name+strconv.Itoa(i), strings.Join(columns[:i+1], ", ")
		next := ` SELECT ` + strings.TrimSuffix(first, column) + `(SELECT min(c.` + column + `)` + from + equal
		tables = append(tables, table+`(`+first+`) AS (`+next+`)`+given+` UNION ALL`+next+` AND c.`+column+` > n.`+column+`)`+
			` FROM `+table+` AS n WHERE `+column+` IS NOT NULL)`)
		given = ` FROM ` + table + ` AS n WHERE ` + column + ` IS NOT NULL` + fits[column]
		equal += ` AND c.` + column + ` = n.` + column
	}
	return tables, `SELECT *` + given
}

const earliest = "-9223372036854775807" // the first time in microseconds

// nameFilters returns the conditions of a query on names, for each column the one that needs it and
// the columns before it in callNames.
func nameFilters(q perigee.CallQuery, all *conditions) map[string]string {
	fits := map[string]string{}
	for column, add := range map[string]func(*conditions){
		"client_name": func(c *conditions) { c.client(q) },
		"client_key":  func(c *conditions) { c.match(q.Key, "client_key") },
		"model":       func(c *conditions) { c.match(q.Model, "model", "model_asked") },
		"account":     func(c *conditions) { c.match(q.Account, "account") },
	} {
		one := conditions{args: all.args}
		add(&one)
		all.args = one.args
		for _, part := range one.parts {
			fits[column] += " AND " + part
		}
	}
	return fits
}
