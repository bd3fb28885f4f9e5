package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

const callColumns = `id, time_us, operation, dialect, stream,
	client_name, client_version, client_key, client_session,
	model_asked, model, upstream, account,
	outcome, class, status, error, finish, first_byte_ns, duration_ns,
	input_tokens, cached_tokens, output_tokens, thinking_tokens, bytes_in, notes, steps, client_status,
	replay_of, client_agent, client_parent, cache_write_tokens, cache_hour_tokens, charged_nano_usd`

var saveCall = engine.Upsert("calls", "id", callColumns+", replica, counted")

// SaveCalls writes the calls in one transaction, each under its ID in place of an older state, and
// keeps the daily sums in step. Either all of them are kept or none. Times are kept to the
// microsecond.
func (s *Store) SaveCalls(ctx context.Context, calls []perigee.Call) error {
	if len(calls) == 0 {
		return nil
	}
	return s.db.Transact(ctx, fmt.Sprintf("save %d calls in", len(calls)), func(ctx context.Context, tx engine.Tx) error {
		return s.saveCalls(ctx, tx, calls)
	})
}

func (s *Store) saveCalls(ctx context.Context, tx engine.Tx, calls []perigee.Call) error {
	now := make(map[string]callCount, len(calls)) // the values that each call adds to the sums
	ids := make([]string, len(calls))
	for i := range calls {
		id := calls[i].ID
		if id == "" {
			return perigee.Errorf(perigee.ClassInternal, "save calls: call %d of %d has no id", i+1, len(calls))
		}
		ids[i] = s.db.Text(id)
		if n, ok := s.countOf(&calls[i]); ok {
			now[id] = n
		} else {
			delete(now, id) // only its last state in this batch counts
		}
	}
	difference := sums{}
	if err := s.uncount(ctx, tx, ids, difference); err != nil {
		return err
	}
	for _, n := range now {
		difference.add(n, 1)
	}
	err := tx.Each(ctx, engine.Bulk{Statement: saveCall, Rows: len(calls), Args: func(i int, into []any) ([]any, error) {
		args, err := appendArgs(into, &calls[i])
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", calls[i].ID, err)
		}
		return append(args, s.replica, calls[i].Outcome != perigee.OutcomeOpen), nil
	}})
	if err != nil {
		return err
	}
	return s.writeSums(ctx, tx, difference)
}

// uncount subtracts calls that are about to be replaced from the sums. That is rare: a call that
// was cut off because its replica seemed gone, or a batch with a commit that was never confirmed.
func (s *Store) uncount(ctx context.Context, tx engine.Tx, ids []string, difference sums) error {
	// The database may still be committing the batch of this replica that was not confirmed.
	if err := s.db.Lock(ctx, tx, "calls of "+s.replica); err != nil {
		return err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return tx.Query(ctx, s.selectReplaced(), []any{string(list)}, func(row engine.Row) error {
		var id string
		var isCounted bool
		var n callCount
		if err := row.Scan(append([]any{&id, &isCounted}, n.into()...)...); err != nil {
			return err
		}
		if isCounted {
			difference.add(n, -1)
		}
		return nil
	})
}

// selectReplaced returns the query for calls that are about to be replaced.
func (s *Store) selectReplaced() string {
	return `SELECT id, counted, ` + callSums + ` FROM calls WHERE id IN (` + s.db.Listed + `)` + s.db.LockRows
}

// appendArgs gives a call's values in the order of callColumns; callInto reads them back.
func appendArgs(args []any, c *perigee.Call) ([]any, error) {
	notes, err := encodeList(c.Notes)
	if err != nil {
		return nil, err
	}
	steps, err := encodeList(c.Attempts)
	if err != nil {
		return nil, err
	}
	return append(args,
		c.ID, c.Time.UnixMicro(), c.Operation, string(c.Dialect), c.Stream,
		c.Client.Name, c.Client.Version, c.Client.Key, c.Client.Session,
		c.ModelAsked, c.Model, c.Upstream, c.Account,
		string(c.Outcome), string(c.Class), int64(c.Status), c.Error, c.Finish, int64(c.FirstByte), int64(c.Duration),
		c.Usage.Input, c.Usage.Cached, c.Usage.Output, c.Usage.Thinking, c.BytesIn, notes, steps, int64(c.ClientStatus),
		c.ReplayOf, c.Client.Agent, c.Client.ParentAgent, c.Usage.Written, c.Usage.WrittenHour, nanos(c.Usage.Charged)), nil
}

func callInto(c *perigee.Call) []any {
	return []any{
		&c.ID, engine.Micros(&c.Time), &c.Operation, &c.Dialect, &c.Stream,
		&c.Client.Name, &c.Client.Version, &c.Client.Key, &c.Client.Session,
		&c.ModelAsked, &c.Model, &c.Upstream, &c.Account,
		&c.Outcome, &c.Class, &c.Status, &c.Error, &c.Finish, &c.FirstByte, &c.Duration,
		&c.Usage.Input, &c.Usage.Cached, &c.Usage.Output, &c.Usage.Thinking, &c.BytesIn,
		jsonList[string]{&c.Notes}, jsonList[perigee.Attempt]{&c.Attempts}, &c.ClientStatus, &c.ReplayOf,
		&c.Client.Agent, &c.Client.ParentAgent, &c.Usage.Written, &c.Usage.WrittenHour, nanoCost{&c.Usage.Charged},
	}
}

// nanos returns a cost for the database: in billionths of a dollar, or -1 if it is unknown.
func nanos(c perigee.Cost) int64 {
	if !c.Known {
		return -1
	}
	return int64(math.Round(min(max(c.USD, 0), maxCharged) * 1e9))
}

// maxCharged is the largest cost of a call that is stored, in dollars.
const maxCharged = 1e6

// A nanoCost scans the output of nanos.
type nanoCost struct{ into *perigee.Cost }

// Scan takes the value of a column.
func (n nanoCost) Scan(value any) error {
	amount, ok := value.(int64)
	if text, isText := value.(string); isText { // PostgreSQL's sums are decimals
		parsed, err := strconv.ParseInt(text, 10, 64)
		amount, ok = parsed, err == nil
	}
	if !ok {
		return fmt.Errorf("a cost is stored as %T", value)
	}
	if *n.into = (perigee.Cost{}); amount >= 0 {
		*n.into = perigee.USD(float64(amount) / 1e9)
	}
	return nil
}

// encodeList writes a list as JSON; most calls have none, and then it is empty.
func encodeList[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// A jsonList scans the output of encodeList.
type jsonList[T any] struct{ into *[]T }

// Scan takes the value of a column.
func (l jsonList[T]) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("a list is stored as %T", value)
	}
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), l.into)
}

const defaultLimit = 100

// filter adds the conditions of a query, all but Before and Limit.
func (s *Store) filter(where *conditions, q perigee.CallQuery) {
	if q.ID != "" {
		where.add("id = ", q.ID)
	}
	if q.Prefix != "" { // a range, for which an index of ids in the order of bytes is sufficient
		where.add("id"+s.db.Bytewise+" >= ", q.Prefix)
		where.add("id"+s.db.Bytewise+" < ", q.Prefix+string(utf8.MaxRune))
	}
	if !q.Since.IsZero() {
		where.add("time_us >= ", q.Since.UnixMicro())
	}
	if q.Errors {
		where.parts = append(where.parts, failedCalls)
	}
	if q.Sent {
		where.parts = append(where.parts, "replay_of = ''")
	}
	where.match(q.Model, "model", "model_asked")
	where.client(q)
	where.match(q.Account, "account")
	where.match(q.Key, "client_key")
}

// client adds the conditions of a query on the name of the client.
func (c *conditions) client(q perigee.CallQuery) {
	if q.Sent && q.Client == "" {
		c.parts = append(c.parts, "client_name <> '"+perigee.LanguageServerClient+"'")
	}
	c.match(q.Client, "client_name")
}

// Calls returns calls, the newest first. For the next page, set Before to the ID of the last one.
// If Before names no call, the error is of perigee.ClassNotFound; an ID that names none gives no
// calls.
func (s *Store) Calls(ctx context.Context, q perigee.CallQuery) (calls []perigee.Call, err error) {
	defer s.db.Explain("read calls from", &err)
	if q.Limit < 0 {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the limit of calls is %d, which is less than 0", q.Limit)
	}
	q.Limit = cmp.Or(q.Limit, defaultLimit)
	var where conditions
	if err := s.before(ctx, &where, "calls", "call", q.Before); err != nil {
		return nil, err
	}
	if s.mayBeFarApart(q) {
		return s.sparseCalls(ctx, where, q)
	}
	s.filter(&where, q)
	return s.readCalls(ctx, where, q.Limit)
}

// readCalls returns the newest calls with these conditions.
func (s *Store) readCalls(ctx context.Context, where conditions, limit int) ([]perigee.Call, error) {
	query := `SELECT ` + callColumns + ` FROM calls` + where.String() + newestFirst + where.arg(limit)
	return engine.List(ctx, s.db, query, where.args, callInto)
}
