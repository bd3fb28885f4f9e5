package sqlstore

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/await"
)

// fillAndForget stores responses of a mebibyte each and deletes all but the last.
func fillAndForget(t *testing.T, s *Store, responses int) (left *perigee.StoredResponse) {
	t.Helper()
	for n := range responses {
		if left != nil {
			if err := s.DeleteResponse(t.Context(), left.Key, left.ID); err != nil {
				t.Fatal(err)
			}
		}
		left = keptResponse(fmt.Sprint("resp_", n), "laptop")
		left.Input = list(fmt.Sprintf("%q", strings.Repeat(fmt.Sprintf("%07d ", n), 1<<17)))
		mustKeep(t, s, left)
		if n < responses-2 { // all are there at once before they go
			keep := *left
			keep.ID = fmt.Sprint("more_", n)
			keep.Input = list(fmt.Sprintf("%q", strings.Repeat(fmt.Sprintf("%07d-", n), 1<<17)))
			mustKeep(t, s, &keep)
		}
	}
	for n := range responses - 2 {
		if err := s.DeleteResponse(t.Context(), "laptop", fmt.Sprint("more_", n)); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

func TestCompact(t *testing.T) {
	perigeetest.Slow(t)
	options := freshSQLite(t)
	s := openWith(t, options)
	left := fillAndForget(t, s, 12)
	before, err := s.Report(t.Context())
	if err != nil || before.Free < 8<<20 {
		t.Fatalf("%d bytes are free, %v", before.Free, err)
	}
	fillAndForget(t, s, 10)
	mustKeep(t, s, left)
	if again, err := s.Report(t.Context()); err != nil || again.Bytes-again.Log > before.Bytes-before.Log+4<<20 {
		t.Errorf("free pages are not used again: %d and %d bytes, %v", before.Bytes-before.Log, again.Bytes-again.Log, err)
	}
	done, err := s.Compact(t.Context())
	if err != nil || done.Freed < 8<<20 || done.Before-done.After != done.Freed {
		t.Errorf("compacting: %+v, %v", done, err)
	}
	if info, err := os.Stat(options.Path); err != nil || info.Size() > 4<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	wantResponse(t, s, left)
	checkWhole(t, s)
	if done, err = s.Compact(t.Context()); err != nil || done.After > done.Before {
		t.Errorf("compacting what is compact: %+v, %v", done, err)
	}
}

func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	var verdict string
	if err := s.db.Write.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity: %q, %v", verdict, err)
	}
	checkResponses(t, s)
}

// Calls go on while the database is compacted.
func TestCompactWhileSaving(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	left := fillAndForget(t, s, 12)
	var saved atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var c conversation
		for n := 0; ctx.Err() == nil; n++ {
			if err := s.SaveResponse(context.WithoutCancel(ctx), c.goOn(fmt.Sprint("call", n), false, "go on", "yes")); err != nil {
				done <- err
				return
			}
			saved.Add(1)
		}
		done <- nil
	}()
	await.Until(t, "the first response to be saved", func() bool { return saved.Load() > 0 })
	before := saved.Load()
	compacted, err := s.Compact(t.Context())
	during := saved.Load() - before
	stop()
	if err := await.Receive(t, done, "the end of the writer"); err != nil {
		t.Error(err)
	}
	if err != nil || compacted.Freed < 4<<20 || during == 0 {
		t.Errorf("compacting: %+v, %v; %d responses were saved meanwhile", compacted, err, during)
	}
	wantResponse(t, s, left)
	checkWhole(t, s)
}

func TestCompactPostgres(t *testing.T) {
	needPostgres(t)
	s := openWith(t, freshPostgres(t))
	left := fillAndForget(t, s, 4)
	if done, err := s.Compact(t.Context()); err != nil || !strings.Contains(done.Note, "VACUUM FULL") {
		t.Errorf("compacting: %+v, %v", done, err)
	}
	wantResponse(t, s, left)
}

// TestReport: each part has its number and its size, and what limits it.
func TestReport(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		s := openWith(t, fresh(t))
		mustSave(t, s, fullCall("a"), fullCall("b"))
		mustKeep(t, s, keptResponse("resp_1", "laptop"))
		s.LimitResponses(1 << 20)
		report, err := s.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]perigee.StoreRow{}
		for _, row := range report.Rows {
			found[row.What] = row
			if row.Bytes <= 0 || row.Bytes > report.Bytes {
				t.Errorf("%s takes %d of %d bytes", row.What, row.Bytes, report.Bytes)
			}
		}
		if found["calls"].Count != 2 || found["daily sums"].Count != 1 || found["responses"].Count != 1 || found["response items"].Count != 1 {
			t.Errorf("the rows are %+v", report.Rows)
		}
		if row := found["responses"]; row.MaxBytes != 1<<20 || row.Counted < 100 {
			t.Errorf("responses are %+v", row)
		}
		for _, what := range []string{"signatures", "sessions", "accounts"} {
			if _, ok := found[what]; !ok {
				t.Errorf("there are no %s in %+v", what, report.Rows)
			}
		}
	})
}

// The size of calls is the number of their pages, although Report does not read them.
func TestReportCountsThePagesOfCalls(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	var calls []perigee.Call
	for n := range 6000 { // more pages than one map of auto_vacuum has
		calls = append(calls, fullCall(fmt.Sprint(n)))
	}
	mustSave(t, s, calls...)
	mustUpkeep(t, s, time.Time{})
	for _, removed := range []string{"FALSE", "length(id) < 4"} {
		if _, err := s.db.Exec(t.Context(), "remove", "DELETE FROM calls WHERE "+removed); err != nil {
			t.Fatal(err)
		}
		var want int64
		const pages = `SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = 'calls')`
		if _, err := engine.One(t.Context(), s.db, pages, nil, &want); err != nil || want < 821*4096 {
			t.Fatalf("%d bytes, %v", want, err)
		}
		report, err := s.Report(t.Context())
		if err != nil || report.Rows[0].What != "calls" || report.Rows[0].Bytes != want {
			t.Errorf("calls have %d bytes, %v, and are reported as %+v", want, err, report.Rows[0])
		}
	}
}
