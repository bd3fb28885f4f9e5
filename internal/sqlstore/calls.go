package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"perigee"
)

const callColumns = `id, time_us, operation, dialect, stream,
	client_name, client_version, client_key, client_session,
	model_asked, model, upstream, account,
	outcome, class, status, error, finish, first_byte_ns, duration_ns,
	input_tokens, cached_tokens, output_tokens, thinking_tokens, bytes_in, notes, steps`

const saveCall = `INSERT INTO calls (` + callColumns + `, replica, counted)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
		$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)
	ON CONFLICT (id) DO UPDATE SET
		time_us = excluded.time_us, operation = excluded.operation, dialect = excluded.dialect, stream = excluded.stream,
		client_name = excluded.client_name, client_version = excluded.client_version,
		client_key = excluded.client_key, client_session = excluded.client_session,
		model_asked = excluded.model_asked, model = excluded.model, upstream = excluded.upstream, account = excluded.account,
		outcome = excluded.outcome, class = excluded.class, status = excluded.status, error = excluded.error,
		finish = excluded.finish, first_byte_ns = excluded.first_byte_ns, duration_ns = excluded.duration_ns,
		input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens,
		output_tokens = excluded.output_tokens, thinking_tokens = excluded.thinking_tokens,
		bytes_in = excluded.bytes_in, notes = excluded.notes, steps = excluded.steps, replica = excluded.replica,
		counted = excluded.counted`

// SaveCalls writes the calls in one transaction, each under its ID, replacing what was said of it before, and keeps the daily
// sums in step. Either all of them are kept or none. Times are kept to the microsecond.
func (s *Store) SaveCalls(ctx context.Context, calls []perigee.Call) error {
	if len(calls) == 0 {
		return nil
	}
	if err := s.writable("save calls"); err != nil {
		return err
	}
	return s.explain(fmt.Sprintf("save %d calls in", len(calls)), s.inBulk(ctx, func(ctx context.Context, tx bulkTx) error {
		return s.saveCalls(ctx, tx, calls)
	}))
}

func (s *Store) saveCalls(ctx context.Context, tx bulkTx, calls []perigee.Call) error {
	now := make(map[string]counted, len(calls)) // what is counted of each call
	ids := make([]string, len(calls))
	for i := range calls {
		id := calls[i].ID
		if id == "" {
			return perigee.Errorf(perigee.ClassInternal, "save calls: call %d of %d has no id", i+1, len(calls))
		}
		ids[i] = id
		if n, ok := s.countOf(&calls[i]); ok {
			now[id] = n
		} else {
			delete(now, id) // its last state in this batch is what counts
		}
	}
	difference := sums{}
	if err := s.uncount(ctx, tx, ids, difference); err != nil {
		return err
	}
	for _, n := range now {
		difference.add(n, 1)
	}
	err := tx.each(ctx, bulk{statement: saveCall, rows: len(calls), args: func(i int, into []any) ([]any, error) {
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

// uncount takes what the sums have of the calls out of them: each is about to be replaced. That is rare: a call that was cut off
// because its replica seemed gone, or a batch whose commit was never confirmed.
func (s *Store) uncount(ctx context.Context, tx bulkTx, ids []string, difference sums) error {
	// The batch of this replica that was not confirmed may still be on its way into the database.
	if _, err := s.engine.turn(ctx, tx, "calls of "+s.replica, false); err != nil {
		return err
	}
	query, list := s.engine.savedCalls()
	arg, err := list(ids)
	if err != nil {
		return err
	}
	return tx.query(ctx, query, []any{arg}, func(row scanner) error {
		var id string
		var isCounted bool
		var n counted
		if err := row.Scan(append([]any{&id, &isCounted}, n.into()...)...); err != nil {
			return err
		}
		if isCounted {
			difference.add(n, -1)
		}
		return nil
	})
}

// appendArgs gives a call's values in the order of callColumns; scanCall reads them back.
func appendArgs(args []any, c *perigee.Call) ([]any, error) {
	notes, err := encodeList(c.Notes)
	if err != nil {
		return nil, err
	}
	steps, err := encodeList(c.Steps)
	if err != nil {
		return nil, err
	}
	return append(args,
		c.ID, c.Time.UnixMicro(), c.Operation, string(c.Dialect), c.Stream,
		c.Client.Name, c.Client.Version, c.Client.Key, c.Client.Session,
		c.ModelAsked, c.Model, c.Upstream, c.Account,
		string(c.Outcome), string(c.Class), int64(c.Status), c.Error, c.Finish, int64(c.FirstByte), int64(c.Duration),
		c.Usage.Input, c.Usage.Cached, c.Usage.Output, c.Usage.Thinking, c.BytesIn, notes, steps), nil
}

func scanCall(rows *sql.Rows) (c perigee.Call, err error) {
	var micros int64
	var notes, steps string
	err = rows.Scan(
		&c.ID, &micros, &c.Operation, &c.Dialect, &c.Stream,
		&c.Client.Name, &c.Client.Version, &c.Client.Key, &c.Client.Session,
		&c.ModelAsked, &c.Model, &c.Upstream, &c.Account,
		&c.Outcome, &c.Class, &c.Status, &c.Error, &c.Finish, &c.FirstByte, &c.Duration,
		&c.Usage.Input, &c.Usage.Cached, &c.Usage.Output, &c.Usage.Thinking, &c.BytesIn, &notes, &steps)
	if err != nil {
		return c, err
	}
	c.Time = time.UnixMicro(micros).UTC()
	if err := decodeList(notes, &c.Notes); err != nil {
		return c, fmt.Errorf("notes of call %s: %w", c.ID, err)
	}
	if err := decodeList(steps, &c.Steps); err != nil {
		return c, fmt.Errorf("steps of call %s: %w", c.ID, err)
	}
	return c, nil
}

// encodeList writes a list as JSON; most calls have none, and then it is empty.
func encodeList[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := json.Marshal(list)
	return string(text), err
}

func decodeList[T any](text string, into *[]T) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

const defaultLimit = 100

// Calls returns calls, the newest first. To page on, ask for what is Before the ID of the last one. A
// Before that names no call is of perigee.ClassNotFound; an ID that names none gives no calls.
func (s *Store) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	if q.Limit < 0 {
		return nil, perigee.Errorf(perigee.ClassInvalid, "a limit of %d calls makes no sense", q.Limit)
	}
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	calls, err := s.calls(ctx, q)
	if err != nil {
		return nil, s.explain("read calls from", err)
	}
	return calls, nil
}

// filter is what a query says about each call by itself.
func (s *Store) filter(q perigee.CallQuery) (where conditions) {
	if q.ID != "" {
		where.add("id = ", q.ID)
	}
	if q.Prefix != "" { // a range, so that the index of ids is enough where it is in the order of bytes
		where.add("id"+s.engine.bytewise()+" >= ", q.Prefix)
		where.add("id"+s.engine.bytewise()+" < ", q.Prefix+string(utf8.MaxRune))
	}
	if !q.Since.IsZero() {
		where.add("time_us >= ", q.Since.UnixMicro())
	}
	if q.Errors {
		where.parts = append(where.parts, failedCalls)
	}
	where.match(q.Model, "model", "model_asked")
	where.match(q.Client, "client_name")
	where.match(q.Account, "account")
	where.match(q.Key, "client_key")
	return where
}

func (s *Store) calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	where := s.filter(q)
	if q.Before != "" {
		var micros int64
		err := s.one(ctx, `SELECT time_us FROM calls WHERE id = $1`, []any{q.Before}, &micros)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, perigee.Errorf(perigee.ClassNotFound, "there is no call %s", q.Before)
		}
		if err != nil {
			return nil, err
		}
		where.add("(time_us, id) < ", micros, q.Before)
	}
	query := `SELECT ` + callColumns + ` FROM calls` + where.String() + ` ORDER BY time_us DESC, id DESC LIMIT ` + where.arg(q.Limit)
	var calls []perigee.Call
	err := s.each(ctx, query, where.args, func(rows *sql.Rows) error {
		call, err := scanCall(rows)
		calls = append(calls, call)
		return err
	})
	return calls, err
}
