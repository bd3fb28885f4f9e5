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
)

// testUsageModel saves random calls, some of them several times, removes some, and compares every
// sum with a plain one.
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
		groups := append([]string{""}, perigee.UsageGroups...)
		q := perigee.UsageQuery{
			By:   rapid.SampledFrom(groups).Draw(t, "by"),
			Each: rapid.SampledFrom(append(groups, "", "", "")).Draw(t, "each"),
			Key:  rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "key"),
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
		if got, want := mustParts(t, s, q), partsByHand(known, q); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v:\ngot  parts %+v\nwant parts %+v", q, got, want)
		}
	})
}

// A partKey is what all calls of a part have in common.
type partKey struct{ group, each, model, upstream string }

func mustParts(t failer, s *Store, q perigee.UsageQuery) map[partKey]perigee.UsagePart {
	t.Helper()
	parts, err := s.UsageParts(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	found := map[partKey]perigee.UsagePart{}
	for _, p := range parts {
		found[partKey{p.Group, p.Each, p.Model, p.Upstream}] = p
	}
	if len(found) != len(parts) {
		t.Fatal(len(parts), "parts are of", len(found), "kinds")
	}
	return found
}

func anyTime(t *rapid.T) time.Time {
	hours := rapid.IntRange(0, 96).Draw(t, "hours")
	zone := time.FixedZone("", 3600*rapid.IntRange(-11, 13).Draw(t, "zone"))
	return noon.Add(time.Duration(hours) * time.Hour).In(zone)
}

func anyCall(t *rapid.T) perigee.Call {
	name := rapid.SampledFrom([]string{"", "x", "y", "Z", "ü"})
	tokens := rapid.Int64Range(0, 2*perigee.LongPrompt)
	return perigee.Call{
		ID:       fmt.Sprint(rapid.IntRange(0, 200).Draw(t, "id")),
		Time:     anyTime(t),
		Client:   perigee.Client{Name: name.Draw(t, "client"), Key: name.Draw(t, "key"), Session: name.Draw(t, "session"), Agent: name.Draw(t, "agent")},
		Model:    name.Draw(t, "model"),
		Account:  name.Draw(t, "account"),
		Upstream: name.Draw(t, "upstream"),
		Outcome:  rapid.SampledFrom([]perigee.Outcome{"open", "done", "failed", "cut_off", "canceled"}).Draw(t, "outcome"),
		Usage: perigee.Usage{Input: tokens.Draw(t, "input"), Cached: tokens.Draw(t, "cached"),
			Output: tokens.Draw(t, "output"), Thinking: tokens.Draw(t, "thinking"), Written: tokens.Draw(t, "written"),
			WrittenHour: tokens.Draw(t, "hour"), Charged: rapid.SampledFrom([]perigee.Cost{{}, {}, perigee.USD(0), perigee.USD(0.25)}).Draw(t, "charged")},
	}
}

func sumByHand(calls map[string]perigee.Call, q perigee.UsageQuery) []perigee.UsageRow {
	groups := map[[2]string]*perigee.UsageRow{}
	for _, p := range partsByHand(calls, q) {
		name := [2]string{p.Group, p.Each}
		if groups[name] == nil {
			groups[name] = &perigee.UsageRow{Group: p.Group, Each: p.Each}
		}
		groups[name].Add(p.UsageRow)
	}
	var rows []perigee.UsageRow
	for _, r := range groups {
		rows = append(rows, *r)
	}
	perigee.SortUsage(rows, q)
	return rows
}

// partsByHand adds up calls one by one. The rows of calls whose names begin with "removed" are
// gone.
func partsByHand(calls map[string]perigee.Call, q perigee.UsageQuery) map[partKey]perigee.UsagePart {
	parts := map[partKey]perigee.UsagePart{}
	for id, c := range calls {
		if c.Time.Before(q.Since) || (!q.Until.IsZero() && !c.Time.Before(q.Until)) || (q.Key != "" && c.Client.Key != q.Key) {
			continue
		}
		if (onlyCalls(q.By) || onlyCalls(q.Each)) && strings.HasPrefix(id, "removed") {
			continue
		}
		names := map[string]string{"": c.Model, perigee.ByModel: c.Model, perigee.ByAccount: c.Account, perigee.ByKey: c.Client.Key,
			perigee.ByClient: c.Client.Name, perigee.ByUpstream: c.Upstream, perigee.BySession: c.Client.Session, perigee.ByAgent: c.Client.Agent,
			perigee.ByDay: c.Time.UTC().Format(time.DateOnly)}
		row := perigee.UsageRow{Group: names[q.By], Calls: 1, InputTokens: c.Usage.Input, CachedTokens: c.Usage.Cached,
			OutputTokens: c.Usage.Output, ThinkingTokens: c.Usage.Thinking, WrittenTokens: c.Usage.Written}
		if q.Each != "" {
			row.Each = names[q.Each]
		}
		if c.Outcome == perigee.OutcomeFailed || c.Outcome == perigee.OutcomeCutOff {
			row.Errors++
		}
		key := partKey{row.Group, row.Each, c.Model, c.Upstream}
		p, ok := parts[key]
		if !ok {
			p = perigee.UsagePart{UsageRow: perigee.UsageRow{Group: row.Group, Each: row.Each}, Model: c.Model, Upstream: c.Upstream}
		}
		p.Add(row)
		u := perigee.Usage{Input: c.Usage.Input, Cached: c.Usage.Cached, Written: c.Usage.Written, Output: c.Usage.Output}
		switch {
		case c.Usage.Charged.Known:
			u.Charged = c.Usage.Charged
			p.Charged, p.ChargedCalls = p.Charged.Plus(u), p.ChargedCalls+1
		case c.Usage.Input > 200_000:
			u.Written -= c.Usage.WrittenHour
			p.Long, p.WrittenHour = p.Long.Plus(u), p.WrittenHour+c.Usage.WrittenHour
		default:
			p.WrittenHour += c.Usage.WrittenHour
		}
		parts[key] = p
	}
	return parts
}
