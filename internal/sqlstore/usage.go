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
const microsPerDay = 24 * 60 * 60 * 1_000_000

// failedCalls is the condition for calls that count as errors.
const failedCalls = "outcome IN ('failed', 'cut_off')"

const tokensFirst = "sum(input_tokens + output_tokens) DESC, 1"

// Usage sums up calls by group. Since is included, Until is not. Calls that are still open count as
// calls; failed and cut-off ones are errors, canceled ones are not. An unknown By is of perigee.ClassInvalid.
func (s *Store) Usage(ctx context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	var group, order string
	switch q.By {
	case perigee.ByModel, "":
		// A call that was cut off before anybody answered still says what was asked.
		group, order = "CASE WHEN model = '' THEN model_asked ELSE model END", tokensFirst
	case perigee.ByAccount:
		group, order = "account", tokensFirst
	case perigee.ByKey:
		group, order = "client_key", tokensFirst
	case perigee.ByClient:
		group, order = "client_name", tokensFirst
	case perigee.ByUpstream:
		group, order = "upstream", tokensFirst
	case perigee.ByDay:
		group, order = "time_us / "+strconv.Itoa(microsPerDay), "1"
	default:
		return nil, perigee.Errorf(perigee.ClassInvalid, "usage cannot be grouped by %q", q.By).
			WithNext("use one of %s", strings.Join(perigee.UsageGroups, ", "))
	}
	if q.By != perigee.ByDay {
		group = "(" + group + ")" + s.engine.bytewise()
	}
	rows, err := s.usage(ctx, q, group, order)
	if err != nil {
		return nil, s.explain("sum up usage in", err)
	}
	if q.By == perigee.ByDay {
		err = nameDays(rows)
	}
	return rows, err
}

func (s *Store) usage(ctx context.Context, q perigee.UsageQuery, group, order string) ([]perigee.UsageRow, error) {
	var where conditions
	if !q.Since.IsZero() {
		where.add("time_us >= ", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		where.add("time_us < ", q.Until.UnixMicro())
	}
	if q.Key != "" {
		where.add("client_key = ", q.Key)
	}
	query := `SELECT ` + group + `, count(*),
			sum(input_tokens), sum(cached_tokens), sum(output_tokens), sum(thinking_tokens),
			sum(CASE WHEN ` + failedCalls + ` THEN 1 ELSE 0 END)
		FROM calls` + where.String() + ` GROUP BY 1 ORDER BY ` + order
	var rows []perigee.UsageRow
	err := s.each(ctx, query, where.args, func(found *sql.Rows) error {
		var r perigee.UsageRow
		err := found.Scan(&r.Group, &r.Calls, &r.InputTokens, &r.CachedTokens, &r.OutputTokens, &r.ThinkingTokens, &r.Errors)
		rows = append(rows, r)
		return err
	})
	return rows, err
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
