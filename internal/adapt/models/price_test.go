package models_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/simulator"
)

var today = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func mustLoad(t *testing.T, entries ...models.PriceEntry) *models.PriceTable {
	t.Helper()
	table, err := models.LoadPrices(entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func checkCost(t *testing.T, what string, got perigee.Cost, want float64) {
	t.Helper()
	if !got.Known || math.Abs(got.USD-want) > 1e-9 {
		t.Errorf("%s costs %v (%v), want %v", what, got, got.USD, want)
	}
}

func TestCostOfTokens(t *testing.T) {
	table := mustLoad(t)
	for _, test := range []struct {
		what, model string
		usage       perigee.Usage
		want        float64
	}{
		{"a million of each", "gemini-2.5-flash", perigee.Usage{Input: 100_000, Output: 1_000_000}, 0.03 + 2.50},
		{"cached input", "gemini-2.5-flash", perigee.Usage{Input: 100_000, Cached: 60_000}, 0.04*0.30 + 0.06*0.03},
		{"thinking is output", "gemini-2.5-flash", perigee.Usage{Output: 1000, Thinking: 900}, 0.0025},
		{"the longest short prompt", "gemini-2.5-pro", perigee.Usage{Input: 200_000, Cached: 100_000, Output: 1000}, 0.125 + 0.0125 + 0.01},
		{"a long prompt", "gemini-2.5-pro", perigee.Usage{Input: 200_001, Cached: 100_000, Output: 1000, Thinking: 500}, 100_001*2.5/1e6 + 0.025 + 0.015},
		{"a long prompt without a price of its own", "gemini-2.5-flash", perigee.Usage{Input: 400_000}, 0.12},
		{"a picture and thinking", "gemini-3-pro-image-preview", perigee.Usage{Input: 10, Output: 1500, Thinking: 500}, 20e-6 + 0.12 + 0.006},
		{"more cached than sent", "gemini-2.5-flash", perigee.Usage{Input: 10, Cached: 20}, 20 * 0.03 / 1e6},
		{"written for minutes and for an hour", "claude-opus-5", perigee.Usage{Input: 1_000_000, Cached: 100_000, Written: 300_000, WrittenHour: 100_000},
			0.6*5 + 0.1*0.5 + 0.2*6.25 + 0.1*10},
		{"written in a long prompt", "gemini-2.5-pro", perigee.Usage{Input: 300_000, Written: 200_000, WrittenHour: 50_000}, 0.1*2.5 + 0.15*3.125 + 0.05*2.5},
		{"OpenAI", "gpt-5.5", perigee.Usage{Input: 1_000_000, Cached: 400_000, Output: 10_000}, 0.6*5 + 0.4*0.5 + 0.3},
		{"an embedding", "gemini-embedding-001", perigee.Usage{Input: 1000}, 0.00015},
		{"nothing, of a model without a price", "gpt-oss-120b-medium", perigee.Usage{}, 0},
	} {
		checkCost(t, test.what, table.Cost(test.model, today, test.usage), test.want)
	}
}

func TestModelsByName(t *testing.T) {
	table := mustLoad(t)
	for model, want := range map[string]float64{ // of input
		"claude-opus-4-6-thinking":              5,
		"claude-opus-5-5":                       4,
		"claude-fable-5-1":                      10,
		"claude-sonnet-4-5-20250929":            3,
		"gpt-5-mini-2025-08-07":                 0.25,
		"gpt-5.1-codex":                         1.25,
		"gpt-6.1-terra":                         1,
		"models/gemini-2.5-pro":                 1.25,
		"Gemini-2.5-Pro":                        1.25,
		"gemini-2.5-pro(8192)":                  1.25,
		"gemini-3.1-pro-preview-customtools":    2,
		"gemini-3.5-flash-extra-low":            1.5,
		"gemini-3-flash-agent":                  1.5,
		"gemini-3-flash-preview":                0.5,
		"gemini-2.5-flash-lite-preview-09-2025": 0.1,
	} {
		if p, ok := table.Price(model, today); !ok || p.Input != want {
			t.Errorf("%s costs %v (%v), want %v", model, p.Input, ok, want)
		}
	}
	for _, model := range []string{"", "-preview", "gemini-3.8-flash-cyber", "gemini-2.5-flash-native-audio-latest", "gemini", "(other)"} {
		if p, ok := table.Price(model, today); ok {
			t.Errorf("%q costs %v", model, p)
		}
		if c := table.Cost(model, today, perigee.Usage{Input: 1}); c.Known || c.String() != "-" {
			t.Errorf("a token of %q costs %v", model, c)
		}
	}
}

// Models that the providers have today have a price, apart from those that they do not sell.
func TestKnownModelsHaveAPrice(t *testing.T) {
	table := mustLoad(t)
	without := map[string]bool{"gpt-oss-120b-medium": true}
	priced := 0
	for _, id := range simulator.Models() {
		_, ok := table.Price(id, today)
		if ok == without[id] {
			t.Errorf("%s: has a price %v", id, ok)
		}
		if ok {
			priced++
		}
	}
	if priced < 15 {
		t.Errorf("only %d models have a price", priced)
	}
	if _, err := time.Parse(time.DateOnly, table.Date); err != nil {
		t.Errorf("the date of the table: %v", err)
	}
}

func TestPriceChangesOnItsDay(t *testing.T) {
	table := mustLoad(t)
	year := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]float64{{}: 0.75, year.Add(-time.Second): 0.75, year: 1.5, year.AddDate(3, 0, 0): 1.5} {
		if p, ok := table.Price("gemini-3.8-flash", at); !ok || p.Input != want {
			t.Errorf("at %v it costs %v (%v), want %v", at, p.Input, ok, want)
		}
	}
}

func TestOwnPricesGoFirst(t *testing.T) {
	table := mustLoad(t,
		models.PriceEntry{Model: "*", Price: models.Price{Input: 9, Output: 9}},
		models.PriceEntry{Model: "gemini-*", Price: models.Price{Input: 8, Output: 8}},
		models.PriceEntry{Model: "gemini-2.5-*", Price: models.Price{Input: 7, Output: 7}},
		models.PriceEntry{Model: "gemini-2.5-pro", Price: models.Price{Input: 6, Cached: 1, Output: 60, LongInput: 12}},
		models.PriceEntry{Model: "free"},
		models.PriceEntry{Model: "free-cache", Price: models.Price{Input: 2, Cached: models.FreePrice, Output: 2}},
		models.PriceEntry{Model: "free-long-cache", Price: models.Price{Input: 2, Output: 2, LongInput: 4, LongCached: models.FreePrice}},
	)
	for model, want := range map[string]float64{"gemini-2.5-pro": 6, "gemini-2.5-flash": 7, "gemini-3-pro": 8, "claude-opus-4-6": 9, "free": 0} {
		if p, ok := table.Price(model, today); !ok || p.Input != want {
			t.Errorf("%s costs %v (%v), want %v", model, p.Input, ok, want)
		}
	}
	// What is not said is as it is elsewhere: cached input as input, long prompts as short ones.
	checkCost(t, "a long prompt", table.Cost("gemini-2.5-pro", today, perigee.Usage{Input: 1_000_000, Cached: 500_000, Output: 1000}), 12+0.06)
	checkCost(t, "a short prompt", table.Cost("gemini-2.5-pro", today, perigee.Usage{Input: 100_000, Cached: 50_000}), 0.3+0.05)
	checkCost(t, "cached input", table.Cost("gemini-2.5-flash", today, perigee.Usage{Input: 100_000, Cached: 50_000}), 0.7)
	checkCost(t, "free cached input", table.Cost("free-cache", today, perigee.Usage{Input: 100_000, Cached: 50_000}), 0.1)
	checkCost(t, "free cached input, long", table.Cost("free-cache", today, perigee.Usage{Input: 1_000_000, Cached: 500_000}), 1)
	checkCost(t, "free cached input of long prompts", table.Cost("free-long-cache", today, perigee.Usage{Input: 1_000_000, Cached: 500_000}), 2)
	checkCost(t, "cached input of short ones", table.Cost("free-long-cache", today, perigee.Usage{Input: 100_000, Cached: 50_000}), 0.2)
	checkCost(t, "a free model", table.Cost("free", today, perigee.Usage{Input: 5, Output: 5}), 0)
}

func TestPricesThatMakeNoSense(t *testing.T) {
	for _, p := range []models.Price{{Input: -1}, {Output: math.NaN()}, {Cached: math.Inf(1)}, {Thinking: 1, LongOutput: 2}} {
		if _, err := models.LoadPrices([]models.PriceEntry{{Model: "mine", Price: p}}); err == nil || !strings.Contains(err.Error(), "price of mine: ") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestUnpricedModels(t *testing.T) {
	table := mustLoad(t, models.PriceEntry{Model: "mine-*"})
	models := []string{"", "gemini-2.5-pro", "gpt-oss-120b-medium", "other", "mine-1", "gpt-*", "other"}
	for _, test := range []struct{ patterns, want []string }{
		{nil, []string{"gpt-oss-120b-medium", "other"}},
		{[]string{"gemini-*", "gpt-*"}, []string{"gpt-oss-120b-medium"}},
		{[]string{"gemini-*"}, nil},
	} {
		if got := table.Unpriced(models, test.patterns, today); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.patterns, got, test.want)
		}
	}
}
