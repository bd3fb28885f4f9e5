package sqlstore

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perigee"
)

// testUsageModel saves random calls, some of them several times, removes some, and compares every sum with a plain one.
func testUsageModel(t *testing.T, s *Store) {
	known := map[string]perigee.Call{}
	removed := 0
	rapid.Check(t, func(t *rapid.T) {
		if rapid.IntRange(0, 4).Draw(t, "upkeep") == 0 {
			before := rapid.SampledFrom([]time.Time{{}, anyTime(t)}).Draw(t, "before")
			mustUpkeep(t, s, before)
			for id, c := range known {
				if !before.IsZero() && c.Time.Before(before) && c.Outcome != perigee.OutcomeOpen && !strings.HasPrefix(id, "removed") {
					// What is removed counts at the first moment of its day.
					delete(known, id)
					removed++
					c.Time = c.Time.UTC().Truncate(24 * time.Hour)
					known[fmt.Sprint("removed ", removed)] = c
				}
			}
			if rows := mustCalls(t, s, perigee.CallQuery{Limit: 1000}); len(rows) != len(known)-removed {
				t.Fatalf("there are %d rows of %d calls, of which %d were removed", len(rows), len(known), removed)
			}
		}
		batch := rapid.SliceOfN(rapid.Custom(anyCall), 1, 20).Draw(t, "batch")
		for _, c := range batch {
			known[c.ID] = c
		}
		mustSave(t, s, batch...)
		q := perigee.UsageQuery{
			By:  rapid.SampledFrom(append([]string{""}, perigee.UsageGroups...)).Draw(t, "by"),
			Key: rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "key"),
		}
		if rapid.Bool().Draw(t, "since") {
			q.Since = anyTime(t)
		}
		if rapid.Bool().Draw(t, "until") {
			q.Until = anyTime(t)
		}
		if got, want := mustUsage(t, s, q), sumByHand(known, q); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v:\ngot  %+v\nwant %+v", q, got, want)
		}
	})
}

func anyTime(t *rapid.T) time.Time {
	hours := rapid.IntRange(0, 96).Draw(t, "hours")
	zone := time.FixedZone("", 3600*rapid.IntRange(-11, 13).Draw(t, "zone"))
	return noon.Add(time.Duration(hours) * time.Hour).In(zone)
}

func anyCall(t *rapid.T) perigee.Call {
	name := rapid.SampledFrom([]string{"", "x", "y", "Z", "ü"})
	tokens := rapid.Int64Range(0, 1000)
	return perigee.Call{
		ID:       fmt.Sprint(rapid.IntRange(0, 200).Draw(t, "id")),
		Time:     anyTime(t),
		Client:   perigee.Client{Name: name.Draw(t, "client"), Key: name.Draw(t, "key")},
		Model:    name.Draw(t, "model"),
		Account:  name.Draw(t, "account"),
		Upstream: name.Draw(t, "upstream"),
		Outcome:  rapid.SampledFrom([]perigee.Outcome{"open", "done", "failed", "cut_off", "canceled"}).Draw(t, "outcome"),
		Usage: perigee.Usage{Input: tokens.Draw(t, "input"), Cached: tokens.Draw(t, "cached"),
			Output: tokens.Draw(t, "output"), Thinking: tokens.Draw(t, "thinking")},
	}
}

func sumByHand(calls map[string]perigee.Call, q perigee.UsageQuery) []perigee.UsageRow {
	groups := map[string]perigee.UsageRow{}
	for _, c := range calls {
		if c.Time.Before(q.Since) || (!q.Until.IsZero() && !c.Time.Before(q.Until)) || (q.Key != "" && c.Client.Key != q.Key) {
			continue
		}
		name := map[string]string{"": c.Model, perigee.ByModel: c.Model, perigee.ByAccount: c.Account, perigee.ByKey: c.Client.Key,
			perigee.ByClient: c.Client.Name, perigee.ByUpstream: c.Upstream, perigee.ByDay: c.Time.UTC().Format(time.DateOnly)}[q.By]
		r := groups[name]
		r.Group = name
		r.Calls++
		r.InputTokens += c.Usage.Input
		r.CachedTokens += c.Usage.Cached
		r.OutputTokens += c.Usage.Output
		r.ThinkingTokens += c.Usage.Thinking
		if c.Outcome == perigee.OutcomeFailed || c.Outcome == perigee.OutcomeCutOff {
			r.Errors++
		}
		groups[name] = r
	}
	var rows []perigee.UsageRow
	for _, r := range groups {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b perigee.UsageRow) int {
		if q.By == perigee.ByDay {
			return cmp.Compare(a.Group, b.Group)
		}
		return cmp.Or(cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens), cmp.Compare(a.Group, b.Group))
	})
	return rows
}
