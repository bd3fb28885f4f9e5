package sqlstore

import (
	"context"
	"time"

	"perigee"
)

// A part is a kind of thing that is kept, and the tables that it is in. The first has a row for each.
type part struct {
	what   string
	tables []string
	limit  func(s *Store, row *perigee.StoreRow)
}

// parts are all tables but those with a single row, or with a row for each start or key.
var parts = []part{
	{"calls", []string{"calls"}, nil},
	{"daily sums", []string{"daily_usage"}, nil},
	{"responses", []string{"stored_responses", "response_totals"}, (*Store).limitOfResponses},
	{"response items", []string{"response_items"}, nil},
	{"responses, old form", []string{"responses"}, nil},
	{"signatures", []string{"signatures"}, func(s *Store, row *perigee.StoreRow) { row.MaxBytes, row.Counted = s.bounds.signatureLimit, row.Bytes }},
	{"sessions", []string{"sessions"}, func(s *Store, row *perigee.StoreRow) {
		row.MaxCount, row.Keep = s.bounds.sessions, int64(sessionTime/time.Second)
	}},
	{"accounts", []string{"accounts", "cooldowns", "account_generation"}, nil},
	{"audit", []string{"audit"}, func(_ *Store, row *perigee.StoreRow) {
		row.MaxCount, row.Keep = perigee.AuditMaxStored, int64(perigee.AuditMaxAge/time.Second)
	}},
}

func (s *Store) limitOfResponses(row *perigee.StoreRow) { row.MaxBytes = s.responses.limit.Load() }

// Report says what is kept and what it takes on disk. It looks at each page of an SQLite file, which takes seconds for
// gigabytes, and keeps nothing from being written meanwhile.
func (s *Store) Report(ctx context.Context) (perigee.StoreReport, error) {
	report, sizes, err := s.engine.sizes(ctx, s.read)
	if err != nil {
		return report, s.explain("look through", err)
	}
	report.Database = s.engine.name()
	for _, p := range parts {
		row := perigee.StoreRow{What: p.what}
		there := false
		for _, table := range p.tables {
			size, ok := sizes[table]
			there = there || ok
			row.Bytes += size
		}
		if !there {
			continue
		}
		if err := s.one(ctx, `SELECT count(*) FROM `+p.tables[0], nil, &row.Count); err != nil {
			return report, s.explain("count "+p.what+" in", err)
		}
		if p.what == "responses, old form" && row.Count == 0 {
			continue
		}
		if p.what == "responses" {
			var first int64
			if err := s.one(ctx, selectKept, nil, &row.Counted, &first); err != nil {
				return report, s.explain("count "+p.what+" in", err)
			}
		}
		if p.limit != nil {
			p.limit(s, &row)
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// Compact gives free space back to the file system, as far as the engine can. online says that calls are being answered: then it
// does nothing that would keep them waiting for long.
func (s *Store) Compact(ctx context.Context, online bool) (perigee.StoreCompacted, error) {
	done := perigee.StoreCompacted{Database: s.engine.name()}
	if err := s.writable("compact the database"); err != nil {
		return done, err
	}
	before, _, err := s.engine.sizes(ctx, s.read)
	if err == nil {
		done.Note, err = s.engine.compact(ctx, s.write, online)
	}
	if err != nil {
		return done, s.explain("compact", err)
	}
	after, _, err := s.engine.sizes(ctx, s.read)
	done.Before, done.After = before.Bytes, after.Bytes
	done.Freed = max(0, before.Bytes-after.Bytes)
	s.logger.InfoContext(ctx, "database compacted", "database", done.Database, "before", done.Before, "after", done.After)
	return done, s.explain("look through", err)
}

// tableNames are all tables of the parts.
func tableNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.tables...)
	}
	return names
}
