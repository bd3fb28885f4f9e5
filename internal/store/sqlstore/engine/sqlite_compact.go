package engine

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// selectSizes adds the pages of indexes to the pages of their table, for all tables but $1.
const selectSizes = `WITH trees(tbl, name) AS (SELECT tbl_name, name FROM sqlite_schema
	WHERE rootpage > 0 AND tbl_name <> $1 UNION ALL SELECT 'sqlite_schema', 'sqlite_schema')
	SELECT t.tbl, sum(d.pgsize) FROM trees AS t CROSS JOIN dbstat AS d ON d.name = t.name AND d.aggregate = TRUE GROUP BY 1`

// Sizes looks at each page of the tables but the largest, which has all other pages that are not
// free. That takes seconds for gigabytes.
func (f *sqliteFile) Sizes(ctx context.Context, db *sql.DB, largest string) (report perigee.StoreReport, tables map[string]int64, err error) {
	report.Engine = "sqlite"
	for name, into := range map[string]*int64{f.path: &report.Bytes, f.path + "-wal": &report.Log} {
		info, err := os.Stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return report, nil, err
		}
		if err == nil {
			*into = info.Size()
		}
	}
	report.Bytes += report.Log
	var pages pageCounts
	if pages, err = countPages(ctx, db); err != nil {
		return report, nil, err
	}
	report.Free = pages.free * pages.size
	tables, err = tableSizes(ctx, db, selectSizes, largest)
	rest := pages.ofTrees() * pages.size
	for _, size := range tables {
		rest -= size
	}
	tables[largest] = max(rest, 0) // other tables may have grown meanwhile
	return report, tables, err
}

// pageCounts are the pages of a database file.
type pageCounts struct{ size, all, free int64 }

// ofTrees returns how many pages tables and indexes have. All further pages are free, or maps for
// auto_vacuum, with 5 bytes for each of the pages that follow.
func (p pageCounts) ofTrees() int64 {
	maps := (p.all-2)/(p.size/5+1) + 1
	return p.all - p.free - maps
}

func countPages(ctx context.Context, db *sql.DB) (p pageCounts, err error) {
	for pragma, into := range map[string]*int64{"page_size": &p.size, "page_count": &p.all, "freelist_count": &p.free} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(into); err != nil {
			return p, err
		}
	}
	return p, nil
}

const (
	// returnSome returns 256 pages in one transaction. Writers wait for that, for some
	// milliseconds.
	returnSome   = `PRAGMA incremental_vacuum(256)`
	compactSpace = 64 << 20 // on disk at most, for the log while pages are moved
)

// logWhileMoving returns the maximum size of the log while pages are moved: about the size of the
// file, and some for its index.
func logWhileMoving(pages pageCounts) int64 {
	return min(compactSpace, pages.all*pages.size+pages.all*pages.size/10+256<<10)
}

// Compact returns the free pages of the whole file.
func (f *sqliteFile) Compact(ctx context.Context, db *sql.DB, _ []string) (note string, err error) {
	pages, err := countPages(ctx, db)
	if err == nil {
		err = f.wantSpace("compacting", logWhileMoving(pages))
	}
	if err == nil {
		err = f.returnPages(ctx, db)
	}
	if err != nil {
		return "", err
	}
	return "", f.shorten(ctx, db)
}

// shorten moves the log into the file, which becomes shorter. If a reader prevents that, the next
// checkpoint does it: writers would wait as long as this does.
func (f *sqliteFile) shorten(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 200"); err != nil {
		return err
	}
	var busy, frames, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	restore(ctx, conn, "PRAGMA busy_timeout = 5000")
	return err
}

// returnPages moves pages from the end of the file to free ones, a few at a time. Other
// transactions can run between two of them.
func (f *sqliteFile) returnPages(ctx context.Context, db *sql.DB) error {
	for {
		pages, err := countPages(ctx, db)
		if err != nil || pages.free == 0 {
			return err
		}
		// Each row that is read is a page that was moved.
		rows, err := db.QueryContext(ctx, returnSome)
		if err := eachRow(rows, err, func(Row) error { return nil }); err != nil {
			return err
		}
		after, err := countPages(ctx, db)
		if err != nil || after.free >= pages.free && after.all >= pages.all {
			return err
		}
	}
}

// wantSpace returns an error if the disk of the database has fewer free bytes. If the free space is
// unknown, there is no error.
func (f *sqliteFile) wantSpace(doing string, bytes int64) error {
	free, known := atomicfile.Free(filepath.Dir(f.path))
	if !known || free >= bytes {
		return nil
	}
	return perigee.Errorf(perigee.ClassUnavailable, "%s %s needs %d KiB, and its disk has %d KiB left",
		doing, f.path, bytes>>10, free>>10).WithHint("%s", freeSpace)
}
