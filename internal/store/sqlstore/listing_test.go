package sqlstore

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/await"
)

// A listing has the same calls with the indexes by names as without them: also when there is
// no time to use them, and when many calls have the same time.
func TestListingsAreTheSameWithIndexes(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	mustUpkeep(t, s, time.Time{})
	s.known.limit = 2 // most sums are under otherName
	name := rapid.SampledFrom([]string{"", "x", "xy", "Z", "ü", "\xff", "a\x00b", perigee.LanguageServerClient})
	pattern := rapid.SampledFrom([]string{"", "", "", "x", "x*", "*", "z", "nothing", "?"})
	calls := 0
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.SliceOfN(rapid.Custom(anyCall), 1, 20).Draw(t, "batch")
		for i := range batch {
			c := &batch[i]
			calls++
			c.ID, c.ModelAsked, c.Model = fmt.Sprint(calls), name.Draw(t, "asked"), name.Draw(t, "model")
			c.Client.Name, c.Client.Key, c.Account = name.Draw(t, "name"), name.Draw(t, "key"), name.Draw(t, "account")
			c.ReplayOf = rapid.SampledFrom([]string{"", "", "1"}).Draw(t, "replay")
		}
		mustSave(t, s, batch...)
		q := perigee.CallQuery{Model: pattern.Draw(t, "model"), Client: pattern.Draw(t, "client"), Account: pattern.Draw(t, "account"),
			Key: pattern.Draw(t, "key"), Errors: rapid.Bool().Draw(t, "errors"), Sent: rapid.Bool().Draw(t, "sent"),
			Limit: rapid.SampledFrom([]int{1, 2, 19, 20, 21, 30, 90}).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "since") {
			q.Since = anyTime(t)
		}
		if rapid.Bool().Draw(t, "before") {
			q.Before = fmt.Sprint(rapid.IntRange(1, calls).Draw(t, "cursor"))
		}
		s.listing.recent = calls + 1
		want := mustCalls(t, s, q)
		s.listing.recent = rapid.IntRange(1, 10).Draw(t, "recent")
		s.counting.many = rapid.SampledFrom([]int{0, 1000}).Draw(t, "many")
		s.listing.time = rapid.SampledFrom([]time.Duration{0, time.Hour, time.Hour}).Draw(t, "time")
		if got := mustCalls(t, s, q); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v:\ngot  %q\nwant %q", q, ids(got), ids(want))
		}
		_, ok, err := s.findByNames(t.Context(), q, noon.UnixMicro())
		if err != nil || ok != (s.listing.time > 0) {
			t.Fatalf("found by names: %v, %v", ok, err)
		}
	})
}

// A filter that no call fits is answered from the indexes alone.
func TestListingsReadNoOtherCalls(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	if _, ok, err := s.findByNames(t.Context(), perigee.CallQuery{Limit: 20}, 0); ok || err != nil {
		t.Errorf("without indexes: %v, %v", ok, err)
	}
	mustUpkeep(t, s, time.Time{})
	for _, q := range []perigee.CallQuery{{Model: "nothing", Limit: 20}, {Errors: true, Sent: true, Limit: 20},
		{Errors: true, Key: "k", Since: noon, Limit: 20}} {
		few := q.Key != ""
		query, args := namesQuery(q, noon.UnixMicro(), few)
		steps := 0
		err := s.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+query, args, func(row engine.Row) error {
			var id, parent, unused int
			var detail string
			err := row.Scan(&id, &parent, &unused, &detail)
			if strings.HasPrefix(detail, "SCAN c ") && !strings.Contains(detail, "COVERING INDEX") ||
				strings.HasPrefix(detail, "SCAN calls") && !strings.Contains(detail, "calls_uncounted") {
				t.Errorf("%+v reads calls: %s", q, detail)
			}
			if strings.Contains(detail, "USING COVERING INDEX ") {
				steps++
			}
			return err
		})
		want := 2*len(callNames) + 4
		if few {
			want++ // it looks for each pair
		}
		if err != nil || steps != want {
			t.Errorf("%+v has %d steps in the index, %v", q, steps, err)
		}
	}
}

// A writer interrupts a statement that yields, which changes nothing then. Alone, it is done.
func TestLongStatementsYieldToWriters(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	const rows = `INSERT INTO audit WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n LIMIT %d)
		SELECT i, i, '', '', '', '', '', '', '' FROM n`
	if done, err := s.db.ExecYielding(t.Context(), "test", fmt.Sprintf(rows, 1, 3)); err != nil || !done {
		t.Fatalf("alone: %v, %v", done, err)
	}
	waits := s.db.Write.Stats().WaitCount
	ended := make(chan bool, 1)
	go func() {
		done, err := s.db.ExecYielding(t.Context(), "test", fmt.Sprintf(rows, 4, -1)) // without end
		if err != nil {
			t.Error(err)
		}
		ended <- done
	}()
	await.Until(t, "the statement to begin", func() bool { return s.db.Write.Stats().InUse > 0 })
	if err := s.SaveCalls(t.Context(), []perigee.Call{fullCall("a")}); err != nil || s.db.Write.Stats().WaitCount == waits {
		t.Errorf("the writer: %v", err)
	}
	if await.Receive(t, ended, "the end of the statement") {
		t.Error("a statement without end is done")
	}
	entries := 0
	if _, err := engine.One(t.Context(), s.db, `SELECT count(*) FROM audit`, nil, &entries); err != nil || entries != 3 {
		t.Errorf("%d rows were kept, %v", entries, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if done, err := s.db.ExecYielding(short, "test", fmt.Sprintf(rows, 4, -1)); err == nil || done {
		t.Errorf("at the end of its context: %v, %v", done, err)
	}
}
