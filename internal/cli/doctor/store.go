package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"perigee"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/sqlstore"
)

// Store opens the database read-only and checks its integrity. With offline, PostgreSQL is not
// asked.
func Store(ctx context.Context, options sqlstore.Options, offline bool) Result {
	if offline && !options.URL.IsZero() {
		return ok(NameStore, "PostgreSQL, which is not asked because of --offline")
	}
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return ok(NameStore, "there is no database yet; perigee creates it when it is needed")
	}
	if err != nil {
		return brokenStore(ctx, options, err)
	}
	defer func() { _ = store.Close() }()
	if err := store.CheckIntegrity(ctx); err != nil {
		return brokenStore(ctx, options, err)
	}
	report, err := store.Report(ctx)
	if err != nil {
		return brokenStore(ctx, options, err)
	}
	return ok(NameStore, "%s, %s, not damaged", report.Database, terminal.Size(report.Bytes))
}

// serveOnce is the fix for a schema that is older than this program.
const serveOnce = "perigee serve"

// migrating returns the result for a store of which the daemon may be older than this program, too:
// then it is the one to replace.
func (d Daemon) migrating(r Result) Result {
	if r.Fix == serveOnce && d.Status != nil {
		r.Fix = d.restart()
		r.Detail = "the daemon is older than this command, and so is the schema of its database; the next daemon migrates it"
	}
	return r
}

func brokenStore(ctx context.Context, options sqlstore.Options, err error) Result {
	dir := filepath.Dir(options.Path)
	switch {
	case ctx.Err() != nil:
		return warn(NameStore, "perigee doctor --timeout 5m", "the database could not be checked in time")
	case errors.Is(err, sqlstore.ErrOlder):
		return warn(NameStore, serveOnce, "%v", err)
	case errors.Is(err, sqlstore.ErrNewer):
		return fail(NameStore, newerFix(ctx, options), "%v", err)
	case errors.Is(err, sqlstore.ErrDamaged):
		return fail(NameStore, moveAway(dir, options.Path), "%v; without it, accounts have to sign in again, and what was recorded is lost", err)
	}
	return look(fail(NameStore, "perigee store", "%v", err))
}

// moveAway returns a command that moves a database out of the way, each time to another directory.
func moveAway(dir, path string) string {
	return fmt.Sprintf(`d=%s/damaged-$(date +%%s) && mkdir -p "$d" && mv %s* "$d"`, commandLine(dir), commandLine(path))
}

// newerFix returns the fix for a database that only a newer perigee may use. It moves that database
// to a directory of its own, and the newest copy that this program can use in its place; the log of
// the database would be applied to the copy, so it is moved, too. If there is no such copy, the fix
// changes nothing.
func newerFix(ctx context.Context, options sqlstore.Options) string {
	if !options.URL.IsZero() {
		return "perigee version"
	}
	for _, path := range slices.Backward(sqlstore.Copies(options.Path)) {
		if !usable(ctx, path) {
			continue
		}
		dir, name := filepath.Split(absolute(options.Path))
		name = commandLine(name)
		// touch makes a file that SQLite has removed, so that mv finds all that it is given.
		return fmt.Sprintf(`(cd %s && d=newer-$(date +%%s) && mkdir "$d" && touch %[2]s-wal %[2]s-shm && mv %[2]s %[2]s-wal %[2]s-shm "$d" && mv %[3]s %[2]s)`,
			commandLine(dir), name, commandLine(filepath.Base(path)))
	}
	return "perigee version"
}

// usable reports whether this program can use a copy of the database, if need be after a migration.
func usable(ctx context.Context, path string) bool {
	store, err := sqlstore.Open(ctx, sqlstore.Options{Path: path, ReadOnly: true})
	if err == nil {
		_ = store.Close()
	}
	return err == nil || errors.Is(err, sqlstore.ErrOlder)
}
