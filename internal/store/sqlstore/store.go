// Package sqlstore stores perigee's data in an SQL database: calls and their sums (it is the
// perigee.CallStore that the recorder writes to and the perigee.UsageReader behind `perigee
// usage`), sign-ins with their cooldowns, thought signatures, stored responses, the audit log, and
// the account of each session. The daemon opens it for writing; commands may open it beside a
// running daemon or without one.
//
// It stores rows and is independent of how a call is made. Rows of calls hold names, counts and
// times: no keys, no tokens and no bodies. Responses hold conversations, because their clients
// requested that they be stored.
//
// The database is SQLite in a file, for one daemon, or PostgreSQL, which several replicas share:
// then this package also records which of them are alive and which of them refreshes an account.
// Package engine opens either; the statements here are the same for both.
package sqlstore

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// Options select the database to open.
type Options struct {
	Path string         // of the SQLite file
	URL  perigee.Secret // postgres://…; then Path is not used
	// Replica is the name of this process among those that share the database, and different with
	// each start. With it calls are stored as this replica's own, and the Store keeps the replica
	// alive until it is closed. Only PostgreSQL has replicas; a process that records no calls needs
	// no name.
	Replica  string
	Now      func() time.Time // time.Now if nil
	Logger   *slog.Logger     // nil discards all records
	ReadOnly bool             // read existing data; create and change nothing
	// Additive is for processes that may run beside a daemon of an older version: if the schema has
	// to be changed so that it cannot use the database any more, the error is ErrOlder.
	Additive bool
}

// Copies returns the copies of an SQLite file that were made before its schema was changed.
func Copies(path string) []string { return engine.Copies(path) }

// A Store is an open database. Its methods may be called from many goroutines at once, and several
// processes may have the same database open.
type Store struct {
	db      *engine.DB
	replica string
	now     func() time.Time
	logger  *slog.Logger

	heartbeat *heartbeat // nil if there are no replicas

	responses responseLimit
	known     knownSums
	bounds    bounds
	listing   listing
	counting  counting

	auditTrimmed atomic.Int64 // when the audit log was within its bounds, in microseconds
}

// responseLimit is the state of a Store about its stored responses.
type responseLimit struct {
	limit atomic.Int64 // of bytes; 0 if there is none

	mu      sync.Mutex
	logged  time.Time // when it was last logged that the limit removes responses
	removed int       // since then
	freed   int64
}

var (
	_ perigee.CallStore   = (*Store)(nil)
	_ perigee.UsageReader = (*Store)(nil)
)

//go:embed migrations/*.sql
var embedded embed.FS

func migrations() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name of the directory is wrong
	}
	return files
}

// hot returns the statements that saving calls and responses runs.
func (s *Store) hot() []string {
	return []string{
		saveCall, addSums, s.selectReplaced(),
		addResponse, replaceResponse, saveItem, referItem, addTotals, selectRow, selectKnown(knownFirst), selectEnd, deleteRow,
		deleteItem, releaseItem, forgetTotals, selectKept,
	}
}

// Open opens the database and brings its schema up to date. An SQLite file (0600) and its directory
// (0700) are created if they are missing; a PostgreSQL database has to exist. A database of a newer
// perigee is used unchanged, unless its schema needs that perigee. Such a database, one of another
// program and one of a schema that was never released are refused unchanged.
//
// With ReadOnly nothing is created or changed; when there is no database yet the error is of
// perigee.ClassNotFound.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s := &Store{now: opts.Now, logger: opts.Logger, known: knownSums{limit: maxDailySums},
		bounds:  bounds{sessions: maxSessions, signatureLimit: maxSignatureBytes},
		listing: listing{recent: recentCalls, time: namesTime}, counting: defaultCounting}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	s.db, err = engine.Open(ctx, engine.Options{Path: opts.Path, URL: opts.URL, ReadOnly: opts.ReadOnly,
		Additive: opts.Additive, Migrations: migrations(), Now: s.now, Logger: s.logger})
	if err != nil {
		return nil, err
	}
	if s.Shared() && !opts.ReadOnly && opts.Replica != "" {
		s.replica = opts.Replica
		if s.heartbeat, err = s.startHeartbeat(ctx); err != nil {
			_ = s.Close()
			s.db.Explain("open", &err)
			return nil, err
		}
	}
	return s, nil
}

// WarmUp opens all connections of an SQLite file and prepares what is used often, as engine.DB does.
func (s *Store) WarmUp(ctx context.Context) error { return s.db.WarmUp(ctx, s.hot()) }

// Shared reports whether other processes may use the database at the same time, which PostgreSQL
// allows.
func (s *Store) Shared() bool { return s.db.Shared }

// Close closes the database. Calls that are under way end with an error or finish first.
func (s *Store) Close() error {
	if s.heartbeat != nil {
		s.heartbeat.end()
	}
	return s.db.Close()
}

// Causes of errors about a database that cannot be used.
var (
	ErrOlder   = engine.ErrOlder
	ErrNewer   = engine.ErrNewer
	ErrDamaged = engine.ErrDamaged
)

// CheckIntegrity looks for damage in an SQLite file, as engine.DB does.
func (s *Store) CheckIntegrity(ctx context.Context) error { return s.db.CheckIntegrity(ctx) }

// Ping reads one row of the schema, to find out whether the database answers. The caller's ctx
// bounds it.
func (s *Store) Ping(ctx context.Context) (err error) {
	defer s.db.Explain("read", &err)
	_, err = engine.One(ctx, s.db, `SELECT count(*) FROM schema_version`, nil, new(int))
	return err
}
