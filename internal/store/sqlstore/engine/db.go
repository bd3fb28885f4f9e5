// Package engine opens the database of a store and runs statements on it. The database is an SQLite
// file, for one daemon, or PostgreSQL, which several replicas share. It has no tables of its own:
// the store brings the migrations and writes statements that both accept. Fields of Dialect have
// the differences of a few words; a Driver for each has the differences in behaviour.
package engine

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
)

// Options select the database to open.
type Options struct {
	Path     string         // of the SQLite file
	URL      perigee.Secret // postgres://…; then Path is not used
	ReadOnly bool           // create and change nothing
	// Additive refuses a migration after which older versions cannot use the database, because a
	// daemon of one may be running.
	Additive   bool
	Migrations fs.FS // 0015_name.sql and so on: see readMigrations
	Now        func() time.Time
	Logger     *slog.Logger
}

// A DB is an open database. Its methods may be called concurrently.
type DB struct {
	Dialect
	Driver Driver
	Read   *sql.DB
	Write  *sql.DB // nil if read-only; the same as Read if one pool serves both
	// hot has the statements of WarmUp, prepared once for the one writing connection of SQLite; nil
	// before WarmUp.
	hot atomic.Pointer[map[string]*sql.Stmt]
	// leases is for Lease, which keeps transactions open for a while; nil if the database is not
	// shared.
	leases *sql.DB
	// refreshing is for Lease where leases is nil. It has [2]string{upstream, email} and a chan
	// struct{} with one place, which the lease takes.
	refreshing sync.Map
}

// A Dialect is how the SQL of two engines differs. Empty statements have nothing to do.
type Dialect struct {
	Name    string              // of the database, for a person; without a password
	Shared  bool                // with other processes that do the same
	Timeout time.Duration       // limits work that has no other limit; 0 if it cannot hang
	Text    func(string) string // the part of a text that can be stored

	Bytewise string // behind an expression: compare it as bytes
	Listed   string // a query for the texts in $1, which is a JSON array
	LockRows string // behind a query for rows by id: other transactions wait for these rows
	// SkipLocked follows a query: it locks the rows, without those that another transaction has
	// locked.
	SkipLocked string

	lock, tryLock string // other transactions with the same $1 wait until this one ends
	tables        string // how many tables there are where ours would be, and whether they are ours
	elsewhere     string // the hint when they are another program's
	// lockSchema makes other processes that migrate the same schema wait until the transaction
	// ends.
	lockSchema string
	// warm is how many reading connections WarmUp opens. If 0, nothing is prepared either.
	warm int

	// lockUpgrade makes other processes that copy and migrate the database wait until unlock; nil if
	// backUp is.
	lockUpgrade func(ctx context.Context) (unlock func(), err error)
	// backUp copies the database, which has a version of the schema, before it is migrated; nil if
	// the database has backups of its own. It returns an error if the copy is required and cannot be
	// made.
	backUp func(ctx context.Context, version int, required bool, logger *slog.Logger) error
}

// A Driver has the operations that differ between SQLite and PostgreSQL.
type Driver interface {
	// Open returns pools of connections, of which it has used at most the one for reading: already
	// the writer's settings change an SQLite file. Where one pool does for both they are the same.
	// Read-only, write is nil and nothing is created.
	Open(ctx context.Context, readOnly bool) (read, write *sql.DB, err error)
	// Transact runs work in a transaction. A durable one has reached the disk when it returns.
	Transact(ctx context.Context, db *sql.DB, durable bool, work func(tx Tx) error) error
	// Sizes returns the size of the database, in all and for each table with its indexes. It need
	// not read the table largest.
	Sizes(ctx context.Context, db *sql.DB, largest string) (report perigee.StoreReport, tables map[string]int64, err error)
	// Compact returns the free space of tables to the file system. Transactions can run at the same
	// time.
	Compact(ctx context.Context, db *sql.DB, tables []string) (note string, err error)
	// Advice returns the class of an error of the database, and a hint.
	Advice(err error) (class perigee.Class, hint string)
}

// Open opens a database and brings its schema up to date. An SQLite file (0600) and its directory
// (0700) are created if they are missing; a PostgreSQL database has to exist. A database of a newer
// perigee is used unchanged, unless its schema needs that perigee. Such a database, one of another
// program and one of a schema before the first migration are refused unchanged. If nothing may be
// created and there is no database, the error is of perigee.ClassNotFound.
func Open(ctx context.Context, opts Options) (*DB, error) {
	migrations, err := readMigrations(opts.Migrations)
	if err != nil {
		return nil, err
	}
	db := newSQLite(opts)
	if !opts.URL.IsZero() {
		if db, err = newPostgres(opts); err != nil {
			return nil, err
		}
	}
	if err := db.open(ctx, migrations, opts); err != nil {
		_ = db.Close()
		db.Explain("open", &err)
		return nil, err
	}
	return db, nil
}

// open looks before anything is written.
func (db *DB) open(ctx context.Context, migrations []migration, opts Options) (err error) {
	known := lastVersion(migrations)
	if db.Read, db.Write, err = db.Driver.Open(ctx, opts.ReadOnly); err != nil {
		return err
	}
	tables, version, err := db.version(ctx)
	if err == nil {
		err = db.checkSchema(ctx, db.Read, version, migrations)
	}
	switch {
	case err != nil:
		return err
	case opts.ReadOnly && version <= 0:
		return errNoDatabase()
	case opts.ReadOnly && version < known:
		e := perigee.Errorf(perigee.ClassUnavailable, "the database %s is at schema version %d and this perigee reads version %d",
			db.Name, version, known).WithHint("run `perigee serve` once, which migrates the database")
		e.Cause = ErrOlder
		return e
	case opts.ReadOnly:
		return nil
	case opts.Additive && version > 0 && version < known && ruledOut(version, migrations):
		e := perigee.Errorf(perigee.ClassUnavailable, "the database %s is at schema version %d, and version %d of this perigee excludes older ones",
			db.Name, version, known).WithHint("run `perigee serve --replace`, which ends an older daemon and migrates the database")
		e.Cause = ErrOlder
		return e
	case version < 0 && tables > 0:
		return perigee.Errorf(perigee.ClassInvalid, "%s is a database of another program", db.Name).WithHint("%s", db.elsewhere)
	}
	switchToWAL(ctx, db.Write)
	if version > known {
		opts.Logger.InfoContext(ctx, "the database was used by a newer perigee; its schema allows this one, too", "database", db.Name,
			"version", version, "known", known)
	}
	applied, err := db.upgrade(ctx, version, migrations, opts)
	if applied > 0 {
		opts.Logger.DebugContext(ctx, "database schema brought up to date", "database", db.Name, "version", known)
	}
	return err
}

// version returns how many tables there are, and the version of the schema; -1 if the tables, if
// there are any, are not perigee's.
func (db *DB) version(ctx context.Context) (tables, version int, err error) {
	var ours bool
	err = db.Read.QueryRowContext(ctx, db.tables).Scan(&tables, &ours)
	if err != nil || !ours {
		return tables, -1, err
	}
	version, err = schemaVersion(ctx, db.Read)
	return tables, version, err
}

// WarmUp prepares statements that transactions run often, each with its arguments in order and each
// once, and opens the connections for reading, which the pool keeps,
// with the file and the log of each. Opened when a query needs it, a connection can fail for want
// of a file descriptor; one that gets the file and not the log sees an old database, or an empty
// one: "no such table". A process that serves for a long time calls it once, as soon as it listens;
// queries may run at the same time.
func (db *DB) WarmUp(ctx context.Context, statements []string) (err error) {
	defer db.Explain("read", &err)
	if db.warm == 0 || db.Write == nil {
		return nil
	}
	hot := make(map[string]*sql.Stmt, len(statements))
	for _, text := range statements {
		if hot[text], err = db.Write.PrepareContext(ctx, placeholders().ReplaceAllString(text, "?")); err != nil {
			return err
		}
	}
	db.hot.Store(&hot)
	for range db.warm {
		conn, err := db.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // all at the end: each has to be another one
		if _, err := schemaVersion(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func errNoDatabase() *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet").
		WithHint("start `perigee serve` and send a request through it")
}

// Close closes the database. Transactions that are under way end with an error or finish first.
func (db *DB) Close() error {
	var errs []error
	// The writer goes last: SQLite's last connection moves the log into the database file and
	// removes it.
	for _, pool := range []*sql.DB{db.leases, db.Read, db.Write} {
		if pool != nil {
			errs = append(errs, pool.Close()) // closing a pool twice does nothing
		}
	}
	return errors.Join(errs...)
}

// Writable returns an error where nothing may be changed.
func (db *DB) Writable(doing string) error {
	if db.Write == nil {
		return perigee.Errorf(perigee.ClassInternal, "%s %s: the database was opened read-only", doing, db.Name)
	}
	return nil
}

// ErrTimeout means that the database did not answer within the time limit of the DB itself.
var ErrTimeout = errors.New("the database did not answer in time")

// Explain replaces an error of the database by one with a class and a hint. It does not change
// errors that have these already, or the end of a context. It is deferred with the error that a
// function returns.
func (db *DB) Explain(doing string, err *error) {
	if *err == nil || errors.Is(*err, context.Canceled) || errors.Is(*err, context.DeadlineExceeded) {
		return
	}
	if _, ok := errors.AsType[*perigee.Error](*err); ok {
		return
	}
	class, hint := perigee.ClassUnavailable, "check the database and the way to it"
	if !errors.Is(*err, ErrTimeout) {
		class, hint = db.Driver.Advice(*err)
	}
	e := perigee.Errorf(class, "%s %s: %w", doing, db.Name, *err).WithHint("%s", hint)
	e.Public = "perigee cannot use its database at the moment"
	if isDamage(*err) {
		e.Cause = errors.Join(ErrDamaged, *err)
	}
	*err = e
}
