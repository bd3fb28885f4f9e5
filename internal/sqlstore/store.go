// Package sqlstore keeps calls in an SQL database and sums them up: it is the perigee.CallStore that the
// recorder writes to and the perigee.UsageReader behind `perigee usage`. The daemon opens it for writing;
// commands may open it read-only beside a running daemon or without one.
//
// It keeps rows and knows nothing of how a call comes about. Rows of calls hold names, counts and times: no keys,
// no tokens and no bodies. Responses hold what was said, because their clients asked for it to be kept.
//
// The engine is SQLite. What only SQLite needs is in sqlite.go and trouble.go; the statements themselves
// are written so that PostgreSQL understands them too.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"perigee"
)

// Options say which database to open.
type Options struct {
	Path     string           // of the SQLite file
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: silent
	ReadOnly bool             // read what is there; create and change nothing
}

// A Store is an open database. Its methods may be called from many goroutines at once, and several
// processes may have the same database open.
type Store struct {
	path   string
	now    func() time.Time
	logger *slog.Logger

	// SQLite has one writer at a time. Queueing for the one connection here is fair and immediate,
	// where waiting for the file lock would be polling. Nil when read-only.
	write *sql.DB
	read  *sql.DB
	save  *sql.Stmt // on write
}

var (
	_ perigee.CallStore   = (*Store)(nil)
	_ perigee.UsageReader = (*Store)(nil)
)

// Open opens the database and brings its schema up to date. The file (0600) and its directory (0700) are
// created if they are missing. A database that was made by a newer perigee is refused unchanged.
//
// With ReadOnly nothing is created or changed; when there is no database yet the error is of
// perigee.ClassNotFound.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s := &Store{path: opts.Path, now: opts.Now, logger: opts.Logger}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
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

func (s *Store) openWritable(ctx context.Context) error {
	if err := prepareFiles(s.path); err != nil {
		return err
	}
	migrations, err := embeddedMigrations()
	if err != nil {
		return err
	}
	// Look before anything is written: already the writer's settings would change the file.
	if s.read, err = openPool(s.path, reading, readers); err != nil {
		return err
	}
	if err := refuseForeign(ctx, s.read, s.path); err != nil {
		return err
	}
	if version, err := versionIfAny(ctx, s.read); err != nil {
		return err
	} else if version > latest(migrations) {
		return errNewer(version, latest(migrations))
	}

	if s.write, err = openPool(s.path, writing, 1); err != nil {
		return err
	}
	applied, err := migrate(ctx, s.write, migrations, s.now)
	if err != nil {
		return err
	}
	if applied > 0 {
		s.logger.DebugContext(ctx, "database schema brought up to date", "path", s.path, "version", latest(migrations))
	}
	s.save, err = s.write.PrepareContext(ctx, saveCall)
	return err
}

func (s *Store) openReadOnly(ctx context.Context) error {
	migrations, err := embeddedMigrations()
	if err != nil {
		return err
	}
	var version int
	s.read, version, err = openExisting(ctx, s.path)
	switch {
	case err != nil:
		return err
	case version == 0:
		return errNoCalls()
	case version > latest(migrations):
		return errNewer(version, latest(migrations))
	case version < latest(migrations):
		return perigee.Errorf(perigee.ClassUnavailable, "the database %s is at schema version %d and this perigee reads version %d",
			s.path, version, latest(migrations)).WithNext("run `perigee serve` once, it brings the database up to date")
	}
	return nil
}

// Close closes the database. Calls that are under way end with an error or finish first.
func (s *Store) Close() error {
	var errs []error
	if s.save != nil {
		errs = append(errs, s.save.Close())
	}
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	// The writer goes last: the last connection moves the log into the database file and removes it.
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	return errors.Join(errs...)
}

func errNoCalls() *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet").
		WithNext("start `perigee serve` and send a request through it")
}
