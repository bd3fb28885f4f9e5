package sqlstore

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/await"
)

// mustUpkeep does all that there is to do, and returns how many times it took.
func mustUpkeep(t failer, s *Store, before time.Time) (times int) {
	t.Helper()
	for more := true; more; times++ {
		var err error
		if _, more, err = s.Upkeep(context.Background(), before); err != nil {
			t.Fatal(err)
		}
	}
	return times
}

// checkSums compares the daily sums with the rows that are in them. Nothing may have been removed.
func checkSums(t *testing.T, s *Store) {
	t.Helper()
	read := func(query string) map[sumKey]sum {
		m := map[sumKey]sum{}
		err := s.db.Query(t.Context(), query, nil, func(rows engine.Row) error {
			var n callCount
			err := rows.Scan(n.into()...)
			m[n.sumKey] = n.sum
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	kept := read(fromSums + " WHERE calls <> 0")
	want := read(`SELECT day, client_key, client_name, model, upstream, account, sum(` + strings.ReplaceAll(sumColumns, ", ", "), sum(") + `) FROM (` + fromCalls + ` WHERE counted) AS c GROUP BY 1, 2, 3, 4, 5, 6`)
	if len(want) == 0 || !reflect.DeepEqual(kept, want) {
		t.Errorf("the sums are\n%+v\nand the rows add up to\n%+v", kept, want)
	}
}

// The cost of a day's sums depends on the different calls that it has, not on how many.
func testSumsAreFew(t *testing.T, s *Store) {
	for n := range 10 {
		batch := make([]perigee.Call, 100)
		for i := range batch {
			batch[i] = fullCall(fmt.Sprint(n, "-", i))
		}
		mustSave(t, s, batch...)
	}
	var rows int
	if _, err := engine.One(t.Context(), s.db, `SELECT count(*) FROM daily_usage`, nil, &rows); err != nil || rows != 1 {
		t.Errorf("a thousand calls of one kind have %d sums, %v", rows, err)
	}
	checkSums(t, s)
}

// Names that callers make up have a bounded number of sums, and what a key, an account or an
// upstream cost stays exact: also when calls are saved anew, and when a range ends within the day.
func testInventedNames(t *testing.T, s *Store) {
	s.known.limit = 20
	invent := func(i int) perigee.Call {
		c := fullCall(fmt.Sprint("call-", i))
		c.Time = noon.Add(time.Duration(i%12) * time.Hour / 2)
		c.Client.Name, c.Model = fmt.Sprint("client-", i), fmt.Sprint("model-", i%70)
		c.Client.Key = fmt.Sprint("key-", i%2)
		c.Usage.Input = int64(i)
		return c
	}
	known := map[string]perigee.Call{}
	save := func(from, to int, change func(*perigee.Call)) {
		var batch []perigee.Call
		for i := from; i < to; i++ {
			c := invent(i)
			change(&c)
			known[c.ID] = c
			batch = append(batch, c)
		}
		mustSave(t, s, batch...)
	}
	save(0, 100, func(*perigee.Call) {})
	save(100, 200, func(*perigee.Call) {})
	s.known.rows = nil // as after a start
	save(50, 150, func(c *perigee.Call) { c.Usage.Output, c.Outcome = 7, perigee.OutcomeDone })
	var rows int
	if _, err := engine.One(t.Context(), s.db, `SELECT count(*) FROM daily_usage`, nil, &rows); err != nil || rows != 2*(20+1) {
		t.Errorf("200 invented names of two keys have %d sums, want 20 and one for the others each (%v)", rows, err)
	}
	for _, by := range []string{perigee.ByKey, perigee.ByAccount, perigee.ByUpstream, perigee.ByDay} {
		for _, until := range []time.Time{{}, noon.Add(2 * time.Hour), noon.Add(4*time.Hour + time.Minute)} {
			q := perigee.UsageQuery{By: by, Until: until}
			if got, want := mustUsage(t, s, q), sumByHand(known, q); !reflect.DeepEqual(got, want) {
				t.Errorf("by %s until %v:\ngot  %+v\nwant %+v", by, until, got, want)
			}
		}
	}
	for _, by := range []string{perigee.ByModel, perigee.ByClient} {
		q := perigee.UsageQuery{By: by, Until: noon.Add(2 * time.Hour)}
		var got, want perigee.UsageRow
		for _, r := range mustUsage(t, s, q) {
			got.Calls, got.InputTokens, got.Errors = got.Calls+r.Calls, got.InputTokens+r.InputTokens, got.Errors+r.Errors
		}
		for _, r := range sumByHand(known, q) {
			want.Calls, want.InputTokens, want.Errors = want.Calls+r.Calls, want.InputTokens+r.InputTokens, want.Errors+r.Errors
		}
		if got != want {
			t.Errorf("by %s: got %+v in all, want %+v", by, got, want)
		}
	}
}

// A batch whose commit was not confirmed is saved again.
func testSavedTwice(t *testing.T, s *Store) {
	batch := []perigee.Call{fullCall("a"), fullCall("b"), {ID: "c", Time: noon, Outcome: perigee.OutcomeOpen}}
	for range 3 {
		mustSave(t, s, batch...)
	}
	batch[2] = fullCall("c")
	batch[1].Usage.Input = 1000 // another state of a call that had ended
	mustSave(t, s, batch...)
	want := []perigee.UsageRow{{Group: "claude-sonnet", Calls: 3, InputTokens: 1200, CachedTokens: 120, WrittenTokens: 90, OutputTokens: 60, ThinkingTokens: 15, Errors: 3}}
	if got := mustUsage(t, s, perigee.UsageQuery{}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	checkSums(t, s)
}

// Rows go in small transactions, open calls stay, and usage is as before.
func testRemoval(t *testing.T, s *Store) {
	const calls = 2*upkeepRows + 1
	batch := make([]perigee.Call, calls)
	for i := range batch {
		batch[i] = fullCall(fmt.Sprint(i))
		batch[i].Time = noon.Add(time.Duration(i) * time.Minute)
	}
	open := perigee.Call{ID: "open", Time: noon.Add(-time.Hour), ModelAsked: "m", Outcome: perigee.OutcomeOpen}
	late := fullCall("late")
	late.Time = noon.Add(calls * time.Minute)
	mustSave(t, s, append(batch, open, late)...)
	before := map[string][]perigee.UsageRow{}
	for by := range usageGroups {
		if !onlyCalls(by) {
			before[by] = mustUsage(t, s, perigee.UsageQuery{By: by})
		}
	}
	left := func() int { return len(mustCalls(t, s, perigee.CallQuery{Limit: 2 * calls})) }
	for want := calls + 2; want > 2; want = max(want-upkeepRows, 2) {
		if got := left(); got != want {
			t.Errorf("there are %d rows, want %d", got, want)
		}
		if removed, more, err := s.Upkeep(t.Context(), late.Time); err != nil || more != (removed == upkeepRows) || want-removed < 2 {
			t.Fatal(removed, more, err)
		}
	}
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 2 || got[0].ID != "late" || got[1].ID != "open" {
		t.Errorf("what is left is %v", ids(got))
	}
	for by, want := range before {
		if got := mustUsage(t, s, perigee.UsageQuery{By: by}); !reflect.DeepEqual(got, want) {
			t.Errorf("by %q:\ngot  %+v\nwant %+v", by, got, want)
		}
	}
	mustUpkeep(t, s, time.Time{})
	if got := left(); got != 2 {
		t.Errorf("keeping all calls has left %d", got)
	}
}

// Calls that are not in the sums yet, such as those that were cut off, count from the first moment.
func TestUncountedCallsGetIntoTheSums(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		s := openWith(t, fresh(t))
		insert := `INSERT INTO calls (` + callColumns + `) VALUES ($1, $2, 'generate', 'gemini', FALSE,
			'codex', '', $3, '', 'm', '', 'u', 'a', $4, '', 0, '', '', 0, 0, 10, 0, 5, 0, 0, '', '', 0, '', '', '', 0, 0, -1)`
		add := func(id string, key string, outcome perigee.Outcome) {
			t.Helper()
			if _, err := s.db.Write.ExecContext(t.Context(), insert, id, noon.UnixMicro(), key, string(outcome)); err != nil {
				t.Fatal(err)
			}
		}
		const calls = upkeepRows + 10
		for i := range calls {
			add(fmt.Sprint(i), "laptop", perigee.OutcomeDone)
		}
		add("open", "laptop", perigee.OutcomeOpen)
		add("failed", "laptop", perigee.OutcomeFailed)
		check := func(when string, calls, errors int64) {
			t.Helper()
			want := []perigee.UsageRow{{Group: "laptop", Calls: calls, InputTokens: 10 * calls, OutputTokens: 5 * calls, Errors: errors}}
			for _, q := range []perigee.UsageQuery{{By: perigee.ByKey}, {By: perigee.ByKey, Key: "laptop", Since: noon.Truncate(24 * time.Hour)}, {By: perigee.ByKey, Since: noon}} {
				if got := mustUsage(t, s, q); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %+v, want %+v", when, got, want)
				}
			}
		}
		check("at first", calls+2, 1)
		if times := mustUpkeep(t, s, time.Time{}); times != 2 {
			t.Errorf("it took %d times", times)
		}
		check("in the sums", calls+2, 1)
		checkSums(t, s)
		if cut, err := s.CutOffOpenCalls(t.Context()); err != nil || cut != 1 {
			t.Fatal(cut, err)
		}
		check("cut off", calls+2, 2)
		mustUpkeep(t, s, time.Time{})
		check("cut off and in the sums", calls+2, 2)
		mustUpkeep(t, s, noon.Add(time.Hour))
		if left := mustCalls(t, s, perigee.CallQuery{}); len(left) > 0 {
			t.Errorf("%d rows are left", len(left))
		}
		for _, q := range []perigee.UsageQuery{{By: perigee.ByKey}, {By: perigee.ByKey, Until: noon}} {
			if got := mustUsage(t, s, q); len(got) != 1 || got[0].Calls != calls+2 {
				t.Errorf("without rows: got %+v", got)
			}
		}
		if got := mustUsage(t, s, perigee.UsageQuery{Since: noon}); len(got) != 0 {
			t.Errorf("what was removed of a day counts at its beginning: got %+v", got)
		}
	})
}

// Many uncounted calls are added to the sums once, also when several processes do so, when one is
// interrupted, and when Upkeep runs meanwhile.
func TestManyCallsAreCountedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		options := fresh(t)
		s, other := openWith(t, options), openWith(t, options)
		const calls = 501
		s.counting, other.counting = counting{rows: 20, many: calls - 1}, counting{rows: 20, many: calls - 1}
		batch := make([]perigee.Call, calls)
		for i := range batch {
			batch[i] = fullCall(fmt.Sprint(i))
			batch[i].Time = noon.Add(time.Duration(i) * time.Minute)
		}
		mustSave(t, s, batch...)
		if many, err := s.ManyUncounted(t.Context()); many || err != nil {
			t.Errorf("counted calls: %v, %v", many, err)
		}
		for _, statement := range []string{`UPDATE calls SET counted = FALSE`, `DELETE FROM daily_usage`} {
			if _, err := s.db.Write.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		s.known.rows = nil
		check := func(want bool) {
			t.Helper()
			if many, err := s.ManyUncounted(t.Context()); many != want || err != nil {
				t.Errorf("many uncounted: %v, %v, want %v", many, err, want)
			}
			rows := mustUsage(t, s, perigee.UsageQuery{})
			if len(rows) != 1 || rows[0].Calls != calls || rows[0].InputTokens != 100*calls || rows[0].Errors != calls {
				t.Errorf("got %+v", rows)
			}
		}
		check(true)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.CountCalls(canceled); err == nil {
			t.Error("an interrupted count reports no error")
		}
		var counting sync.WaitGroup
		for _, s := range []*Store{s, other} {
			counting.Go(func() {
				if _, _, err := s.Upkeep(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
				if err := s.CountCalls(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		await.Return(t, counting.Wait, "the counts")
		if err := s.CountCalls(t.Context()); err != nil { // on PostgreSQL each count may have met the lock of the other one
			t.Fatal(err)
		}
		check(false)
		checkSums(t, s)
	})
}

// What keys with tokens_per_day ask, and a listing of whole days, reads sums and the few rows that
// are not in them.
func TestUsageOfWholeDaysReadsNoCountedRows(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	mustUpkeep(t, s, time.Time{}) // makes the indexes by names
	midnight := noon.Truncate(24 * time.Hour)
	for _, q := range []perigee.UsageQuery{{By: perigee.ByKey, Since: midnight, Key: "laptop"}, {By: perigee.ByDay}, {Since: midnight.Add(-48 * time.Hour), Until: midnight}} {
		query, args := usageQuery(q, usageGroups[q.By])
		var plan []string
		err := s.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+query, args, func(rows engine.Row) error {
			var id, parent, unused int
			var detail string
			err := rows.Scan(&id, &parent, &unused, &detail)
			if strings.Contains(detail, " calls ") && !strings.Contains(detail, "calls_uncounted") &&
				!strings.Contains(detail, "(time_us>? AND time_us<?)") {
				t.Errorf("%+v reads calls: %s", q, detail)
			}
			plan = append(plan, detail)
			return err
		})
		if err != nil || !strings.Contains(strings.Join(plan, "\n"), "calls_uncounted") {
			t.Errorf("%+v: the plan is %q, %v", q, plan, err)
		}
	}
}

// Replicas that record calls of the same kind add to the same sums.
func TestReplicasAddToTheSameSums(t *testing.T) {
	needPostgres(t)
	options := freshPostgres(t)
	const replicas, batches, size = 3, 20, 30
	var stores []*Store
	for i := range replicas {
		options.Replica = fmt.Sprint("replica-", i)
		stores = append(stores, openWith(t, options))
	}
	var writing sync.WaitGroup
	for i, s := range stores {
		writing.Go(func() {
			for b := range batches {
				batch := make([]perigee.Call, size)
				for j := range batch {
					batch[j] = fullCall(fmt.Sprint(i, "-", b, "-", j))
					batch[j].Model = fmt.Sprint("model-", (i+j)%7) // in another order at each replica
				}
				if err := s.SaveCalls(t.Context(), batch); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Upkeep(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	await.Return(t, writing.Wait, "the writers")
	rows := mustUsage(t, stores[0], perigee.UsageQuery{By: perigee.ByKey})
	if len(rows) != 1 || rows[0].Calls != replicas*batches*size {
		t.Errorf("got %+v", rows)
	}
	checkSums(t, stores[0])
}

// A call that was cut off in the record because its replica seemed gone, and then ended well,
// counts once and as what it was.
func TestCallThatWasTakenForCutOffCountsOnce(t *testing.T) {
	needPostgres(t)
	options := freshPostgres(t)
	s := openWith(t, options)
	open := fullCall("c")
	open.Outcome, open.Usage = perigee.OutcomeOpen, perigee.Usage{}
	mustSave(t, s, open)
	if _, err := s.db.Write.ExecContext(t.Context(), `UPDATE replicas SET alive_until_us = 0`); err != nil {
		t.Fatal(err)
	}
	if cut, err := s.CutOffOpenCalls(t.Context()); err != nil || cut != 1 {
		t.Fatal(cut, err)
	}
	mustUpkeep(t, s, time.Time{})
	if rows := mustUsage(t, s, perigee.UsageQuery{}); len(rows) != 1 || rows[0].Errors != 1 || rows[0].InputTokens != 0 {
		t.Errorf("got %+v", rows)
	}
	done := fullCall("c")
	done.Outcome = perigee.OutcomeDone
	mustSave(t, s, done)
	if rows := mustUsage(t, s, perigee.UsageQuery{}); len(rows) != 1 || rows[0].Calls != 1 || rows[0].Errors != 0 || rows[0].InputTokens != 100 {
		t.Errorf("got %+v", rows)
	}
	checkSums(t, s)
}

// What calls with long prompts cost is known apart, also once their rows are gone.
func TestLongPromptsAreSummedApart(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		s := openWith(t, fresh(t))
		call := func(id string, input int64) perigee.Call {
			return perigee.Call{ID: id, Time: noon, Model: "m", Upstream: "u", Account: "a", Outcome: perigee.OutcomeDone,
				Client: perigee.Client{Name: "codex", Key: "laptop"}, Usage: perigee.Usage{Input: input, Cached: 1000, Output: 10, Thinking: 3}}
		}
		mustSave(t, s, call("short", perigee.LongPrompt), call("long", perigee.LongPrompt+1))
		want := map[partKey]perigee.UsagePart{{"laptop", "", "m", "u"}: {
			UsageRow: perigee.UsageRow{Group: "laptop", Calls: 2, InputTokens: 2*perigee.LongPrompt + 1, CachedTokens: 2000,
				OutputTokens: 20, ThinkingTokens: 6},
			Model: "m", Upstream: "u", Long: perigee.Usage{Input: perigee.LongPrompt + 1, Cached: 1000, Output: 10},
		}}
		for _, removed := range []bool{false, true} {
			if got := mustParts(t, s, perigee.UsageQuery{By: perigee.ByKey}); !reflect.DeepEqual(got, want) {
				t.Errorf("removed %v:\ngot  %+v\nwant %+v", removed, got, want)
			}
			mustUpkeep(t, s, noon.Add(time.Hour))
		}
		if left := mustCalls(t, s, perigee.CallQuery{}); len(left) > 0 {
			t.Errorf("%d rows are left", len(left))
		}
	})
}
