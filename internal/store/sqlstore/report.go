package sqlstore

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// A part is a kind of thing that is kept, and the tables that it is in. The first has a row for
// each.
type part struct {
	what   string
	tables []string
	limit  func(s *Store, row *perigee.StoreRow)
}

// parts are all tables but those with a single row, or with a row for each start or key.
var parts = []part{
	{"calls", []string{"calls"}, nil},
	{"daily sums", []string{"daily_usage"}, nil},
	{"responses", []string{"stored_responses", "response_totals"}, func(s *Store, row *perigee.StoreRow) {
		row.MaxBytes = s.responses.limit.Load()
	}},
	{"response items", []string{"response_items"}, nil},
	{"signatures", []string{"signatures"}, func(s *Store, row *perigee.StoreRow) {
		row.MaxBytes, row.Counted = s.bounds.signatureLimit, row.Bytes
	}},
	{"sessions", []string{"sessions"}, func(s *Store, row *perigee.StoreRow) {
		row.MaxCount, row.Keep = s.bounds.sessions, int64(sessionTime/time.Second)
	}},
	{"accounts", []string{"accounts", "cooldowns", "account_generation"}, nil},
	{"audit", []string{"audit"}, func(_ *Store, row *perigee.StoreRow) {
		row.MaxCount, row.Keep = perigee.AuditMaxStored, int64(perigee.AuditMaxAge/time.Second)
	}},
}

// Report returns the number of rows and the bytes of each part of the database. It reads each page
// of an SQLite file that is not of calls, which takes seconds for gigabytes, and does not block
// writers.
func (s *Store) Report(ctx context.Context) (report perigee.StoreReport, err error) {
	defer s.db.Explain("read the sizes of", &err)
	report, sizes, err := s.db.Driver.Sizes(ctx, s.db.Read, "calls")
	if err != nil {
		return report, err
	}
	report.Database = s.db.Name
	for _, p := range parts {
		row := perigee.StoreRow{What: p.what}
		for _, table := range p.tables {
			row.Bytes += sizes[table]
		}
		if _, err := engine.One(ctx, s.db, `SELECT count(*) FROM `+p.tables[0], nil, &row.Count); err != nil {
			return report, err
		}
		if p.what == "responses" {
			if _, err := engine.One(ctx, s.db, selectKept, nil, &row.Counted, new(int64)); err != nil {
				return report, err
			}
		}
		if p.limit != nil {
			p.limit(s, &row)
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// Compact returns free space to the file system, as far as the engine can. Calls that are saved at
// the same time hardly wait.
func (s *Store) Compact(ctx context.Context) (done perigee.StoreCompacted, err error) {
	done.Database = s.db.Name
	if err := s.db.Writable("compact"); err != nil {
		return done, err
	}
	defer s.db.Explain("compact", &err)
	before, _, err := s.db.Driver.Sizes(ctx, s.db.Read, "calls")
	if err != nil {
		return done, err
	}
	done.Note, err = s.db.Driver.Compact(ctx, s.db.Write, tableNames())
	if err != nil {
		return done, err
	}
	after, _, err := s.db.Driver.Sizes(ctx, s.db.Read, "calls")
	done.Before, done.After = before.Bytes, after.Bytes
	done.Freed = max(0, before.Bytes-after.Bytes)
	s.logger.InfoContext(ctx, "database compacted", "database", done.Database, "before", done.Before, "after", done.After)
	return done, err
}

// tableNames returns all tables of the parts.
func tableNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.tables...)
	}
	return names
}
