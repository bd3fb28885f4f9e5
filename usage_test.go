package perigee_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"perigee"
)

func TestCost(t *testing.T) {
	for _, test := range []struct {
		cost       perigee.Cost
		text, json string
	}{
		{perigee.Cost{}, "-", "null"},
		{perigee.USD(0), "$0.00", "0"},
		{perigee.USD(12.345), "$12.35", "12.345"},
		{perigee.USD(100), "$100.00", "100"},
		{perigee.USD(0.1 + 0.2), "$0.3000", "0.3"},
		{perigee.USD(0.0021), "$0.0021", "0.0021"},
		{perigee.USD(0.99999), "$1.0000", "0.99999"},
		{perigee.USD(0.0000075), "<$0.0001", "0.0000075"},
	} {
		data, err := json.Marshal(test.cost)
		if got := test.cost.String(); got != test.text || string(data) != test.json || err != nil {
			t.Errorf("%v: got %q and %s (%v), want %q and %s", test.cost.USD, got, data, err, test.text, test.json)
		}
		var back perigee.Cost
		if err := json.Unmarshal(data, &back); err != nil || back.String() != test.text {
			t.Errorf("%s is read as %v, %v", data, back, err)
		}
	}
	unknown := perigee.Cost{}
	if sum := unknown.Plus(unknown); sum.Known {
		t.Errorf("what is unknown adds up to %v", sum)
	}
	if sum := unknown.Plus(perigee.USD(1)); sum != perigee.USD(1) {
		t.Errorf("got %v", sum)
	}
}

func TestBoundsOfUsage(t *testing.T) {
	u := perigee.Usage{Input: -1, Cached: 1 << 62, Written: -1 << 62, WrittenHour: -3, Output: 5, Thinking: -2, Charged: perigee.USD(1)}
	u.Bound()
	if want := (perigee.Usage{Cached: 1 << 40, Output: 5, Charged: perigee.USD(1)}); u != want {
		t.Errorf("got %+v", u)
	}
}

func TestUsageInOrder(t *testing.T) {
	row := func(group, each string, tokens int64) perigee.UsageRow {
		return perigee.UsageRow{Group: group, Each: each, InputTokens: tokens - 1, OutputTokens: 1}
	}
	for _, test := range []struct {
		name       string
		query      perigee.UsageQuery
		rows, want []perigee.UsageRow
	}{
		{"most tokens first", perigee.UsageQuery{},
			[]perigee.UsageRow{row("b", "", 5), row("a", "", 5), row("c", "", 9)},
			[]perigee.UsageRow{row("c", "", 9), row("a", "", 5), row("b", "", 5)}},
		{"days by date", perigee.UsageQuery{By: perigee.ByDay},
			[]perigee.UsageRow{row("2026-01-02", "", 5), row("2026-01-01", "", 9)},
			[]perigee.UsageRow{row("2026-01-01", "", 9), row("2026-01-02", "", 5)}},
		{"groups stay together", perigee.UsageQuery{Each: perigee.ByClient},
			[]perigee.UsageRow{row("a", "x", 9), row("b", "x", 6), row("b", "y", 7), row("b", "z", 7)},
			[]perigee.UsageRow{row("b", "y", 7), row("b", "z", 7), row("b", "x", 6), row("a", "x", 9)}},
		{"days of a group", perigee.UsageQuery{By: perigee.ByKey, Each: perigee.ByDay},
			[]perigee.UsageRow{row("a", "2026-01-02", 9), row("a", "2026-01-01", 5)},
			[]perigee.UsageRow{row("a", "2026-01-01", 5), row("a", "2026-01-02", 9)}},
	} {
		if perigee.SortUsage(test.rows, test.query); !reflect.DeepEqual(test.rows, test.want) {
			t.Errorf("%s: got %+v", test.name, test.rows)
		}
	}
}
