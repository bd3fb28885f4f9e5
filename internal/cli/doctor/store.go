package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

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
		return fail(NameStore, newerFix(options), "%v", err)
	case errors.Is(err, sqlstore.ErrDamaged):
		return fail(NameStore, moveAway(dir, options.Path), "%v; without it, accounts have to sign in again, and what was recorded is lost", err)
	}
	return look(fail(NameStore, "perigee store", "%v", err))
}

// moveAway returns a command that moves a database out of the way, each time to another directory.
func moveAway(dir, path string) string {
	return fmt.Sprintf(`d=%s/damaged-$(date +%%s) && mkdir -p "$d" && mv %s* "$d"`, commandLine(dir), commandLine(path))
}

// newerFix returns the fix for a database that only a newer perigee may use: to restore the copy
// from before it, if there is one.
func newerFix(options sqlstore.Options) string {
	if options.URL.IsZero() {
		if copies := sqlstore.Copies(options.Path); len(copies) == 1 {
			// A log that is left would be applied to the copy.
			return "rm -f " + commandLine(options.Path+"-wal") + " " + commandLine(options.Path+"-shm") +
				" && mv " + commandLine(copies[0]) + " " + commandLine(options.Path)
		}
	}
	return "perigee version"
}
