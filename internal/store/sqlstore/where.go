package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// newestFirst is the order of rows with a time and an id. The limit follows.
const newestFirst = ` ORDER BY time_us DESC, id DESC LIMIT `

// before adds the condition that rows of a table are older than the one with an id; an empty id
// adds none. what names such a row in the error for an id that does not exist, which is of
// perigee.ClassNotFound.
func (s *Store) before(ctx context.Context, where *conditions, table, what, id string) error {
	if id == "" {
		return nil
	}
	var micros int64
	found, err := engine.One(ctx, s.db, `SELECT time_us FROM `+table+` WHERE id = $1`, []any{id}, &micros)
	if err != nil {
		return err
	}
	if !found {
		return perigee.Errorf(perigee.ClassNotFound, "there is no %s %s", what, perigee.Clip(id, 100))
	}
	where.add("(time_us, id) < ", micros, id)
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

// match adds that one of the columns fits a pattern with * and ?, without regard to the case of
// letters. An empty pattern adds nothing.
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
