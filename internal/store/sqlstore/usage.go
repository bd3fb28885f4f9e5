package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// microsPerDay converts a call's start to the number of its UTC day, in a way that every engine
// computes equally.
const (
	microsPerDay     = 24 * 60 * 60 * 1_000_000
	microsPerDayText = "86400000000"
)

// failedCalls is the condition for calls that count as errors.
const failedCalls = "outcome IN ('failed', 'cut_off')"

// usageGroups are the columns that usage is grouped by. A call that was cut off before anything
// answered is grouped by the model that was asked for.
var usageGroups = map[string]string{
	"": "model", perigee.ByModel: "model", perigee.ByAccount: "account", perigee.ByKey: "client_key",
	perigee.ByClient: "client_name", perigee.ByUpstream: "upstream", perigee.BySession: "client_session",
	perigee.ByAgent: "client_agent", perigee.ByDay: "day",
}

// Usage sums up calls by group. Since is included, Until is not. Calls that are still open count as
// calls; failed and cut-off ones are errors, canceled ones and replays are not. An unknown group is
// of perigee.ClassInvalid. Costs are unknown here.
//
// Whole UTC days come from the daily sums, the parts of days at the two ends from the rows of
// calls. Removed calls of a day (see Upkeep) count as if they had been at the day's first moment:
// they are missing in ranges that begin later that day, they are in ranges that contain that
// moment, and adjacent ranges add up to the total. Sums by session or agent use only the rows of calls.
func (s *Store) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	parts, err := s.sumUp(ctx, q, "''", "''")
	var rows []perigee.UsageRow
	for i := range parts {
		rows = append(rows, parts[i].UsageRow)
	}
	perigee.SortUsage(rows, q)
	return rows, err
}

// UsageParts sums up calls as Usage does, apart for each model and upstream.
func (s *Store) UsageParts(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsagePart, error) {
	return s.sumUp(ctx, q, "model", "upstream")
}

// sumUp sums up calls by the groups of a query and two more columns.
func (s *Store) sumUp(ctx context.Context, q perigee.UsageQuery, model, upstream string) (parts []perigee.UsagePart, err error) {
	defer s.db.Explain("sum up usage in", &err)
	each := "''"
	group, err := usageColumn(q.By)
	if err == nil && q.Each != "" {
		each, err = usageColumn(q.Each)
	}
	if err != nil {
		return nil, err
	}
	query, args := usageQuery(q, group, each, model, upstream)
	parts, err = engine.List(ctx, s.db, query, args, func(p *perigee.UsagePart) []any {
		return []any{&p.Group, &p.Each, &p.Model, &p.Upstream, &p.Calls, &p.Errors, &p.InputTokens, &p.CachedTokens,
			&p.OutputTokens, &p.ThinkingTokens, &p.Long.Input, &p.Long.Cached, &p.Long.Output,
			&p.WrittenTokens, &p.WrittenHour, &p.Long.Written, &p.ChargedCalls, nanoCost{&p.Charged.Charged},
			&p.Charged.Input, &p.Charged.Cached, &p.Charged.Written, &p.Charged.Output}
	})
	for i := range parts {
		if parts[i].ChargedCalls == 0 {
			parts[i].Charged.Charged = perigee.Cost{}
		}
		if err == nil && q.By == perigee.ByDay {
			err = nameDay(&parts[i].Group)
		}
		if err == nil && q.Each == perigee.ByDay {
			err = nameDay(&parts[i].Each)
		}
	}
	return parts, err
}

func usageColumn(group string) (string, error) {
	column, ok := usageGroups[group]
	if !ok {
		return "", perigee.Errorf(perigee.ClassInvalid, "usage cannot be grouped by %q", perigee.Clip(group, 100)).
			WithHint("use one of %s", strings.Join(perigee.UsageGroups, ", "))
	}
	return column, nil
}

// Where the parts of a range come from: daily sums, rows, or rows that are taken out of the sum of
// their day.
const (
	fromSums     = `SELECT ` + sumKeyColumns + `, ` + sumColumns + ` FROM daily_usage`
	fromCalls    = `SELECT ` + callSums + ` FROM calls`
	fromSessions = `SELECT ` + callSums + `, client_session, client_agent FROM calls`
	lessByCall   = `SELECT late.day, late.client_key,
		CASE WHEN d.day IS NULL THEN '` + otherName + `' ELSE late.client_name END,
		CASE WHEN d.day IS NULL THEN '` + otherName + `' ELSE late.model END,
		late.upstream, late.account, -late.calls, -late.errors,
		-late.input_tokens, -late.cached_tokens, -late.output_tokens, -late.thinking_tokens,
		-late.long_input_tokens, -late.long_cached_tokens, -late.long_output_tokens,
		-late.cache_write_tokens, -late.cache_hour_tokens, -late.long_cache_write_tokens, -late.charged_calls, -late.charged_nano_usd,
		-late.charged_input_tokens, -late.charged_cached_tokens, -late.charged_cache_write_tokens, -late.charged_output_tokens FROM (SELECT ` + callSums + ` FROM calls`
	// A call without a row of its own in the sums is in the sum of the rest.
	lateSums = `) AS late LEFT JOIN daily_usage AS d ON d.day = late.day AND d.client_key = late.client_key
		AND d.client_name = late.client_name AND d.model = late.model AND d.upstream = late.upstream AND d.account = late.account`
)

// A rangePart is a part of a range: rows of a table with a column from low on and below high. nil
// means without that bound.
type rangePart struct {
	from, column string
	low, high    *int64
	condition    string // of calls that it has; empty for all
	rest         string // of the query
}

// usageQuery writes the query for a range in one statement, so that all of its parts are of one
// moment.
func usageQuery(q perigee.UsageQuery, columns ...string) (query string, args []any) {
	since, until := micros(q.Since), micros(q.Until)
	firstDay, endDay := dayFrom(since), dayFrom(until) // the range has the days from firstDay to before endDay
	parts := []rangePart{
		{fromSums, "day", firstDay, endDay, "", ""},
		{fromCalls, "time_us", since, until, "NOT counted", ""},
	}
	if firstDay != nil {
		begin := *firstDay * microsPerDay
		parts = append(parts, rangePart{fromCalls, "time_us", since, &begin, "counted", ""})
	}
	if endDay != nil {
		end := *endDay * microsPerDay
		parts = append(parts, rangePart{lessByCall, "time_us", until, &end, "counted", lateSums})
	}
	if onlyCalls(q.By) || onlyCalls(q.Each) {
		parts = []rangePart{{fromSessions, "time_us", since, until, "", ""}}
	} else if since != nil && until != nil && (*until <= *since || *firstDay == *endDay && *since%microsPerDay != 0) {
		// Nothing, or a part of one day: no day begins in it.
		parts = []rangePart{{fromCalls, "time_us", since, until, "", ""}}
	}
	var queries []string
	for _, p := range parts {
		where := conditions{args: args}
		if p.low != nil {
			where.add(p.column+" >= ", *p.low)
		}
		if p.high != nil {
			where.add(p.column+" < ", *p.high)
		}
		if p.condition != "" {
			where.parts = append(where.parts, p.condition)
		}
		if q.Key != "" {
			where.add("client_key = ", q.Key)
		}
		queries, args = append(queries, p.from+where.String()+p.rest), where.args
	}
	// SQLite compares all of these for each row that it sorts, so it gets each column once and no
	// constants.
	groups := ""
	for i, column := range columns {
		if column != "''" && slices.Index(columns, column) == i {
			groups += ", " + strconv.Itoa(i+1)
		}
	}
	totals := "sum(" + strings.ReplaceAll(sumColumns, ", ", "), sum(") + ")"
	return `SELECT ` + strings.Join(columns, ", ") + `, ` + totals + ` FROM (` + strings.Join(queries, " UNION ALL ") + `) AS parts GROUP BY ` + groups[2:] + ` HAVING sum(calls) > 0`, args
}

// onlyCalls reports whether daily sums do not have what a group is made of.
func onlyCalls(group string) bool { return group == perigee.BySession || group == perigee.ByAgent }

// micros returns a time in microseconds; nil if there is none.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

// dayFrom returns the first day that begins at a time or later; nil if t is nil.
func dayFrom(t *int64) *int64 {
	if t == nil {
		return nil
	}
	day := *t / microsPerDay
	if *t%microsPerDay > 0 {
		day++
	}
	return &day
}

// nameDay writes 2026-01-31 in place of the number of a day.
func nameDay(group *string) error {
	day, err := strconv.ParseInt(*group, 10, 64)
	if err != nil {
		return fmt.Errorf("number of a day: %w", err)
	}
	*group = time.UnixMicro(day * microsPerDay).UTC().Format(time.DateOnly)
	return nil
}
