package engine

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A postgresDriver makes connections for database/sql. It uses the package pgconn, which has the
// protocol, and converts the few types of the store itself: pgx can convert every type of
// PostgreSQL, and would add 3 MB to the program.
//
// Statements outside of transactions are tried on another connection if nothing was sent on the
// first one.
type postgresDriver struct {
	config *pgconn.Config
	// keep is how many statements with arguments the server keeps prepared for a connection: reading
	// and planning one takes longer than most statements take.
	keep int
}

// keptStatements is more than the store has.
const keptStatements = 512

// newPostgresDriver reads the address of a database. It has the options of pgx:
// default_query_exec_mode and statement_cache_capacity are for poolers that do not keep prepared
// statements.
func newPostgresDriver(address string) (postgresDriver, error) {
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return postgresDriver{}, err
	}
	option := func(name, unset string) string {
		defer delete(config.RuntimeParams, name) // otherwise the server would get it
		return cmp.Or(config.RuntimeParams[name], unset)
	}
	mode := option("default_query_exec_mode", "cache_statement")
	if !slices.Contains([]string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}, mode) {
		return postgresDriver{}, errors.New("unknown default_query_exec_mode")
	}
	keep, err := strconv.Atoi(option("statement_cache_capacity", strconv.Itoa(keptStatements)))
	if err == nil {
		_, err = strconv.Atoi(option("description_cache_capacity", "0"))
	}
	if mode != "cache_statement" {
		keep = 0
	}
	return postgresDriver{config, keep}, err
}

func (d postgresDriver) Driver() driver.Driver { return d }

// Open is for sql.Open, which nothing calls.
func (d postgresDriver) Open(string) (driver.Conn, error) { return d.Connect(context.Background()) }

func (d postgresDriver) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgconn.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, err
	}
	return &postgresConn{server: conn, used: time.Now(), keep: d.keep, kept: map[string]*pgconn.StatementDescription{}}, nil
}

type postgresConn struct {
	server *pgconn.PgConn
	used   time.Time // when the pool last gave it to a caller
	keep   int       // as in postgresDriver
	kept   map[string]*pgconn.StatementDescription
}

func (c *postgresConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	return c.server.Close(ctx)
}

func (c *postgresConn) Ping(ctx context.Context) error { return c.server.Ping(ctx) }

// ResetSession refuses a connection with an open transaction, and asks the server if the connection
// was idle for more than a second.
func (c *postgresConn) ResetSession(ctx context.Context) error {
	if c.server.IsClosed() || c.server.TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	idle := time.Since(c.used)
	c.used = time.Now()
	if idle > time.Second && c.server.Ping(ctx) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// prepared returns a statement that the server keeps, or nil if it does not keep this one.
func (c *postgresConn) prepared(ctx context.Context, query string) (*pgconn.StatementDescription, error) {
	if s := c.kept[query]; s != nil || len(c.kept) >= c.keep {
		return s, nil
	}
	s, err := c.server.Prepare(ctx, fmt.Sprintf("perigee_%d", len(c.kept)), query, nil)
	if err == nil {
		c.kept[query] = s
	}
	return s, err
}

// check returns an error of a statement. If the server has lost prepared statements or cannot use
// them any more, because a table was changed, the connection is closed. If nothing was sent,
// database/sql takes another connection.
func (c *postgresConn) check(err error) error {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && (refusal.Code == "26000" || refusal.Code == "0A000") {
		_ = c.Close()
	}
	if pgconn.SafeToRetry(err) && !pgconn.Timeout(err) {
		return driver.ErrBadConn
	}
	return err
}

// Prepare sends nothing to the server.
func (c *postgresConn) Prepare(query string) (driver.Stmt, error) { return postgresStmt{c, query}, nil }

func (c *postgresConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx has no options: transactions are as the server is configured.
func (c *postgresConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if _, err := c.ExecContext(ctx, "BEGIN", nil); err != nil {
		return nil, err
	}
	return postgresEnd{ctx, c}, nil
}

// A postgresEnd ends the transaction of a connection. If it cannot, the connection is closed.
type postgresEnd struct {
	ctx  context.Context // of BeginTx
	conn *postgresConn
}

func (e postgresEnd) Commit() error   { return e.end("COMMIT") }
func (e postgresEnd) Rollback() error { return e.end("ROLLBACK") }

func (e postgresEnd) end(statement string) error {
	results, err := e.conn.server.Exec(e.ctx, statement).ReadAll()
	if err != nil {
		_ = e.conn.Close()
		return err
	}
	// The server rolls back what it should commit if a statement has failed.
	if tag := results[0].CommandTag.String(); tag != statement {
		return fmt.Errorf("the server answered %s with %s", statement, tag)
	}
	return nil
}

// ExecContext runs a statement; without arguments it can be several.
func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	var tag pgconn.CommandTag
	if len(args) == 0 {
		results, err := c.server.Exec(ctx, query).ReadAll()
		if err != nil {
			return nil, c.check(err)
		}
		if n := len(results); n > 0 {
			tag = results[n-1].CommandTag
		}
		return driver.RowsAffected(tag.RowsAffected()), nil
	}
	rows, err := c.send(ctx, query, args)
	if err != nil {
		return nil, err
	}
	tag, err = rows.Close()
	return driver.RowsAffected(tag.RowsAffected()), c.check(err)
}

func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.send(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if len(rows.FieldDescriptions()) == 0 { // it has failed
		if _, err := rows.Close(); err != nil {
			return nil, c.check(err)
		}
	}
	return postgresRows{rows}, nil
}

// send asks for all columns in the binary format, which does not depend on settings.
func (c *postgresConn) send(ctx context.Context, query string, args []driver.NamedValue) (*pgconn.ResultReader, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	data, formats, err := postgresArgs(values)
	if err != nil {
		return nil, err
	}
	kept, err := c.prepared(ctx, query)
	switch {
	case err != nil:
		return nil, c.check(err)
	case kept != nil:
		return c.server.ExecStatement(ctx, kept, data, formats, []int16{binaryFormat}), nil
	}
	return c.server.ExecParams(ctx, query, data, nil, formats, []int16{binaryFormat}), nil
}

// each runs a statement for each row of a bulk. The server gets all rows without waiting for its
// answers.
func (c *postgresConn) each(ctx context.Context, b Bulk, storable func(args []any) []any) error {
	kept, err := c.prepared(ctx, b.Statement)
	if err != nil {
		return c.check(err)
	}
	batch := &pgconn.Batch{}
	for i := range b.Rows {
		args, err := b.Args(i, nil)
		if err != nil {
			return err
		}
		data, formats, err := postgresArgs(storable(args))
		switch {
		case err != nil:
			return err
		case kept != nil:
			batch.ExecStatement(kept, data, formats, nil)
		case i == 0:
			batch.ExecParams(b.Statement, data, nil, formats, nil)
		default: // the statement of the first row, which has no name
			batch.ExecPrepared("", data, formats, nil)
		}
	}
	return c.check(c.server.ExecBatch(ctx, batch).Close())
}

type postgresRows struct{ reader *pgconn.ResultReader }

func (r postgresRows) Columns() []string {
	fields := r.reader.FieldDescriptions()
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	return names
}

func (r postgresRows) Close() error {
	_, err := r.reader.Close()
	return err
}

func (r postgresRows) Next(row []driver.Value) (err error) {
	if !r.reader.NextRow() {
		return cmp.Or(r.Close(), io.EOF)
	}
	for i, data := range r.reader.Values() {
		if row[i], err = postgresValue(r.reader.FieldDescriptions()[i], data); err != nil {
			return err
		}
	}
	return nil
}

// postgresValue returns the value of a column. It knows the types of the store's columns, and the
// types that the store reads from tables of the server.
func postgresValue(field pgconn.FieldDescription, data []byte) (driver.Value, error) {
	if data == nil {
		return nil, nil
	}
	switch field.DataTypeOID {
	case 16: // boolean
		return data[0] != 0, nil
	case 17: // bytea
		return bytes.Clone(data), nil
	case 20: // bigint
		return int64(binary.BigEndian.Uint64(data)), nil
	case 23: // integer
		return int64(int32(binary.BigEndian.Uint32(data))), nil
	case 19, 25, 1043: // name, text, varchar
		return string(data), nil
	case 1700: // numeric
		return wholeNumeric(data)
	}
	return nil, fmt.Errorf("column %s has the unexpected type %d", field.Name, field.DataTypeOID)
}

// wholeNumeric reads a number without decimals, such as the sum of a bigint. It has 16-bit words: how
// many digits follow, the power of the first one, the sign, the decimals, and digits of base 10,000
// without zeros at the end.
func wholeNumeric(data []byte) (int64, error) {
	words := make([]uint16, len(data)/2)
	if _, err := binary.Decode(data, binary.BigEndian, words); err != nil || len(words) < 4 {
		return 0, errors.New("a numeric is cut off")
	}
	text := "0"
	switch sign, decimals := words[2], words[3]; {
	case decimals != 0 || sign != 0 && sign != 0x4000:
		return 0, errors.New("a numeric is not a whole number")
	case sign != 0:
		text = "-0"
	}
	digits := words[4:]
	for i := range int(int16(words[1])) + 1 {
		digit := uint16(0)
		if i < len(digits) {
			digit = digits[i]
		}
		text += fmt.Sprintf("%04d", digit)
	}
	return strconv.ParseInt(text, 10, 64)
}

// binaryFormat is the code of the format; 0 is text.
const binaryFormat = 1

// postgresArgs returns arguments and their formats. The server converts texts to the types that the
// statement needs.
func postgresArgs(args []any) (data [][]byte, formats []int16, err error) {
	data, formats = make([][]byte, len(args)), make([]int16, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, nil, err
		}
		switch v := value.(type) {
		case nil:
		case string:
			data[i] = []byte(v)
		case []byte:
			data[i], formats[i] = v, binaryFormat
		case int64:
			data[i] = strconv.AppendInt(nil, v, 10)
		case bool:
			data[i] = strconv.AppendBool(nil, v)
		default:
			return nil, nil, fmt.Errorf("argument %d is a %T", i+1, arg)
		}
	}
	return data, formats, nil
}

// A postgresStmt is sent as a whole each time.
type postgresStmt struct {
	conn  *postgresConn
	query string
}

func (s postgresStmt) Close() error  { return nil }
func (s postgresStmt) NumInput() int { return -1 }

func (s postgresStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.conn.ExecContext(context.Background(), s.query, named(args))
}

func (s postgresStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.conn.QueryContext(context.Background(), s.query, named(args))
}

func named(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return list
}
