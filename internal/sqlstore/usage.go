package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// microsPerDay turns a call's start into the number of its UTC day, in a way that every engine computes alike.
const (
	microsPerDay     = 24 * 60 * 60 * 1_000_000
	microsPerDayText = "86400000000"
)

// failedCalls is the condition for calls that count as errors.
const failedCalls = "outcome IN ('failed', 'cut_off')"

const tokensFirst = "sum(input_tokens + output_tokens) DESC, 1"

// usageGroups are the columns that usage is grouped by. A call that was cut off before anything answered is grouped by the model
// that was asked for.
var usageGroups = map[string]string{
	"": "model", perigee.ByModel: "model", perigee.ByAccount: "account", perigee.ByKey: "client_key", perigee.ByClient: "client_name",
	perigee.ByUpstream: "upstream", perigee.ByDay: "day",
}

// Usage sums up calls by group. Since is included, Until is not. Calls that are still open count as
// calls; failed and cut-off ones are errors, canceled ones are not. An unknown By is of perigee.ClassInvalid.
//
// Whole UTC days come from the daily sums, the parts of days at the two ends from the rows of calls. What was removed of a day
// (see Upkeep) counts as if it had been at the day's first moment: in ranges that begin later that day it is missing, in those that
// contain that moment it is there, and ranges side by side add up to what was spent.
func (s *Store) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	group, ok := usageGroups[q.By]
	if !ok {
		return nil, perigee.Errorf(perigee.ClassInvalid, "usage cannot be grouped by %q", q.By).
			WithNext("use one of %s", strings.Join(perigee.UsageGroups, ", "))
	}
	order := "1"
	if q.By != perigee.ByDay {
		group, order = group+s.engine.bytewise(), tokensFirst
	}
	query, args := usageQuery(q, group, order)
	var rows []perigee.UsageRow
	err := s.each(ctx, query, args, func(found *sql.Rows) error {
		var r perigee.UsageRow
		err := found.Scan(&r.Group, &r.Calls, &r.InputTokens, &r.CachedTokens, &r.OutputTokens, &r.ThinkingTokens, &r.Errors)
		rows = append(rows, r)
		return err
	})
	if err != nil {
		return nil, s.explain("sum up usage in", err)
	}
	if q.By == perigee.ByDay {
		err = nameDays(rows)
	}
	return rows, err
}

// Where the parts of a range come from: daily sums, rows, or rows that are taken out of the sum of their day.
const (
	fromSums = `SELECT day, client_key, client_name, model, upstream, account,
		calls, errors, input_tokens, cached_tokens, output_tokens, thinking_tokens FROM daily_usage`
	fromCalls  = `SELECT ` + callSums + ` FROM calls`
	lessByCall = `SELECT late.day, late.client_key,
		CASE WHEN d.day IS NULL THEN '` + otherName + `' ELSE late.client_name END, CASE WHEN d.day IS NULL THEN '` + otherName + `' ELSE late.model END,
		late.upstream, late.account, -late.calls, -late.errors,
		-late.input_tokens, -late.cached_tokens, -late.output_tokens, -late.thinking_tokens FROM (SELECT ` + callSums + ` FROM calls`
	// A call whose sum has no row of its own is in the sum of the others.
	lateSums = `) AS late LEFT JOIN daily_usage AS d ON d.day = late.day AND d.client_key = late.client_key
		AND d.client_name = late.client_name AND d.model = late.model AND d.upstream = late.upstream AND d.account = late.account`
)

// usageQuery writes the query for a range in one statement, so that all of its parts are of one moment.
func usageQuery(q perigee.UsageQuery, group, order string) (query string, args []any) {
	var all conditions // for the numbers of the arguments only
	var parts []string
	add := func(from, rest string, where conditions) {
		if q.Key != "" {
			where.parts = append(where.parts, "client_key = "+all.arg(q.Key))
		}
		parts = append(parts, from+where.String()+rest)
	}
	between := func(column string, from, until *int64) (c conditions) {
		if from != nil {
			c.parts = append(c.parts, column+" >= "+all.arg(*from))
		}
		if until != nil {
			c.parts = append(c.parts, column+" < "+all.arg(*until))
		}
		return c
	}
	uncounted := func(c conditions) conditions {
		c.parts = append(c.parts, "NOT counted")
		return c
	}

	since, until := micros(q.Since), micros(q.Until)
	firstDay, endDay := dayFrom(since), dayFrom(until) // the sums of these days, and of those in between, are in the range from their beginning
	if since != nil && until != nil && (*until <= *since || *firstDay == *endDay && *since%microsPerDay != 0) {
		// Nothing, or a part of one day: no day begins in it.
		add(fromCalls, "", between("time_us", since, until))
	} else {
		add(fromSums, "", between("day", firstDay, endDay))
		add(fromCalls, "", uncounted(between("time_us", since, until)))
		if firstDay != nil {
			begin := *firstDay * microsPerDay
			head := between("time_us", since, &begin)
			head.parts = append(head.parts, "counted")
			add(fromCalls, "", head)
		}
		if endDay != nil {
			end := *endDay * microsPerDay
			tail := between("time_us", until, &end)
			tail.parts = append(tail.parts, "counted")
			add(lessByCall, lateSums, tail)
		}
	}
	return `SELECT ` + group + `, sum(calls), sum(input_tokens), sum(cached_tokens), sum(output_tokens), sum(thinking_tokens), sum(errors)
		FROM (` + strings.Join(parts, " UNION ALL ") + `) AS parts GROUP BY 1 HAVING sum(calls) > 0 ORDER BY ` + order, all.args
}

// micros is a time in microseconds; nil: there is none.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMicro()
	return &n
}

// dayFrom is the first day that begins at a time or later; nil: there is no such time.
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

// nameDays writes 2026-01-31 for the number of a day.
func nameDays(rows []perigee.UsageRow) error {
	for i := range rows {
		day, err := strconv.ParseInt(rows[i].Group, 10, 64)
		if err != nil {
			return fmt.Errorf("number of a day: %w", err)
		}
		rows[i].Group = time.UnixMicro(day * microsPerDay).UTC().Format(time.DateOnly)
	}
	return nil
}

// conditions collects the WHERE of a query and numbers its arguments.
type conditions struct {
	parts []string
	args  []any
}

// add adds a comparison with one value, or with a row of several.
func (c *conditions) add(comparison string, values ...any) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = c.arg(v)
	}
	list := strings.Join(names, ", ")
	if len(values) > 1 {
		list = "(" + list + ")"
	}
	c.parts = append(c.parts, comparison+list)
}

// match adds that one of the columns fits a pattern with * and ?, without regard to the case of letters. An empty pattern adds
// nothing.
func (c *conditions) match(pattern string, columns ...string) {
	if pattern == "" {
		return
	}
	like := c.arg(likePattern.Replace(strings.ToLower(pattern)))
	var any []string
	for _, column := range columns {
		any = append(any, "lower("+column+") LIKE "+like+` ESCAPE '\'`)
	}
	c.parts = append(c.parts, "("+strings.Join(any, " OR ")+")")
}

// likePattern writes a pattern as SQL's LIKE reads it.
var likePattern = strings.NewReplacer("*", "%", "?", "_", "%", `\%`, "_", `\_`, `\`, `\\`)

// arg adds a value and returns its name in the query.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

func (c *conditions) String() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}
