// Package sqlstore keeps what perigee must not forget in an SQL database: calls and their sums (it is the
// perigee.CallStore that the recorder writes to and the perigee.UsageReader behind `perigee usage`), sign-ins with
// their cooldowns, signatures, stored responses and which account a session was with. The daemon opens it for writing;
// commands may open it beside a running daemon or without one.
//
// It keeps rows and knows nothing of how a call comes about. Rows of calls hold names, counts and times: no keys,
// no tokens and no bodies. Responses hold what was said, because their clients asked for it to be kept.
//
// The engine is SQLite in a file, for one daemon, or PostgreSQL, which several replicas share: then this package also
// knows which of them are alive and which of them refreshes an account. Statements are written so that both understand
// them; what only one needs is behind the engine interface, in sqlite*.go and postgres*.go.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
)

// Options say which database to open.
type Options struct {
	Path string         // of the SQLite file
	URL  perigee.Secret // postgres://…; then Path is not used
	// Replica is what this process is called among those that share the database, and different with each start. With it
	// calls are kept as this replica's own, and the Store says until it is closed that the replica is alive. Only
	// PostgreSQL has replicas; who records no calls needs no name.
	Replica  string
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: silent
	ReadOnly bool             // read what is there; create and change nothing
}

// A Store is an open database. Its methods may be called from many goroutines at once, and several
// processes may have the same database open.
type Store struct {
	engine  engine
	replica string
	now     func() time.Time
	logger  *slog.Logger

	write *sql.DB // nil when read-only
	read  *sql.DB // the same as write where one pool does for both

	presence *presence // nil: there is nobody to tell that we are alive

	responses keptResponses
	known     knownSums
	bounds    bounds

	auditTrimmed atomic.Int64 // when the audit log was within its bounds, in microseconds
}

// keptResponses is what a Store knows about the responses that it keeps.
type keptResponses struct {
	limit    atomic.Int64 // of bytes; 0: there is none
	oldBytes atomic.Int64 // in rows of the table responses

	mu      sync.Mutex
	told    time.Time // when the log said last that the limit removes responses
	removed int       // since then
	freed   int64
}

var (
	_ perigee.CallStore   = (*Store)(nil)
	_ perigee.UsageReader = (*Store)(nil)
)

// Open opens the database and brings its schema up to date. An SQLite file (0600) and its directory (0700) are
// created if they are missing; a PostgreSQL database has to be there. A database that was made by a newer perigee, or by
// another program, is refused unchanged.
//
// With ReadOnly nothing is created or changed; when there is no database yet the error is of
// perigee.ClassNotFound.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s := &Store{now: opts.Now, logger: opts.Logger, known: knownSums{limit: maxDailySums},
		bounds: bounds{sessions: maxSessions, signatureLimit: maxSignatureBytes}}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.engine, err = chooseEngine(opts); err != nil {
		return nil, err
	}
	if s.Shared() && !opts.ReadOnly {
		s.replica = opts.Replica
	}
	open := s.openWritable
	if opts.ReadOnly {
		open = s.openReadOnly
	}
	if err := open(ctx); err != nil {
		_ = s.Close()
		return nil, s.explain("open", err)
	}
	return s, nil
}

// Shared says whether other processes may be using the database as this one does: whether it is PostgreSQL.
func (s *Store) Shared() bool { return s.engine.shared() }

func (s *Store) openWritable(ctx context.Context) error {
	migrations, err := embeddedMigrations()
	if err != nil {
		return err
	}
	// Look before anything is written: already the writer's settings would change an SQLite file.
	if s.read, err = s.engine.openReader(ctx); err != nil {
		return err
	}
	if err := s.refuseForeign(ctx); err != nil {
		return err
	}
	if version, err := versionIfAny(ctx, s.read, s.engine); err != nil {
		return err
	} else if version > latest(migrations) {
		return errNewer(version, latest(migrations))
	}

	if s.write, err = s.engine.openWriter(s.read); err != nil {
		return err
	}
	applied, err := migrate(ctx, s.write, s.engine, migrations, s.now)
	if err != nil {
		return err
	}
	if applied > 0 {
		s.logger.DebugContext(ctx, "database schema brought up to date", "database", s.engine.name(), "version", latest(migrations))
	}
	if err := s.engine.openAll(ctx, s.read); err != nil {
		return err
	}
	if s.replica != "" {
		s.presence, err = s.appear(ctx)
	}
	return err
}

func (s *Store) openReadOnly(ctx context.Context) error {
	migrations, err := embeddedMigrations()
	if err != nil {
		return err
	}
	var version int
	s.read, version, err = s.engine.openReadOnly(ctx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return errNoCalls()
	case version > latest(migrations):
		return errNewer(version, latest(migrations))
	case version < latest(migrations):
		return perigee.Errorf(perigee.ClassUnavailable, "the database %s is at schema version %d and this perigee reads version %d",
			s.engine.name(), version, latest(migrations)).WithNext("run `perigee serve` once, it brings the database up to date")
	}
	return nil
}

// Close closes the database. Calls that are under way end with an error or finish first.
func (s *Store) Close() error {
	var errs []error
	if s.presence != nil {
		s.presence.end()
	}
	if s.read != nil && s.read != s.write {
		errs = append(errs, s.read.Close())
	}
	// The writer goes last: SQLite's last connection moves the log into the database file and removes it.
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	return errors.Join(append(errs, s.engine.close())...)
}

func errNoCalls() *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet").
		WithNext("start `perigee serve` and send a request through it")
}

// refuseForeign keeps us from adding our tables to the database of another program.
func (s *Store) refuseForeign(ctx context.Context) error {
	all, ours, err := s.engine.tables(ctx, s.read)
	if err != nil {
		return err
	}
	if all > 0 && !ours {
		return perigee.Errorf(perigee.ClassInvalid, "%s is a database of another program", s.engine.name()).
			WithNext("%s", s.engine.elsewhere())
	}
	return nil
}

// writable returns an error where nothing may be changed.
func (s *Store) writable(doing string) error {
	if s.write == nil {
		return perigee.Errorf(perigee.ClassInternal, "%s: the database was opened read-only", doing)
	}
	return nil
}
