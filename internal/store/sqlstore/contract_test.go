package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// TestStore is what every engine must do with calls.
func TestStore(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, s *Store)
	}{
		{"a call comes back as it was saved", testRoundTrip},
		{"an empty batch is no work", testEmptyBatch},
		{"a later state replaces the earlier one", testUpsert},
		{"a batch is kept whole or not at all", testBatchIsWhole},
		{"calls come newest first and in pages", testPages},
		{"calls are found by a prefix, and by what they are about", testCallFilters},
		{"usage sums up by each group", testUsageGroups},
		{"usage counts what failed", testUsageErrors},
		{"days are UTC days of the start", testUsageDays},
		{"usage keeps to its time and key", testUsageFilters},
		{"usage refuses an unknown group", testUsageUnknown},
		{"an empty store has no usage", testUsageEmpty},
		{"sums agree with adding up by hand", testUsageModel},
		{"invented names have few sums", testInventedNames},
		{"a day has few sums", testSumsAreFew},
		{"what is saved twice counts once", testSavedTwice},
		{"old calls are removed, and usage stays", testRemoval},
		{"readers see whole batches while writers write", testConcurrent},
		{"a canceled save keeps nothing and the next one works", testCanceledSave},
	}
	onNewerSchemas(t, func(t *testing.T, fresh fresh) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.run(t, openWith(t, fresh(t))) })
		}
	})
}

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func fullCall(id string) perigee.Call {
	return perigee.Call{
		ID:         id,
		Time:       noon.Add(123456 * time.Microsecond),
		Operation:  perigee.OperationGenerate,
		Dialect:    perigee.DialectAnthropic,
		Stream:     true,
		Client:     perigee.Client{Name: "claude-cli", Version: "2.1.0", Key: "laptop", Session: "s-1", Agent: "a-2", ParentAgent: "a-1"},
		ModelAsked: "sonnet",
		Model:      "claude-sonnet",
		Upstream:   "antigravity",
		Account:    "a@example.com",
		Outcome:    perigee.OutcomeCutOff,
		Class:      perigee.ClassCapacity,
		Status:     503,
		Error:      "no capacity – \"später\"",
		Finish:     "STOP",
		FirstByte:  12345678,
		Duration:   3*time.Second + 1,
		Usage:      perigee.Usage{Input: 100, Cached: 40, Written: 30, WrittenHour: 10, Output: 20, Thinking: 5, Charged: perigee.USD(0.0125)},
		BytesIn:    4096,
		Notes:      []string{"dropped logprobs", "renamed tool 1mcp.read"},
		Attempts: []perigee.Attempt{
			{Upstream: "antigravity", Account: "b@example.com", Why: "sticky: the first that is usable", Class: perigee.ClassExhausted, Error: "no quota", Took: time.Second},
			{Upstream: "antigravity", Account: "a@example.com", Why: "sticky: moved on", Took: 1},
		},
	}
}

// A failer is a *testing.T, a *testing.B or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func mustSave(t failer, s *Store, calls ...perigee.Call) {
	t.Helper()
	if err := s.SaveCalls(context.Background(), calls); err != nil {
		t.Fatal(err)
	}
}

func mustCalls(t failer, s *Store, q perigee.CallQuery) []perigee.Call {
	t.Helper()
	calls, err := s.Calls(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func mustUsage(t failer, s *Store, q perigee.UsageQuery) []perigee.UsageRow {
	t.Helper()
	rows, err := s.Usage(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func ids(calls []perigee.Call) []string {
	var names []string
	for _, c := range calls {
		names = append(names, c.ID)
	}
	return names
}

func wantClass(t *testing.T, err error, class perigee.Class) *perigee.Error {
	t.Helper()
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || e.Class != class {
		t.Fatalf("got error %v, want one of class %s", err, class)
	}
	return e
}

func testRoundTrip(t *testing.T, s *Store) {
	zone := time.FixedZone("east", 2*60*60)
	full := fullCall("full")
	elsewhere := fullCall("elsewhere")
	elsewhere.Time = full.Time.Add(-time.Hour).In(zone)
	bare := perigee.Call{ID: "bare"}
	mustSave(t, s, full, elsewhere, bare)

	elsewhere.Time = elsewhere.Time.UTC()
	want := []perigee.Call{full, elsewhere, bare}
	if got := mustCalls(t, s, perigee.CallQuery{}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := mustCalls(t, s, perigee.CallQuery{ID: "full"}); !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("by id: got %+v", got)
	}
	if got := mustCalls(t, s, perigee.CallQuery{ID: "nobody"}); len(got) != 0 {
		t.Errorf("by an id that is not there: got %+v", got)
	}
}

func testEmptyBatch(t *testing.T, s *Store) {
	mustSave(t, s)
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func testUpsert(t *testing.T, s *Store) {
	open := perigee.Call{ID: "c", Time: noon, ModelAsked: "m", Outcome: perigee.OutcomeOpen}
	mustSave(t, s, open)
	done := fullCall("c")
	done.Outcome = perigee.OutcomeDone
	mustSave(t, s, done)
	if got := mustCalls(t, s, perigee.CallQuery{}); !reflect.DeepEqual(got, []perigee.Call{done}) {
		t.Errorf("after open and done: got %+v", got)
	}
	// Both states in one batch: the later one counts.
	open.ID, done.ID = "d", "d"
	mustSave(t, s, open, done)
	if got := mustCalls(t, s, perigee.CallQuery{ID: "d"}); !reflect.DeepEqual(got, []perigee.Call{done}) {
		t.Errorf("after both in one batch: got %+v", got)
	}
}

func testBatchIsWhole(t *testing.T, s *Store) {
	err := s.SaveCalls(t.Context(), []perigee.Call{fullCall("a"), fullCall("b"), {ID: ""}})
	wantClass(t, err, perigee.ClassInternal)
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 0 {
		t.Errorf("a refused batch left %v", ids(got))
	}
	mustSave(t, s, fullCall("a"))
}

func TestOpenCallsAreCutOffAtTheNextStart(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		options := fresh(t)
		before, err := Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		done := fullCall("done")
		done.Outcome, done.Class, done.Error = perigee.OutcomeDone, "", ""
		mustSave(t, before, done, perigee.Call{ID: "open", Time: noon, ModelAsked: "m", Outcome: perigee.OutcomeOpen})
		mustClose(t, before)

		options.Replica = "the next one"
		s := openWith(t, options)
		for i, want := range []int{1, 0} {
			if got, err := s.CutOffOpenCalls(t.Context()); err != nil || got != want {
				t.Fatalf("time %d: got %d, %v, want %d", i+1, got, err, want)
			}
		}
		if got := mustCalls(t, s, perigee.CallQuery{ID: "done"}); !reflect.DeepEqual(got, []perigee.Call{done}) {
			t.Errorf("the call that was done is now %+v", got)
		}
		got := mustCalls(t, s, perigee.CallQuery{ID: "open"})[0]
		if got.Outcome != perigee.OutcomeCutOff || got.Class != perigee.ClassUnavailable || got.Error == "" {
			t.Errorf("the open call is now %+v", got)
		}
	})
}

func testPages(t *testing.T, s *Store) {
	// Two calls of one instant are the hard case for a cursor.
	for i, at := range []int{0, 1, 1, 2, 3} {
		mustSave(t, s, perigee.Call{ID: fmt.Sprintf("c%d", i), Time: noon.Add(time.Duration(at) * time.Second)})
	}
	var got []string
	q := perigee.CallQuery{Limit: 2}
	for page := mustCalls(t, s, q); len(page) > 0; page = mustCalls(t, s, q) {
		if len(page) > 2 {
			t.Fatalf("a page of %d", len(page))
		}
		got = append(got, ids(page)...)
		q.Before = page[len(page)-1].ID
	}
	if want := []string{"c4", "c3", "c2", "c1", "c0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err := s.Calls(t.Context(), perigee.CallQuery{Before: "nobody"})
	wantClass(t, err, perigee.ClassNotFound)
	_, err = s.Calls(t.Context(), perigee.CallQuery{Limit: -1})
	wantClass(t, err, perigee.ClassInvalid)
}

func testCallFilters(t *testing.T, s *Store) {
	call := func(id, asked, model, account, client, key string, outcome perigee.Outcome) perigee.Call {
		return perigee.Call{ID: id, Time: noon.Add(time.Duration(id[len(id)-1]) * time.Second), ModelAsked: asked, Model: model, Account: account,
			Outcome: outcome, Client: perigee.Client{Name: client, Key: key}}
	}
	replay := call("02ab4", "gemini-2.5-pro", "gemini-2.5-pro", "bob@example.com", "curl", "ci", perigee.OutcomeCanceled)
	replay.ReplayOf = "01ac3"
	mustSave(t, s, replay, call("02ab5", "gemini-2.5-flash-lite", "", "", perigee.LanguageServerClient, "", perigee.OutcomeDone),
		call("01ab1", "gpt-4o", "gemini-3-flash", "ada@example.com", "Codex", "laptop", perigee.OutcomeDone),
		call("01ab2", "gemini_2%", "", "", "curl", "", perigee.OutcomeFailed),
		call("01ac3", "gemini-2.5-pro", "gemini-2.5-pro", "bob@example.com", "codex", "ci", perigee.OutcomeCutOff))
	for _, test := range []struct {
		name  string
		query perigee.CallQuery
		want  string
	}{
		{"prefix of one", perigee.CallQuery{Prefix: "02ab4"}, "02ab4"},
		{"prefix of several", perigee.CallQuery{Prefix: "01a"}, "01ac3 01ab2 01ab1"},
		{"whole id as a prefix", perigee.CallQuery{Prefix: "01ab1"}, "01ab1"},
		{"no such prefix", perigee.CallQuery{Prefix: "1ab"}, ""},
		{"a prefix is no pattern", perigee.CallQuery{Prefix: "%"}, ""},
		{"errors", perigee.CallQuery{Errors: true}, "01ac3 01ab2"},
		{"model asked", perigee.CallQuery{Model: "GPT-*"}, "01ab1"},
		{"model that answered", perigee.CallQuery{Model: "gemini-?-flash"}, "01ab1"},
		{"characters that LIKE knows", perigee.CallQuery{Model: "gemini_2%"}, "01ab2"},
		{"client", perigee.CallQuery{Client: "codex"}, "01ac3 01ab1"},
		{"account", perigee.CallQuery{Account: "BOB@*"}, "02ab4 01ac3"},
		{"key", perigee.CallQuery{Key: "lap*"}, "01ab1"},
		{"sent by a client", perigee.CallQuery{Sent: true, Limit: 1}, "01ac3"},
		{"since", perigee.CallQuery{Since: noon.Add('3' * time.Second)}, "02ab5 02ab4 01ac3"},
		{"of language servers themselves", perigee.CallQuery{Client: "language-server"}, "02ab5"},
		{"all of them together", perigee.CallQuery{Errors: true, Client: "codex", Key: "ci", Model: "*pro", Limit: 1}, "01ac3"},
		{"on from one", perigee.CallQuery{Client: "curl", Before: "02ab4"}, "01ab2"},
	} {
		var ids []string
		for _, c := range mustCalls(t, s, test.query) {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func testUsageGroups(t *testing.T, s *Store) {
	small := perigee.Call{ID: "1", Time: noon, Model: "small", Account: "a", Upstream: "one", Outcome: perigee.OutcomeDone,
		Client: perigee.Client{Name: "codex", Key: "k1", Session: "s1", Agent: "a1"}, Usage: perigee.Usage{Input: 5, Cached: 1, Written: 2, Output: 2, Thinking: 1}}
	large := perigee.Call{ID: "2", Time: noon, Model: "large", Account: "b", Upstream: "other", Outcome: perigee.OutcomeDone,
		Client: perigee.Client{Name: "claude-cli", Key: "k2", Session: "s2", Agent: "a2"}, Usage: perigee.Usage{Input: 50, Cached: 10, Written: 20, WrittenHour: 20, Output: 20, Thinking: 10}}
	open := perigee.Call{ID: "3", Time: noon, Outcome: perigee.OutcomeOpen}
	again := small
	again.ID = "4"
	mustSave(t, s, small, large, open, again)

	for by, names := range map[string][3]string{
		"":                 {"large", "small", ""},
		perigee.ByModel:    {"large", "small", ""},
		perigee.ByAccount:  {"b", "a", ""},
		perigee.ByKey:      {"k2", "k1", ""},
		perigee.ByClient:   {"claude-cli", "codex", ""},
		perigee.ByUpstream: {"other", "one", ""},
		perigee.BySession:  {"s2", "s1", ""},
		perigee.ByAgent:    {"a2", "a1", ""},
	} {
		want := []perigee.UsageRow{
			{Group: names[0], Calls: 1, InputTokens: 50, CachedTokens: 10, WrittenTokens: 20, OutputTokens: 20, ThinkingTokens: 10},
			{Group: names[1], Calls: 2, InputTokens: 10, CachedTokens: 2, WrittenTokens: 4, OutputTokens: 4, ThinkingTokens: 2},
			{Group: names[2], Calls: 1},
		}
		if got := mustUsage(t, s, perigee.UsageQuery{By: by}); !reflect.DeepEqual(got, want) {
			t.Errorf("by %q:\ngot  %+v\nwant %+v", by, got, want)
		}
	}
}

func testUsageErrors(t *testing.T, s *Store) {
	for i, outcome := range []perigee.Outcome{
		perigee.OutcomeOpen, perigee.OutcomeDone, perigee.OutcomeFailed, perigee.OutcomeCutOff, perigee.OutcomeCanceled,
	} {
		mustSave(t, s, perigee.Call{ID: fmt.Sprint(i), Time: noon, Model: "m", Outcome: outcome})
	}
	mustSave(t, s, perigee.Call{ID: "replay", Time: noon, Model: "m", Outcome: perigee.OutcomeFailed, ReplayOf: "2"})
	want := []perigee.UsageRow{{Group: "m", Calls: 6, Errors: 2}}
	for name, q := range map[string]perigee.UsageQuery{"all days": {}, "a part of a day": {Since: noon, Until: noon.Add(time.Hour)},
		"the end of a day": {Until: noon.Add(time.Hour)}} {
		if got := mustUsage(t, s, q); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func testUsageDays(t *testing.T, s *Store) {
	east, west := time.FixedZone("east", 2*60*60), time.FixedZone("west", -8*60*60)
	for i, at := range []time.Time{
		time.Date(2026, 1, 1, 0, 30, 0, 0, east),                   // still New Year's Eve in UTC
		time.Date(2025, 12, 31, 20, 0, 0, 0, west),                 // already New Year in UTC
		time.Date(2025, 12, 31, 23, 59, 59, 999_999_000, time.UTC), // the last microsecond
		time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
	} {
		// The most tokens on the last day: days are in order all the same.
		mustSave(t, s, perigee.Call{ID: fmt.Sprint(i), Time: at, Usage: perigee.Usage{Input: int64(i)}})
	}
	want := []perigee.UsageRow{
		{Group: "2025-12-31", Calls: 2, InputTokens: 2},
		{Group: "2026-01-01", Calls: 2, InputTokens: 4},
		{Group: "2026-01-03", Calls: 1, InputTokens: 4},
	}
	if got := mustUsage(t, s, perigee.UsageQuery{By: perigee.ByDay}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func testUsageFilters(t *testing.T, s *Store) {
	for i := range 6 {
		mustSave(t, s, perigee.Call{ID: fmt.Sprint(i), Time: noon.Add(time.Duration(i) * time.Hour), Model: "m",
			Client: perigee.Client{Key: []string{"even", "odd"}[i%2]}})
	}
	zone := time.FixedZone("west", -5*60*60)
	tests := []struct {
		name  string
		query perigee.UsageQuery
		calls int64
	}{
		{"since includes its moment", perigee.UsageQuery{Since: noon.Add(4 * time.Hour).In(zone)}, 2},
		{"until excludes its moment", perigee.UsageQuery{Until: noon.Add(4 * time.Hour).In(zone)}, 4},
		{"between", perigee.UsageQuery{Since: noon.Add(time.Hour), Until: noon.Add(4 * time.Hour)}, 3},
		{"one key", perigee.UsageQuery{Key: "odd"}, 3},
		{"one key since", perigee.UsageQuery{Key: "odd", Since: noon.Add(2 * time.Hour)}, 2},
	}
	for _, test := range tests {
		got := mustUsage(t, s, test.query)
		if len(got) != 1 || got[0].Calls != test.calls {
			t.Errorf("%s: got %+v, want %d calls", test.name, got, test.calls)
		}
	}
}

func testUsageUnknown(t *testing.T, s *Store) {
	_, err := s.Usage(t.Context(), perigee.UsageQuery{By: "model; DROP TABLE calls"})
	if e := wantClass(t, err, perigee.ClassInvalid); e.Hint == "" {
		t.Error("it does not say what is known")
	}
}

func testUsageEmpty(t *testing.T, s *Store) {
	if got := mustUsage(t, s, perigee.UsageQuery{By: perigee.ByDay}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// testConcurrent has writers, and readers that must never see a part of a batch.
func testConcurrent(t *testing.T, s *Store) {
	const writers, batches, size = 4, 25, 100    // 10,000 calls
	look := make(chan struct{}, writers*batches) // a token after every fifth batch: reading without a pause would starve the writers
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for b := range batches {
				batch := make([]perigee.Call, size)
				for i := range batch {
					batch[i] = fullCall(fmt.Sprintf("%d-%d-%d", w, b, i))
					batch[i].Model = fmt.Sprintf("model-%d", i%7)
				}
				if err := s.SaveCalls(t.Context(), batch); err != nil {
					t.Error(err)
				}
				if b%5 == 0 {
					look <- struct{}{}
				}
			}
		})
	}
	for range 3 {
		reading.Go(func() {
			for range look {
				rows, err := s.Usage(t.Context(), perigee.UsageQuery{})
				if err != nil {
					t.Error(err)
					continue
				}
				var calls int64
				for _, r := range rows {
					calls += r.Calls
				}
				if calls == 0 || calls%size != 0 {
					t.Errorf("saw %d calls, which is no number of whole batches", calls)
				}
			}
		})
	}
	await.Return(t, writing.Wait, "the writers")
	close(look)
	await.Return(t, reading.Wait, "the readers")

	rows := mustUsage(t, s, perigee.UsageQuery{By: perigee.ByAccount})
	want := []perigee.UsageRow{{Group: "a@example.com", Calls: 10_000, InputTokens: 1_000_000, CachedTokens: 400_000, WrittenTokens: 300_000,
		OutputTokens: 200_000, ThinkingTokens: 50_000, Errors: 10_000}}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got %+v, want %+v", rows, want)
	}
}

func testCanceledSave(t *testing.T, s *Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SaveCalls(ctx, []perigee.Call{fullCall("a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	mustSave(t, s, fullCall("b"))
	if got := ids(mustCalls(t, s, perigee.CallQuery{})); !slices.Equal(got, []string{"b"}) {
		t.Errorf("got %v", got)
	}
}
