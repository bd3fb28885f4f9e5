package engine

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"perigee"
)

// A postgres is a database on a server, which several replicas share.
//
// No state outlives a transaction on the server (no session locks, no LISTEN) but prepared
// statements, which an option of the address turns off, so that a pooler in transaction mode can be
// used.
type postgres struct {
	driver postgresDriver
	db     *DB
}

// How many connections a replica has at most, and for how long: a server that has moved is found
// again.
const (
	connections      = 12
	leaseConnections = 4
	connectionIdle   = 5 * time.Minute
	connectionAge    = 30 * time.Minute
	connectTime      = 5 * time.Second
	postgresTimeout  = 20 * time.Second
)

// newPostgres returns a database that is not open.
func newPostgres(opts Options) (*DB, error) {
	driver, err := newPostgresDriver(opts.URL.Reveal())
	if err != nil {
		// The error may quote a password.
		return nil, perigee.Errorf(perigee.ClassInvalid, "store.url is not the address of a PostgreSQL database").
			WithHint("write it as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	config := driver.config
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "perigee"
	}
	if opts.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	title := url.URL{Scheme: "postgres", Path: "/" + config.Database,
		Host: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	if strings.HasPrefix(config.Host, "/") { // the directory of a socket
		title.Host = ""
		title.RawQuery = "host=" + config.Host
	}
	p := &postgres{driver: driver}
	db := &DB{Driver: p, Dialect: Dialect{
		Name:    title.String(),
		Shared:  true,
		Timeout: postgresTimeout,
		Text:    postgresText,

		Bytewise:   ` COLLATE "C"`,
		Listed:     `SELECT json_array_elements_text(CAST($1 AS json))`,
		LockRows:   ` ORDER BY id FOR UPDATE`,
		SkipLocked: ` FOR UPDATE SKIP LOCKED`,
		// Advisory locks end with the transaction, however that ends.
		lock:    `SELECT pg_advisory_xact_lock` + lockKey + ` IS NOT NULL`,
		tryLock: `SELECT pg_try_advisory_xact_lock` + lockKey,

		// It looks into the schema that ours would be made in. Other programs have a table
		// schema_version, too.
		tables: `SELECT count(DISTINCT table_name),
			count(*) FILTER (WHERE table_name = 'schema_version' AND column_name = 'applied_us') > 0
			FROM information_schema.columns WHERE table_schema = current_schema()`,
		elsewhere:  "make a database for perigee alone, or a schema and name it with ?search_path= in store.url",
		lockSchema: `SELECT pg_advisory_xact_lock(hashtextextended('perigee schema ' || current_schema(), 0))`,
	}}
	p.db = db
	if !opts.ReadOnly {
		db.leases = p.pool(leaseConnections)
		db.leases.SetMaxIdleConns(1)
	}
	return db, nil
}

const lockKey = `(hashtextextended('perigee ' || $1 || ' ' || current_schema(), 0))`

func (p *postgres) pool(size int) *sql.DB {
	db := sql.OpenDB(p.driver)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(connectionIdle)
	db.SetConnMaxLifetime(connectionAge)
	return db
}

// Open connects to the server. One pool reads and writes.
func (p *postgres) Open(ctx context.Context, readOnly bool) (read, write *sql.DB, err error) {
	read = p.pool(connections)
	if err := read.PingContext(ctx); err != nil || readOnly {
		return read, nil, err
	}
	return read, read, nil
}

// postgresSync overrides a server that is configured to confirm commits before they are on disk.
const postgresSync = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// Transact holds the connection, on which Each can send many rows at once.
func (p *postgres) Transact(ctx context.Context, db *sql.DB, durable bool, work func(tx Tx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return inTransaction(ctx, conn, func(tx *sql.Tx) error {
		if durable {
			if _, err := tx.ExecContext(ctx, postgresSync); err != nil {
				return err
			}
		}
		return work(postgresTx{tx, conn, p.db})
	})
}

type postgresTx struct {
	tx   *sql.Tx
	conn *sql.Conn // of the transaction
	db   *DB
}

// Query reads all rows.
func (t postgresTx) Query(ctx context.Context, statement string, args []any, read func(row Row) error) error {
	rows, err := t.tx.QueryContext(ctx, statement, t.db.storable(args)...)
	return eachRow(rows, err, read)
}

// Exec runs one statement.
func (t postgresTx) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(ctx, statement, t.db.storable(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each sends all rows at once instead of waiting for the server after each.
func (t postgresTx) Each(ctx context.Context, b Bulk) error {
	if b.Rows == 0 {
		return nil
	}
	return t.conn.Raw(func(conn any) error { return conn.(*postgresConn).each(ctx, b, t.db.storable) })
}

// postgresText makes a text one that PostgreSQL accepts: without NUL and invalid UTF-8. A row that
// is refused for that would be tried again for ever.
func postgresText(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

const postgresSizes = `SELECT relname, pg_total_relation_size(oid) FROM pg_class
	WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)`

// Sizes asks the server.
func (p *postgres) Sizes(ctx context.Context, db *sql.DB, _ string) (report perigee.StoreReport, tables map[string]int64, err error) {
	report.Engine = "postgres"
	tables, err = tableSizes(ctx, db, postgresSizes)
	for _, size := range tables {
		report.Bytes += size
	}
	return report, tables, err
}

// tableSizes runs a query for tables and their sizes.
func tableSizes(ctx context.Context, db *sql.DB, query string, args ...any) (map[string]int64, error) {
	tables := map[string]int64{}
	rows, err := db.QueryContext(ctx, query, args...)
	err = eachRow(rows, err, func(row Row) error {
		var name string
		var size int64
		err := row.Scan(&name, &size)
		tables[name] += size
		return err
	})
	return tables, err
}

// Compact makes the server reuse the space of removed rows for new ones, without blocking other
// statements. Returning it to the system would lock the tables, and is left to the administrator.
func (p *postgres) Compact(ctx context.Context, db *sql.DB, tables []string) (note string, err error) {
	for _, table := range tables {
		if _, err := db.ExecContext(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return "", err
		}
	}
	return "PostgreSQL keeps free space for new rows; to return it to the system " +
		"run VACUUM FULL response_items, calls when no call is being answered", nil
}
