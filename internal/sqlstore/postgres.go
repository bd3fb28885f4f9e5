package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"perigee"
)

// A postgres is a database on a server, which several replicas share.
//
// Nothing here outlives a transaction on the server (no prepared statements of ours, no session locks, no LISTEN), so
// that a pooler which lends connections by transaction may stand in between.
type postgres struct {
	config *pgx.ConnConfig
	title  string
	leases *sql.DB // for LeaseRefresh, whose transactions stay open for a while
}

// How many connections a replica has at most, and for how long: a server that has moved is found again.
const (
	connections      = 12
	leaseConnections = 4
	connectionIdle   = 5 * time.Minute
	connectionAge    = 30 * time.Minute
	connectTime      = 5 * time.Second
	postgresPatience = 20 * time.Second
)

func newPostgres(opts Options) (*postgres, error) {
	config, err := pgx.ParseConfig(opts.URL.Reveal())
	if err != nil {
		// The error may quote a password.
		return nil, perigee.Errorf(perigee.ClassInvalid, "store.url is no address of a PostgreSQL database").
			WithNext("write it as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "perigee"
	}
	if opts.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	title := url.URL{Scheme: "postgres", Path: "/" + config.Database, Host: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	if strings.HasPrefix(config.Host, "/") { // the directory of a socket
		title.Host = ""
		title.RawQuery = "host=" + config.Host
	}
	return &postgres{config: config, title: title.String()}, nil
}

func (p *postgres) name() string            { return p.title }
func (p *postgres) shared() bool            { return true }
func (p *postgres) patience() time.Duration { return postgresPatience }
func (p *postgres) bytewise() string        { return ` COLLATE "C"` }
func (p *postgres) skipLocked() string      { return ` FOR UPDATE SKIP LOCKED` }
func (p *postgres) elsewhere() string {
	return "make a database for perigee alone, or a schema and name it with ?search_path= in store.url"
}

func (p *postgres) close() error {
	if p.leases == nil {
		return nil
	}
	return p.leases.Close()
}

func (p *postgres) open(size int) *sql.DB {
	db := stdlib.OpenDB(*p.config)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(connectionIdle)
	db.SetConnMaxLifetime(connectionAge)
	return db
}

func (p *postgres) openReader(ctx context.Context) (*sql.DB, error) {
	db := p.open(connections)
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func (p *postgres) openWriter(reader *sql.DB) (*sql.DB, error) {
	p.leases = p.open(leaseConnections)
	p.leases.SetMaxIdleConns(1)
	return reader, nil
}

func (p *postgres) openReadOnly(ctx context.Context) (*sql.DB, int, error) {
	db, err := p.openReader(ctx)
	if err != nil {
		return nil, 0, err
	}
	version, err := versionIfAny(ctx, db, p)
	if err != nil {
		_ = db.Close()
		return nil, 0, err
	}
	return db, version, nil
}

// tables looks into the schema that ours would be made in. Other programs have a table schema_version, too.
func (p *postgres) tables(ctx context.Context, db *sql.DB) (all int, ours bool, err error) {
	const query = `SELECT count(DISTINCT table_name),
		count(*) FILTER (WHERE table_name = 'schema_version' AND column_name = 'applied_us') > 0
		FROM information_schema.columns WHERE table_schema = current_schema()`
	err = db.QueryRowContext(ctx, query).Scan(&all, &ours)
	return all, ours, err
}

// alone waits for others who are bringing the same schema up to date.
func (p *postgres) alone(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('perigee schema ' || current_schema(), 0))`)
	return err
}

// durably overrules a server that was told to confirm commits before they are on disk.
// openAll has nothing to do: a connection that is missing is an error that says so.
func (p *postgres) openAll(context.Context, *sql.DB) error { return nil }

func (p *postgres) durably(ctx context.Context, db *sql.DB, change func(tx *sql.Tx) error) error {
	return inTransaction(ctx, db, func(tx *sql.Tx) error {
		const syncAtCommit = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`
		if _, err := tx.ExecContext(ctx, syncAtCommit); err != nil {
			return err
		}
		return change(tx)
	})
}

func (p *postgres) inBulk(ctx context.Context, db *sql.DB, work func(tx bulkTx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("a connection of type %T", driver)
		}
		return pgx.BeginFunc(ctx, c.Conn(), func(tx pgx.Tx) error { return work(postgresTx{tx, p}) })
	})
}

type postgresTx struct {
	tx pgx.Tx
	p  *postgres
}

func (t postgresTx) query(ctx context.Context, statement string, args []any, read func(row scanner) error) error {
	rows, err := t.tx.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// each sends all rows at once instead of waiting for the server after each.
func (t postgresTx) each(ctx context.Context, b bulk) error {
	if b.rows == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for i := range b.rows {
		args, err := b.args(i, nil)
		if err != nil {
			return err
		}
		for j, arg := range args {
			if s, ok := arg.(string); ok {
				args[j] = t.p.text(s)
			}
		}
		batch.Queue(b.statement, args...)
	}
	return t.tx.SendBatch(ctx, batch).Close()
}

func (p *postgres) savedCalls() (query string, list func(ids []string) (any, error)) {
	return `SELECT id, counted, ` + callSums + ` FROM calls WHERE id = ANY($1) ORDER BY id FOR UPDATE`, func(ids []string) (any, error) {
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i] = p.text(id)
		}
		return texts, nil
	}
}

// turn is an advisory lock, which ends with the transaction however that ends.
func (p *postgres) turn(ctx context.Context, tx bulkTx, name string, try bool) (ours bool, err error) {
	const lock = `(hashtextextended('perigee ' || $1 || ' ' || current_schema(), 0))`
	statement := `SELECT pg_advisory_xact_lock` + lock + ` IS NOT NULL`
	if try {
		statement = `SELECT pg_try_advisory_xact_lock` + lock
	}
	err = tx.query(ctx, statement, []any{name}, func(row scanner) error { return row.Scan(&ours) })
	return ours, err
}

// text makes a text one that PostgreSQL takes: it knows no NUL and nothing that is not UTF-8, and a row that is refused for
// that would be tried again for ever.
func (p *postgres) text(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
