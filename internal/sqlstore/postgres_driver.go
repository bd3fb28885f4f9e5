package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What follows is pgx as database/sql wants it, so that one set of statements serves both engines. It knows the few types
// that our columns have. (pgx has such a driver of its own, which brings a second pool of connections along.)

// A pgConnector makes connections.
type pgConnector struct{ config *pgx.ConnConfig }

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, c.config.Copy())
	if err != nil {
		return nil, err
	}
	return &pgConn{conn: conn, used: time.Now()}, nil
}

func (c pgConnector) Driver() driver.Driver { return pgDriver{} }

// pgDriver is there because database/sql asks for one; connections come from the connector.
type pgDriver struct{}

func (pgDriver) Open(string) (driver.Conn, error) {
	return nil, errors.New("sqlstore: connections are made by a connector")
}

// A pgConn is one connection. database/sql sees to it that one goroutine at a time uses it.
type pgConn struct {
	conn *pgx.Conn
	used time.Time
}

var (
	_ driver.ConnBeginTx        = (*pgConn)(nil)
	_ driver.ExecerContext      = (*pgConn)(nil)
	_ driver.QueryerContext     = (*pgConn)(nil)
	_ driver.ConnPrepareContext = (*pgConn)(nil)
	_ driver.Pinger             = (*pgConn)(nil)
	_ driver.SessionResetter    = (*pgConn)(nil)
	_ driver.Validator          = (*pgConn)(nil)
)

// goodbyeTime bounds what is done for politeness.
const goodbyeTime = 2 * time.Second

func (c *pgConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	return c.conn.Close(ctx)
}

func (c *pgConn) IsValid() bool { return !c.conn.IsClosed() }

func (c *pgConn) Ping(ctx context.Context) error { return c.conn.Ping(ctx) }

// ResetSession finds out whether a connection that nobody has used for a while is still good.
func (c *pgConn) ResetSession(ctx context.Context) error {
	if c.conn.IsClosed() {
		return driver.ErrBadConn
	}
	if time.Since(c.used) > time.Second {
		if err := c.conn.Ping(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return driver.ErrBadConn
		}
	}
	c.used = time.Now()
	return nil
}

// retry turns an error into the one on which database/sql tries another connection, if the server cannot have seen what
// was asked.
func (c *pgConn) retry(err error) error {
	if err != nil && pgconn.SafeToRetry(err) && c.conn.IsClosed() {
		return driver.ErrBadConn
	}
	return err
}

func (c *pgConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *pgConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var options pgx.TxOptions
	if opts.ReadOnly {
		options.AccessMode = pgx.ReadOnly
		options.IsoLevel = pgx.RepeatableRead // all that is read is of one moment
	}
	tx, err := c.conn.BeginTx(ctx, options)
	if err != nil {
		return nil, c.retry(err)
	}
	return pgTx{ctx, tx}, nil
}

// A pgTx is a transaction.
type pgTx struct {
	ctx context.Context
	tx  pgx.Tx
}

func (t pgTx) Commit() error { return t.tx.Commit(t.ctx) }

// Rollback is wanted most when the context is over.
func (t pgTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), goodbyeTime)
	defer cancel()
	return t.tx.Rollback(ctx)
}

func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := c.conn.Exec(ctx, query, plainArgs(args)...)
	if err != nil {
		return nil, c.retry(err)
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.conn.Query(ctx, query, plainArgs(args)...)
	if err != nil {
		return nil, c.retry(err)
	}
	// Trouble with the statement shows only when the first row is asked for, and belongs here.
	more := rows.Next()
	if err := rows.Err(); err != nil {
		rows.Close()
		return nil, c.retry(err)
	}
	return &pgRows{rows: rows, more: more}, nil
}

func plainArgs(named []driver.NamedValue) []any {
	args := make([]any, len(named))
	for i, v := range named {
		args[i] = v.Value
	}
	return args
}

func (c *pgConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext only keeps the text: pgx knows by itself which statements it has prepared.
func (c *pgConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &pgStmt{c, query}, nil
}

type pgStmt struct {
	conn  *pgConn
	query string
}

var (
	_ driver.StmtExecContext  = (*pgStmt)(nil)
	_ driver.StmtQueryContext = (*pgStmt)(nil)
)

func (s *pgStmt) Close() error  { return nil }
func (s *pgStmt) NumInput() int { return -1 } // the server counts

func (s *pgStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s *pgStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

var errWithoutContext = errors.New("sqlstore: statements run with a context only")

func (s *pgStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errWithoutContext }
func (s *pgStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errWithoutContext }

// pgRows are the rows of a query.
type pgRows struct {
	rows pgx.Rows
	more bool // rows stands on one that was not given out
}

func (r *pgRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

func (r *pgRows) Close() error {
	r.rows.Close()
	return r.rows.Err()
}

func (r *pgRows) Next(dest []driver.Value) error {
	if !r.more && !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	r.more = false
	values, err := r.rows.Values()
	if err != nil {
		return err
	}
	for i, v := range values {
		if dest[i], err = plainValue(v); err != nil {
			return err
		}
	}
	return nil
}

// plainValue makes one of the types that database/sql knows. Sums of big integers come as numerics.
func plainValue(v any) (driver.Value, error) {
	switch v := v.(type) {
	case driver.Valuer:
		return v.Value()
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	}
	return v, nil
}
