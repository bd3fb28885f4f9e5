package models_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

// A storeRig has the same parts for every question, and remembers the times that it was asked
// about.
type storeRig struct {
	parts []perigee.UsagePart
	calls []perigee.Call
	asked []perigee.UsageQuery
	err   error
}

func (s *storeRig) UsageParts(_ context.Context, q perigee.UsageQuery) ([]perigee.UsagePart, error) {
	s.asked = append(s.asked, q)
	return s.parts, s.err
}

func (s *storeRig) Calls(context.Context, perigee.CallQuery) ([]perigee.Call, error) {
	return s.calls, s.err
}

func part(group, model, upstream string, calls, input, long int64) perigee.UsagePart {
	return perigee.UsagePart{UsageRow: perigee.UsageRow{Group: group, Calls: calls, InputTokens: input}, Model: model,
		Upstream: upstream, Long: perigee.Usage{Input: long}}
}

// The provider's own cost counts in place of the list price, and the other calls of the group keep
// theirs.
func TestChargedCostsComeFirst(t *testing.T) {
	charged := part("k", "gemini-2.5-flash", "router", 3, 3_000_000, 0)
	charged.OutputTokens, charged.ChargedCalls = 30, 2
	charged.Charged = perigee.Usage{Input: 2_000_000, Output: 30, Charged: perigee.USD(0.07)}
	unknown := part("u", "novel", "router", 3, 30, 0)
	unknown.ChargedCalls, unknown.Charged = 2, perigee.Usage{Input: 20, Charged: perigee.USD(0.5)}
	free := part("f", "novel", "router", 1, 30, 0)
	free.ChargedCalls, free.Charged = 1, perigee.Usage{Input: 30, Charged: perigee.USD(0)}
	book := models.NewPriceBook(mustLoad(t))
	rows, err := book.Reader(&storeRig{parts: []perigee.UsagePart{charged, unknown, free}}).Usage(t.Context(), perigee.UsageQuery{By: perigee.ByKey})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	checkCost(t, "two charged calls and one at list price", rows[0].CostUSD, 0.07+0.3)
	checkCost(t, "a free call", rows[1].CostUSD, 0)
	checkCost(t, "calls of a model without a price", rows[2].CostUSD, 0.5)
	if rows[0].UnpricedCalls != 0 || rows[1].UnpricedCalls+rows[2].UnpricedCalls != 1 {
		t.Errorf("got %+v", rows)
	}
	call := perigee.Call{Model: "gemini-2.5-flash", Outcome: perigee.OutcomeDone, Usage: perigee.Usage{Input: 1_000_000, Charged: perigee.USD(0.01)}}
	checkCost(t, "a charged call", book.CallCost(&call), 0.01)
}

// Servers on this machine cost nothing, unless the configuration says what they cost.
func TestLocalServersAreFree(t *testing.T) {
	book := models.NewPriceBook(mustLoad(t, models.PriceEntry{Model: "mine", Price: models.Price{Input: 2, Output: 2}})).AddLocal("vllm")
	for model, want := range map[string]float64{"gemini-2.5-flash": 0, "unknown": 0, "mine": 2} {
		call := perigee.Call{Model: model, Upstream: "vllm", Outcome: perigee.OutcomeDone, Usage: perigee.Usage{Input: 1_000_000}}
		checkCost(t, model, book.CallCost(&call), want)
	}
	call := perigee.Call{Model: "gemini-2.5-flash", Upstream: "studio", Outcome: perigee.OutcomeDone, Usage: perigee.Usage{Input: 1_000_000}}
	checkCost(t, "another upstream", book.CallCost(&call), 0.3)
}

func TestUsageIsPriced(t *testing.T) {
	store := &storeRig{parts: []perigee.UsagePart{
		part("laptop", "gemini-2.5-pro", "studio", 2, 1_000_000, 600_000), // 400,000 at 1.25 and 600,000 at 2.50
		part("laptop", "gemini-2.5-flash", "studio", 1, 1_000_000, 1_000_000),
		part("laptop", "gpt-oss-120b-medium", "antigravity", 3, 5, 0),
		part("laptop", "gpt-oss-120b-medium", "antigravity-2", 4, 0, 0), // failed
		part("ci", "gpt-oss-120b-medium", "antigravity", 3, 7, 0),
		part("test", "gemini-2.5-pro", "simulator", 5, 1_000_000, 0),
		part("wrong", "", "", 6, 0, 0), // refused
	}}
	book := models.NewPriceBook(mustLoad(t), "simulator")
	rows, err := book.Reader(store).Usage(t.Context(), perigee.UsageQuery{By: perigee.ByKey})
	want := []perigee.UsageRow{
		{Group: "laptop", Calls: 10, InputTokens: 2_000_005, CostUSD: perigee.USD(0.5 + 1.5 + 0.3), UnpricedCalls: 3},
		{Group: "test", Calls: 5, InputTokens: 1_000_000, CostUSD: perigee.USD(0)},
		{Group: "ci", Calls: 3, InputTokens: 7, UnpricedCalls: 3},
		{Group: "wrong", Calls: 6, CostUSD: perigee.USD(0)},
	}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("got  %+v, %v\nwant %+v", rows, err, want)
	}
	store.err = errors.New("away")
	if _, err := book.Reader(store).Usage(t.Context(), perigee.UsageQuery{}); !errors.Is(err, store.err) {
		t.Errorf("got %v", err)
	}
}

// Calls before and after the change of a price are asked for apart.
func TestUsageAcrossAChangeOfPrices(t *testing.T) {
	store := &storeRig{parts: []perigee.UsagePart{part("m", "gemini-3.8-flash", "studio", 1, 1_000_000, 0)}}
	book := models.NewPriceBook(mustLoad(t))
	year := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name       string
		now        time.Time
		query      perigee.UsageQuery
		wantPeriod int
		want       float64
	}{
		{"before it", today, perigee.UsageQuery{}, 1, 0.75},
		{"after it", year, perigee.UsageQuery{}, 2, 0.75 + 1.5},
		{"of a time before it", year, perigee.UsageQuery{Until: year}, 1, 0.75},
		{"of a time after it", year.AddDate(0, 1, 0), perigee.UsageQuery{Since: year}, 1, 1.5},
	} {
		store.asked = nil
		book.Now = func() time.Time { return test.now }
		rows, err := book.Reader(store).Usage(t.Context(), test.query)
		if err != nil || len(rows) != 1 || len(store.asked) != test.wantPeriod {
			t.Fatalf("%s: got %+v, %v, asked %+v", test.name, rows, err, store.asked)
		}
		checkCost(t, test.name, rows[0].CostUSD, test.want)
		if first, last := store.asked[0], store.asked[len(store.asked)-1]; first.Since != test.query.Since || last.Until != test.query.Until {
			t.Errorf("%s: asked %+v", test.name, store.asked)
		}
	}
}

func TestCallsArePriced(t *testing.T) {
	usage := perigee.Usage{Input: 1_000_000}
	store := &storeRig{calls: []perigee.Call{
		{Outcome: perigee.OutcomeDone, Model: "gemini-2.5-flash", Usage: usage},
		{Outcome: perigee.OutcomeCanceled, ModelAsked: "gemini-2.5-flash", Usage: usage},
		{Outcome: perigee.OutcomeDone, Model: "gemini-3.8-flash", Usage: usage, Time: time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)},
		{Outcome: perigee.OutcomeDone, Model: "gemini-2.5-flash", Upstream: "simulator", Usage: usage},
		{Outcome: perigee.OutcomeFailed, Model: "unknown"},
		{Outcome: perigee.OutcomeDone, Model: "unknown", Usage: usage},
		{Outcome: perigee.OutcomeOpen, Model: "gemini-2.5-flash"},
	}}
	book := models.NewPriceBook(mustLoad(t), "simulator")
	check := func(want ...perigee.Cost) {
		t.Helper()
		calls, err := book.Reader(store).Calls(t.Context(), perigee.CallQuery{})
		var got []perigee.Cost
		for i := range calls {
			got = append(got, calls[i].Cost)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	unknown, none := perigee.Cost{}, perigee.USD(0)
	check(perigee.USD(0.3), perigee.USD(0.3), perigee.USD(1.5), none, none, unknown, unknown)

	other := models.NewPriceBook(mustLoad(t, models.PriceEntry{Model: "unknown", Price: models.Price{Input: 2}}))
	book.Become(other)
	check(perigee.USD(0.3), perigee.USD(0.3), perigee.USD(1.5), perigee.USD(0.3), none, perigee.USD(2), unknown)
}
